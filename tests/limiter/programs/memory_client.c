/*
 * A CUDA program that does what its arguments say, one after the other, and prints each result:
 *
 *   alloc:BYTES  managed:BYTES  pitch:WIDTH:ROWS  async:BYTES  pool:BYTES      → "NAME RESULT"; makes object N
 *   defaultpool:BYTES  latestpool:BYTES                                        (from the card's own pool, by name)
 *   create:BYTES  hostcreate:BYTES                                             (object N: a VMM handle)
 *   free:N  freeasync:N  release:N  map:N  unmap:N  retain:N  destroypool  trimpool  morepools:N
 *   context  destroycontext  retainprimary  releaseprimary  resetprimary  device:ORDINAL
 *   elsewhere:BYTES  info  infofree  infonothing  total  nvml  sync  fill:BYTES (allocates until refused)
 *   fork  (the rest runs in a child; the parent waits)   closeall   wait (until a byte comes on stdin)
 *
 * It finds every function by dlsym, as most programs do. Objects are numbered from 0 in the order they are made.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <nvml.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OBJECTS 16384

static void *cuda;
static uint64_t objects[OBJECTS], sizes[OBJECTS], addresses[OBJECTS];
static int made;
static CUcontext context;
static CUmemoryPool own_pool;
static CUdevice device;

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return function;
}

#define CALL(symbol, ...) ((__typeof__(&symbol))find(cuda, #symbol))(__VA_ARGS__)
#define CALL_V2(symbol, ...) ((__typeof__(&symbol##_v2))find(cuda, #symbol "_v2"))(__VA_ARGS__)

static void said(const char *name, int result)
{
    printf("%s %d\n", name, result);
    fflush(stdout);
}

static void keep(uint64_t object, uint64_t size)
{
    if (made == OBJECTS)
        exit(2);
    objects[made] = object;
    sizes[made++] = size;
}

static CUresult make_pool(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    return own_pool ? CUDA_SUCCESS : CALL(cuMemPoolCreate, &own_pool, &properties);
}

/* Makes pools until there are `count`, or one is refused; the last is the program's own. */
static CUresult make_more_pools(uint64_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        own_pool = NULL;
        result = make_pool();
    }
    return result;
}

/* From a pool that the program did not create, by a name that it asked for. */
static CUresult allocate_from_card(const char *name, CUdeviceptr *pointer, uint64_t size)
{
    CUmemoryPool pool;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUresult result = *name == 'd'
                          ? CALL(cuDeviceGetDefaultMemPool, &pool, device)
                          : CALL(cuMemGetDefaultMemPool, &pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED);
    return result == CUDA_SUCCESS ? CALL(cuMemAllocFromPoolAsync, pointer, size, pool, NULL) : result;
}

static CUresult allocate(const char *name, uint64_t size, uint64_t rows)
{
    CUdeviceptr pointer = 0;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    size_t pitch = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    if (strcmp(name, "alloc") == 0)
        result = CALL_V2(cuMemAlloc, &pointer, size);
    else if (strcmp(name, "managed") == 0)
        result = CALL(cuMemAllocManaged, &pointer, size, CU_MEM_ATTACH_GLOBAL);
    else if (strcmp(name, "pitch") == 0)
        result = CALL_V2(cuMemAllocPitch, &pointer, &pitch, size, rows, 4);
    else if (strcmp(name, "async") == 0)
        result = CALL(cuMemAllocAsync, &pointer, size, NULL);
    else if (strcmp(name, "pool") == 0 && (result = make_pool()) == CUDA_SUCCESS)
        result = CALL(cuMemAllocFromPoolAsync, &pointer, size, own_pool, NULL);
    else if (strcmp(name, "defaultpool") == 0 || strcmp(name, "latestpool") == 0)
        result = allocate_from_card(name, &pointer, size);
    else if (strcmp(name, "create") == 0 || strcmp(name, "hostcreate") == 0) {
        if (*name == 'h')
            where.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
        result = CALL(cuMemCreate, &handle, size, &where, 0);
        pointer = handle;
    }
    if (result == CUDA_SUCCESS)
        keep(pointer, size);
    return result;
}

static CUresult map(int number)
{
    CUdeviceptr address = 0;
    CUresult result = CALL(cuMemAddressReserve, &address, sizes[number], 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = CALL(cuMemMap, address, sizes[number], 0, objects[number], 0);
    addresses[number] = address;
    return result;
}

static CUresult on_object(const char *name, int number)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult result;
    if (strcmp(name, "free") == 0)
        return CALL_V2(cuMemFree, objects[number]);
    if (strcmp(name, "freeasync") == 0)
        return CALL(cuMemFreeAsync, objects[number], NULL);
    if (strcmp(name, "release") == 0)
        return CALL(cuMemRelease, objects[number]);
    if (strcmp(name, "map") == 0)
        return map(number);
    if (strcmp(name, "unmap") == 0)
        return CALL(cuMemUnmap, addresses[number], sizes[number]);
    result = CALL(cuMemRetainAllocationHandle, &handle, (void *)(uintptr_t)addresses[number]);
    keep(handle, sizes[number]);
    return result;
}

