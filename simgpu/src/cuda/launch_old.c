/*
 * Launches as they were before CUDA 4: a function's block shape and parameters are set one by one, then it is
 * launched on a grid; and one launch over several cards.
 *
 * What was set is kept with the function until it is set again. What it does not do: texture parameters.
 */
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define PARAMETER_BYTES 4096
#define NO_PRE_LAUNCH_SYNC CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC
#define NO_POST_LAUNCH_SYNC CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC

struct sim_old_launch {
    unsigned x, y, z, shared, size;
    char parameters[PARAMETER_BYTES];
};

static CUresult old_launch(const char *call, CUfunction handle, struct sim_old_launch **old)
{
    struct sim_function *function;
    CUresult result = sim_enter(call);
    if (!result)
        result = sim_function_resolve(handle, &function);
    if (result)
        return result;
    if (!function->old_launch)
        function->old_launch = calloc(1, sizeof(**old));
    *old = function->old_launch;
    return *old ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    struct sim_old_launch *old;
    CUresult result = old_launch(__func__, function, &old);
    if (result || x <= 0 || y <= 0 || z <= 0)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    old->x = (unsigned)x;
    old->y = (unsigned)y;
    old->z = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
    struct sim_old_launch *old;
    CUresult result = old_launch(__func__, function, &old);
    if (!result)
        old->shared = bytes;
    return result;
}

CUresult CUDAAPI cuParamSetSize(CUfunction function, unsigned int bytes)
{
    struct sim_old_launch *old;
    CUresult result = old_launch(__func__, function, &old);
    if (result || bytes > PARAMETER_BYTES)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    old->size = bytes;
    return CUDA_SUCCESS;
}

static CUresult set(const char *call, CUfunction function, int offset, const void *value, size_t size)
{
    struct sim_old_launch *old;
    CUresult result = old_launch(call, function, &old);
    if (result || !value || offset < 0 || size > PARAMETER_BYTES || (size_t)offset > PARAMETER_BYTES - size)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    memcpy(old->parameters + offset, value, size);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuParamSeti(CUfunction function, int offset, unsigned int value)
{
    return set(__func__, function, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetf(CUfunction function, int offset, float value)
{
    return set(__func__, function, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetv(CUfunction function, int offset, void *value, unsigned int size)
{
    return set(__func__, function, offset, value, size);
}

static CUresult launch_grid(const char *call, CUfunction function, int width, int height, CUstream stream)
{
    struct sim_old_launch *old;
    CUresult result = old_launch(call, function, &old);
    if (result || width <= 0 || height <= 0)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    size_t size = old->size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, old->parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, old->x, old->y, old->z, old->shared, stream,
                          NULL, extra);
}

CUresult CUDAAPI cuLaunch(CUfunction function)
{
    return launch_grid(__func__, function, 1, 1, NULL);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction function, int width, int height)
{
    return launch_grid(__func__, function, width, height, NULL);
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    return launch_grid(__func__, function, width, height, stream);
}

/* Each card's part goes into its own stream; they begin when their streams let them, not at once. */
CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count,
                                                      unsigned int flags)
{
    CUresult result = sim_enter(__func__);
    if (result || !list || count == 0 || count > (unsigned)sim_device_visible_count() ||
        flags > (NO_PRE_LAUNCH_SYNC | NO_POST_LAUNCH_SYNC))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !result; i++)
        if (!list[i].hStream || list[i].hStream == CU_STREAM_LEGACY || list[i].hStream == CU_STREAM_PER_THREAD)
            result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !result; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        result = cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
                                           p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->hStream, p->kernelParams);
    }
    return result;
}
