/*
 * What a context remembers: flags, cache preferences; and waiting for all of it.
 *
 * What it does not do: limits (limit.c), or partition anything (execution affinity, green contexts).
 */
#include "driver.h"

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !device)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_context_resolve(handle, &context);
    if (result || !device)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_context_resolve(handle, &context);
    if (result || !id)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !config)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *config = context->cache_config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || config > CU_FUNC_CACHE_PREFER_EQUAL)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    context->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !config)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *config = context->shared_config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    context->shared_config = config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void)
{
    struct sim_context *context;
    return sim_enter_context(__func__, &context);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result)
        return result;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = SIM_GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

static CUresult synchronize(struct sim_context *context)
{
    CUresult result = sim_capture_forbids_context(context);
    if (!result)
        result = sim_context_drain(context);
    sim_pools_synchronised();
    return !result && sim_device_lost(context->device) ? CUDA_ERROR_DEVICE_UNAVAILABLE : result;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    return result ? result : synchronize(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_context_resolve(handle, &context);
    return result ? result : synchronize(context);
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !affinity || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    affinity->type = type;
    affinity->param.smCount.val = sim_hardware->multiprocessors;
    return CUDA_SUCCESS;
}
