/*
 * The primary context of each card: counted, shared by all libraries of a process.
 *
 * It exists while somebody retains it, costs a context's bytes then, and is the same handle each time it comes
 * back. What it does not do: become current by being retained.
 */
#include "context.h"

static struct {
    struct sim_context context;
    unsigned count, flags;
} primaries[SIM_DEVICES];

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static CUresult check(const char *function, CUdevice ordinal)
{
    uint32_t device;
    CUresult result = sim_enter(function);
    return result ? result : sim_device_resolve(ordinal, &device);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice ordinal)
{
    CUresult result = check(__func__, ordinal);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&counting);
    primaries[ordinal].context.primary = true;
    if (primaries[ordinal].count == 0)
        result = sim_context_open(&primaries[ordinal].context, ordinal, primaries[ordinal].flags);
    if (!result) {
        primaries[ordinal].count++;
        *handle = (CUcontext)&primaries[ordinal].context;
    }
    pthread_mutex_unlock(&counting);
    return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    CUresult result = check(__func__, ordinal);
    if (result)
        return result;
    pthread_mutex_lock(&counting);
    if (primaries[ordinal].count == 0)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (--primaries[ordinal].count == 0)
        sim_context_close(&primaries[ordinal].context);
    pthread_mutex_unlock(&counting);
    return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal)
{
    return cuDevicePrimaryCtxRelease_v2(ordinal);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    CUresult result = check(__func__, ordinal);
    if (result)
        return result;
    pthread_mutex_lock(&counting);
    if (primaries[ordinal].count > 0) {
        primaries[ordinal].count = 0;
        sim_context_close(&primaries[ordinal].context);
    }
    pthread_mutex_unlock(&counting);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice ordinal)
{
    return cuDevicePrimaryCtxReset_v2(ordinal);
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags)
{
    CUresult result = check(__func__, ordinal);
    if (result || (flags & ~(unsigned)SIM_KNOWN_FLAGS))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&counting);
    primaries[ordinal].flags = flags;
    if (primaries[ordinal].count > 0)
        primaries[ordinal].context.flags = flags;
    pthread_mutex_unlock(&counting);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active)
{
    CUresult result = check(__func__, ordinal);
    if (result || !flags || !active)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&counting);
    *flags = primaries[ordinal].flags;
    *active = primaries[ordinal].count > 0;
    pthread_mutex_unlock(&counting);
    return CUDA_SUCCESS;
}
