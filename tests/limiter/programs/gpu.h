/* A program's way to the driver, found by dlsym, and a first context. */
#ifndef GPU_H
#define GPU_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../programs/require.h"

#define GPU(symbol) ((__typeof__(&symbol))gpu_find(#symbol))

static inline void *gpu_find(const char *name)
{
    void *function = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
    REQUIRE(function);
    return function;
}

static inline CUcontext gpu_open(void)
{
    CUcontext context;
    REQUIRE(GPU(cuInit)(0) == CUDA_SUCCESS);
    REQUIRE(GPU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    REQUIRE(GPU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    return context;
}

#endif
