/*
 * A pool that two processes share: its pointers lead both to the same bytes, and its maker alone is charged.
 */
#include "two_processes.h"

#define SIZE (4 * MIB)

static CUmemPoolProps shareable(void)
{
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static void make(void)
{
    CUmemPoolProps properties = shareable();
    CUmemPoolPtrExportData data;
    CUmemoryPool pool, private;
    CUdeviceptr first, pointer;
    int fd;
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemAllocFromPoolAsync(&first, SIZE, pool, NULL));
    OK(cuMemAllocFromPoolAsync(&pointer, SIZE, pool, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemsetD32(pointer, 33, 1));
    OK(cuMemPoolExportPointer(&data, pointer));
    hand_over(fd);
    say(&data, sizeof data);
    wait_turn();
    EQUAL(read_card(pointer + 4), 44);
    EQUAL(process_used(), CONTEXT + 32 * MIB);
    OK(cuMemFree(pointer));
    OK(cuMemFree(first));
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(process_used(), CONTEXT);
    turn_over();
    properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cuMemPoolCreate(&private, &properties));
    EQUAL(cuMemPoolExportToShareableHandle(&fd, private, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          CUDA_ERROR_INVALID_VALUE);
}

static void use(void)
{
    CUmemPoolPtrExportData data, spoilt = {0};
    CUmemoryPool pool;
    CUdeviceptr pointer, again;
    int fd = be_handed();
    void *handle = (void *)(intptr_t)fd;
    hear(&data, sizeof data);
    OK(cuMemPoolImportFromShareableHandle(&pool, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQUAL(cuMemAllocFromPoolAsync(&pointer, SIZE, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemPoolImportPointer(&pointer, pool, &spoilt), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolImportPointer(&pointer, pool, &data));
    EQUAL(read_card(pointer), 33);
    OK(cuMemsetD32(pointer + 4, 44, 1));
    EQUAL(process_used(), CONTEXT);
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuMemPoolImportPointer(&again, pool, &data));
    EQUAL(read_card(again + 4), 44);
    OK(cuMemFree(again));
    turn_over();
    wait_turn();
    EQUAL(cuMemPoolImportPointer(&pointer, pool, &data), CUDA_ERROR_INVALID_VALUE); /* its maker has freed it */
    OK(cuMemPoolDestroy(pool));
}

static void pool_by_descriptor(void)
{
    in_two_processes(make, use);
}

CASES(CASE(pool_by_descriptor))