static CUresult on_context(const char *name)
{
    if (strcmp(name, "context") == 0)
        return CALL_V2(cuCtxCreate, &context, 0, device);
    if (strcmp(name, "destroycontext") == 0)
        return CALL_V2(cuCtxDestroy, context);
    if (strcmp(name, "releaseprimary") == 0)
        return CALL_V2(cuDevicePrimaryCtxRelease, device);
    if (strcmp(name, "resetprimary") == 0)
        return CALL_V2(cuDevicePrimaryCtxReset, device);
    CUresult result = CALL(cuDevicePrimaryCtxRetain, &context, device);
    return result == CUDA_SUCCESS ? CALL(cuCtxSetCurrent, context) : result;
}

static void nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
    nvmlMemory_t memory = {0};
    nvmlDevice_t card;
    ((__typeof__(&nvmlInit_v2))find(library, "nvmlInit_v2"))();
    ((__typeof__(&nvmlDeviceGetHandleByIndex_v2))find(library, "nvmlDeviceGetHandleByIndex_v2"))(0, &card);
    int result = ((__typeof__(&nvmlDeviceGetMemoryInfo))find(library, "nvmlDeviceGetMemoryInfo"))(card, &memory);
    printf("nvml %d %llu %llu %llu\n", result, memory.total, memory.free, memory.used);
}

/* Allocates in a stream of the second card while the first one's context is current. */
static CUresult allocate_elsewhere(uint64_t size)
{
    CUcontext other;
    CUstream stream;
    CUdeviceptr pointer;
    CUresult result = CALL(cuDevicePrimaryCtxRetain, &other, 1);
    if (result == CUDA_SUCCESS)
        result = CALL(cuCtxSetCurrent, other);
    if (result == CUDA_SUCCESS)
        result = CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = CALL(cuCtxSetCurrent, context);
    return result == CUDA_SUCCESS ? CALL(cuMemAllocAsync, &pointer, size, stream) : result;
}

static void query(const char *name)
{
    size_t free_bytes = 0, total = 0;
    if (strcmp(name, "nvml") == 0) {
        nvml();
    } else if (strcmp(name, "info") == 0) {
        int result = CALL_V2(cuMemGetInfo, &free_bytes, &total);
        printf("info %d %zu %zu\n", result, free_bytes, total);
    } else if (strcmp(name, "infonothing") == 0) {
        said(name, CALL_V2(cuMemGetInfo, NULL, NULL));
    } else if (strcmp(name, "infofree") == 0) {
        int result = CALL_V2(cuMemGetInfo, &free_bytes, NULL);
        printf("infofree %d %zu\n", result, free_bytes);
    } else {
        int result = CALL_V2(cuDeviceTotalMem, &total, device);
        printf("total %d %zu\n", result, total);
    }
}

static void continue_in_child(void)
{
    pid_t child = fork();
    int status = 1;
    if (child == 0)
        return;
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

static void other(const char *name, uint64_t size)
{
    char byte;
    if (strcmp(name, "fork") == 0)
        continue_in_child();
    else if (strcmp(name, "closeall") == 0)
        for (int fd = 3; fd < 256; fd++)
            close(fd);
    else if (strcmp(name, "wait") == 0) {
        said("waiting", 0);
        said("wait", (int)read(STDIN_FILENO, &byte, 1));
    }
    else if (strcmp(name, "device") == 0)
        device = (CUdevice)size;
    else if (strcmp(name, "sync") == 0)
        said(name, CALL(cuCtxSynchronize));
    else if (strcmp(name, "init") == 0)
        said(name, CALL(cuInit, 0));
    else if (strcmp(name, "elsewhere") == 0)
        said(name, allocate_elsewhere(size));
    else if (strcmp(name, "trimpool") == 0)
        said(name, CALL(cuMemPoolTrimTo, own_pool, 0));
    else if (strcmp(name, "morepools") == 0)
        said(name, make_more_pools(size));
    else if (strcmp(name, "destroypool") == 0)
        said(name, CALL(cuMemPoolDestroy, own_pool));
    else if (strcmp(name, "fill") == 0) {
        int count = 0;
        while (allocate("alloc", size, 0) == CUDA_SUCCESS)
            count++;
        printf("fill %d\n", count);
    } else {
        fprintf(stderr, "%s: not a command\n", name);
        exit(2);
    }
    fflush(stdout);
}

static bool is_one_of(const char *name, const char *list)
{
    char padded[64];
    snprintf(padded, sizeof padded, " %s ", name);
    return strstr(list, padded) != NULL;
}

int main(int argc, char **argv)
{
    cuda = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!cuda)
        return 2;
    for (int i = 1; i < argc; i++) {
        char name[32] = "";
        unsigned long long first = 0, second = 0;
        sscanf(argv[i], "%31[^:]:%llu:%llu", name, &first, &second);
        if (is_one_of(name, " alloc managed pitch async pool defaultpool latestpool create hostcreate "))
            said(name, allocate(name, first, second));
        else if (is_one_of(name, " free freeasync release map unmap retain "))
            said(name, on_object(name, (int)first));
        else if (is_one_of(name, " context destroycontext retainprimary releaseprimary resetprimary "))
            said(name, on_context(name));
        else if (is_one_of(name, " info infofree infonothing total nvml "))
            query(name);
        else
            other(name, first);
    }
    return 0;
}
