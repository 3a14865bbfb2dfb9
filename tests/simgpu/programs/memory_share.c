/*
 * Two processes and one piece of card memory: by IPC handle, and by the descriptor of physical memory.
 *
 * The parent makes it, the child opens it, each sees what the other writes, and the card is charged once.
 * They take turns by bytes through a socket, so no case depends on time.
 */
#include <signal.h>
#include <stdbool.h>

#include "two_processes.h"

/* ---- IPC ---- */

static void make_ipc(size_t size)
{
    CUdeviceptr pointer;
    CUipcMemHandle handle;
    OK(cuMemAlloc(&pointer, size));
    OK(cuMemsetD32(pointer, 11, size / 4));
    OK(cuIpcGetMemHandle(&handle, pointer));
    EQUAL(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
    EQUAL(read_card(pointer), 11); /* it was moved into a file, and nothing is lost */
    say(&handle, sizeof handle);
    wait_turn();
    EQUAL(read_card(pointer + 4), 22);
    EQUAL(process_used(), CONTEXT + (size < 2 * MIB ? 2 * MIB : size));
    OK(cuMemFree(pointer));
    turn_over();
}

static void make_small(void)
{
    CUdeviceptr neighbour;
    OK(cuMemAlloc(&neighbour, 4096)); /* in the same block */
    OK(cuMemsetD32(neighbour, 99, 1024));
    make_ipc(4096);
    EQUAL(read_card(neighbour), 99);
}

static void make_large(void)
{
    make_ipc(8 * MIB);
}

static void use_ipc(bool gone_then)
{
    CUdeviceptr pointer, again;
    CUipcMemHandle handle, spoilt;
    hear(&handle, sizeof handle);
    OK(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    REQUIRE(again == pointer);
    EQUAL(process_used(), CONTEXT); /* its maker pays */
    EQUAL(read_card(pointer), 11);
    OK(cuMemsetD32(pointer + 4, 22, 1));
    EQUAL(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcCloseMemHandle(pointer));
    EQUAL(read_card(pointer), 11); /* opened twice */
    OK(cuIpcCloseMemHandle(pointer));
    EQUAL(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
    memset(&spoilt, 0x5a, sizeof spoilt);
    EQUAL(cuIpcOpenMemHandle(&pointer, spoilt, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
    turn_over();
    wait_turn();
    if (gone_then) /* the file of a small one serves its neighbours on */
        EQUAL(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
}

static void use_small(void)
{
    use_ipc(false);
}

static void use_large(void)
{
    use_ipc(true);
}

static void small_memory_by_ipc_handle(void)
{
    in_two_processes(make_small, use_small);
}

static void large_memory_by_ipc_handle(void)
{
    in_two_processes(make_large, use_large);
}

/* ---- descriptors ---- */

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size)
{
    CUdeviceptr pointer;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemAddressReserve(&pointer, size, 0, 0, 0));
    OK(cuMemMap(pointer, size, 0, handle, 0));
    OK(cuMemSetAccess(pointer, size, &access, 1));
    return pointer;
}

static void make_physical(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle, again, private;
    int fd;
    OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    CUdeviceptr pointer = map(handle, 4 * MIB);
    OK(cuMemsetD32(pointer, 33, 1));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EQUAL(process_used(), CONTEXT + 4 * MIB); /* imported where it was made: the same memory */
    OK(cuMemRelease(again));
    hand_over(fd);
    wait_turn();
    EQUAL(read_card(pointer + 4), 44);
    OK(cuMemUnmap(pointer, 4 * MIB));
    OK(cuMemRelease(handle));
    close(fd);
    EQUAL(process_used(), CONTEXT);
    EQUAL(card_used(), 2 * CONTEXT + 4 * MIB); /* the other one pays now */
    turn_over();
    wait_turn();
    EQUAL(card_used(), 2 * CONTEXT);
    turn_over();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cuMemCreate(&private, 2 * MIB, &prop, 0));
    EQUAL(cuMemExportToShareableHandle(&fd, private, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          CUDA_ERROR_INVALID_VALUE);
}

static void use_physical(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    int fd = be_handed();
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    EQUAL(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    CUdeviceptr pointer = map(handle, 4 * MIB);
    EQUAL(process_used(), CONTEXT);
    EQUAL(read_card(pointer), 33);
    OK(cuMemsetD32(pointer + 4, 44, 1));
    turn_over();
    wait_turn();
    EQUAL(process_used(), CONTEXT + 4 * MIB);
    EQUAL(read_card(pointer), 33);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(pointer, 4 * MIB));
    EQUAL(process_used(), CONTEXT);
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EQUAL(process_used(), CONTEXT + 4 * MIB); /* only the descriptor had kept it */
    OK(cuMemRelease(handle));
    turn_over();
    wait_turn();
    EQUAL(cuMemImportFromShareableHandle(&handle, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          CUDA_ERROR_INVALID_VALUE);
}

/* The maker is killed: what it made stays, and the other pays. */
static void make_and_die(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer;
    int fd;
    OK(cuMemAlloc(&pointer, 64 * MIB)); /* its own alone */
    OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    hand_over(fd);
    wait_turn();
    raise(SIGKILL);
}

static void outlive(pid_t maker)
{
    CUmemGenericAllocationHandle handle;
    int fd = be_handed(), status;
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EQUAL(process_used(), CONTEXT);
    EQUAL(card_used(), 2 * CONTEXT + 68 * MIB);
    turn_over();
    REQUIRE(waitpid(maker, &status, 0) == maker && WIFSIGNALED(status));
    EQUAL(process_used(), CONTEXT + 4 * MIB);
    EQUAL(card_used(), CONTEXT + 4 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(card_used(), CONTEXT);
}

static void physical_memory_outlives_its_maker(void)
{
    int ends[2];
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t maker = fork();
    peer = ends[!maker];
    close(ends[!!maker]);
    open_card();
    if (!maker)
        make_and_die();
    outlive(maker);
}

static void physical_memory_by_descriptor(void)
{
    in_two_processes(make_physical, use_physical);
}

CASES(CASE(small_memory_by_ipc_handle) CASE(large_memory_by_ipc_handle) CASE(physical_memory_by_descriptor)
      CASE(physical_memory_outlives_its_maker))
