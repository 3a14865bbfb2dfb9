/* Somebody else's preloaded tool: counts allocations on the way to whatever comes next. */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

static int count;

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    __typeof__(&cuMemAlloc_v2) next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    count++;
    return next ? next(pointer, bytes) : CUDA_ERROR_NOT_FOUND;
}

__attribute__((destructor)) static void report(void)
{
    if (count)
        fprintf(stderr, "%d allocations\n", count);
}
