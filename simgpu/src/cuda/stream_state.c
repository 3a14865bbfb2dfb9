/*
 * What can be asked of a stream, and waiting for it.
 *
 * Each call comes twice: the _ptsz one takes NULL for the thread's own default stream. While a stream captures
 * it has nothing to wait for: query and synchronize are refused and spoil the capture, as documented; so do the
 * questions for its device, flags and ID on an H200, and every one about the legacy stream while it must not be used.
 * What it does not do: attributes have no effect on the simulated card.
 */
#include <string.h>

#include "driver.h"

CUresult CUDAAPI cuStreamQuery(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_stream(stream);
    if (result)
        return result;
    return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream)
{
    return cuStreamQuery(sim_per_thread(stream));
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_stream(stream);
    if (!result)
        result = sim_stream_drain(stream);
    if (!result)
        sim_pools_synchronised();
    return result;
}

CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream)
{
    return cuStreamSynchronize(sim_per_thread(stream));
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int *priority)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_legacy_use(stream);
    if (result || !priority)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream stream, int *priority)
{
    return cuStreamGetPriority(sim_per_thread(stream), priority);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_own(stream);
    if (result || !flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags)
{
    return cuStreamGetFlags(sim_per_thread(stream), flags);
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long *id)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_own(stream);
    if (result || !id)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId_ptsz(CUstream stream, unsigned long long *id)
{
    return cuStreamGetId(sim_per_thread(stream), id);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_legacy_use(stream);
    if (result || !context)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)stream->context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context)
{
    return cuStreamGetCtx(sim_per_thread(stream), context);
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    CUresult result = cuStreamGetCtx(stream, context);
    if (!result && green)
        *green = NULL;
    return result;
}

CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    return cuStreamGetCtx_v2(sim_per_thread(stream), context, green);
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (!result)
        result = sim_capture_forbids_own(stream);
    if (result || !device)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream stream, CUdevice *device)
{
    return cuStreamGetDevice(sim_per_thread(stream), device);
}

/* ---- attributes: kept, without effect ---- */

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !value)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        stream->sync_policy = value->syncPolicy;
    else if (attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        stream->window = value->accessPolicyWindow;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                           const CUstreamAttrValue *value)
{
    return cuStreamSetAttribute(sim_per_thread(stream), attribute, value);
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !value)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof(*value));
    if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        value->syncPolicy = stream->sync_policy;
    else if (attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        value->accessPolicyWindow = stream->window;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    return cuStreamGetAttribute(sim_per_thread(stream), attribute, value);
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle)
{
    struct sim_stream *to, *from;
    CUresult result = sim_enter_stream(__func__, to_handle, &to);
    if (!result)
        result = sim_stream_resolve(from_handle, false, &from);
    if (result)
        return result;
    to->sync_policy = from->sync_policy;
    to->window = from->window;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCopyAttributes_ptsz(CUstream to, CUstream from)
{
    return cuStreamCopyAttributes(sim_per_thread(to), sim_per_thread(from));
}
