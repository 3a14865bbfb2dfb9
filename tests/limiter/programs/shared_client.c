/*
 * A program that shares device memory with its like. It does what each line on its stdin says and answers with the
 * result of the call; what crosses goes into one end of a socket (argv[1]) and comes out of the other (argv[2]):
 *
 *   open                     to a context; every line but this one makes or names object N, from 0 on
 *   create:BYTES  release:N  map:N  unmap:N  export:N (makes a descriptor)  import:N (of a descriptor: a handle)
 *   send:N  recv (a descriptor)  shut:N (closes it)
 *   alloc:BYTES  free:N  give:N (the buffer's handle is sent)  take (a handle is received and opened)  close:N
 *   sparse (an array)  tile:N (maps handle N into it)  bare (unmaps that)  raze (destroys it)
 *
 * What it does not do: judge; the test does.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../programs/descriptors.h"
#include "gpu.h"

#define OBJECTS 256

static struct object {
    uint64_t name; /* handle, pointer or descriptor */
    size_t size;
    CUdeviceptr address; /* where it is mapped */
} objects[OBJECTS];

static int made, into, from;

static CUresult keep(CUresult result, uint64_t name, size_t size)
{
    if (result == CUDA_SUCCESS) {
        REQUIRE(made < OBJECTS);
        objects[made++] = (struct object){.name = name, .size = size};
    }
    return result;
}

static CUresult create(size_t size)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult result = GPU(cuMemCreate)(&handle, size, &where, 0);
    return keep(result, handle, size);
}

static CUresult export(const struct object *object)
{
    int fd = -1;
    CUresult result =
        GPU(cuMemExportToShareableHandle)(&fd, object->name, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return keep(result, (uint64_t)fd, object->size);
}

static CUresult import(const struct object *object)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = GPU(cuMemImportFromShareableHandle)(&handle, (void *)(uintptr_t)object->name,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return keep(result, handle, object->size);
}

static CUresult map(struct object *object)
{
    CUresult result = GPU(cuMemAddressReserve)(&object->address, object->size, 0, 0, 0);
    return result ? result : GPU(cuMemMap)(object->address, object->size, 0, object->name, 0);
}

/* One message: a size and a descriptor. */
static CUresult send_object(size_t size, int fd)
{
    send_descriptor(into, &size, sizeof size, fd);
    return CUDA_SUCCESS;
}

static CUresult receive_object(void)
{
    size_t size;
    int fd = receive_descriptor(from, &size, sizeof size);
    return keep(CUDA_SUCCESS, (uint64_t)fd, size);
}

static CUresult allocate(size_t size)
{
    CUdeviceptr pointer = 0;
    CUresult result = GPU(cuMemAlloc_v2)(&pointer, size);
    return keep(result, pointer, size);
}

static CUresult give(const struct object *object)
{
    CUipcMemHandle handle;
    CUresult result = GPU(cuIpcGetMemHandle)(&handle, object->name);
    REQUIRE(result || write(into, &handle, sizeof handle) == sizeof handle);
    return result;
}

static CUresult take(void)
{
    CUipcMemHandle handle;
    CUdeviceptr pointer = 0;
    REQUIRE(read(from, &handle, sizeof handle) == sizeof handle);
    CUresult result = GPU(cuIpcOpenMemHandle_v2)(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return keep(result, pointer, 0);
}

static CUarray array;

static CUresult make_sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 4096,
                                     .Height = 4096,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = CUDA_ARRAY3D_SPARSE};
    return GPU(cuArray3DCreate_v2)(&array, &shape);
}

/* The first tile; handle 0: nothing is mapped there any more. */
static CUresult map_tile(uint64_t handle)
{
    CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
                          .resource.array = array,
                          .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
                          .memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
                          .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                          .memHandle.memHandle = handle,
                          .deviceBitMask = 1};
    return GPU(cuMemMapArrayAsync)(&map, 1, NULL);
}

static int on_object(const char *name, struct object *object)
{
    if (!strcmp(name, "release"))
        return (int)GPU(cuMemRelease)(object->name);
    if (!strcmp(name, "map"))
        return (int)map(object);
    if (!strcmp(name, "unmap"))
        return (int)GPU(cuMemUnmap)(object->address, object->size);
    if (!strcmp(name, "tile"))
        return (int)map_tile(object->name);
    if (!strcmp(name, "export"))
        return (int)export(object);
    if (!strcmp(name, "import"))
        return (int)import(object);
    if (!strcmp(name, "send"))
        return (int)send_object(object->size, (int)object->name);
    if (!strcmp(name, "shut"))
        return close((int)object->name);
    if (!strcmp(name, "free"))
        return (int)GPU(cuMemFree_v2)(object->name);
    if (!strcmp(name, "give"))
        return (int)give(object);
    REQUIRE(!strcmp(name, "close"));
    return (int)GPU(cuIpcCloseMemHandle)(object->name);
}

static int run(const char *name, size_t value)
{
    if (!strcmp(name, "open"))
        return gpu_open() ? 0 : 1;
    if (!strcmp(name, "create"))
        return (int)create(value);
    if (!strcmp(name, "alloc"))
        return (int)allocate(value);
    if (!strcmp(name, "recv"))
        return (int)receive_object();
    if (!strcmp(name, "take"))
        return (int)take();
    if (!strcmp(name, "sparse"))
        return (int)make_sparse();
    if (!strcmp(name, "bare"))
        return (int)map_tile(0);
    if (!strcmp(name, "raze"))
        return (int)GPU(cuArrayDestroy)(array);
    REQUIRE(value < OBJECTS);
    return on_object(name, &objects[value]);
}

int main(int argc, char **argv)
{
    char line[128];
    REQUIRE(argc == 3);
    into = atoi(argv[1]);
    from = atoi(argv[2]);
    while (fgets(line, sizeof line, stdin)) {
        char name[32] = "";
        unsigned long long value = 0;
        sscanf(line, "%31[a-z]:%llu", name, &value);
        printf("%d\n", run(name, value));
        fflush(stdout);
    }
    return 0;
}
