/*
 * See streams.h. Nothing is kept: whether a stream captures is the driver's to say, in 30 ns.
 */
#include "streams.h"

CUcontext stream_context(CUstream stream)
{
    CUcontext current = NULL, owner = NULL;
    if (WEIR_CALL(cuCtxGetCurrent, &current) != CUDA_SUCCESS)
        return NULL;
    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD || !weir_has_real(WEIR_ID_cuStreamGetCtx))
        return current;
    return WEIR_ASK(cuStreamGetCtx, stream, &owner) == CUDA_SUCCESS && owner == current ? current : NULL;
}

bool stream_captures(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!weir_has_real(WEIR_ID_cuStreamIsCapturing))
        return false;
    CUresult result = WEIR_CALL(cuStreamIsCapturing, stream, &status);
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult query(CUstream stream)
{
    return stream_captures(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : WEIR_ASK(cuStreamQuery, stream);
}

bool stream_idle(CUstream stream)
{
    return query(stream) == CUDA_SUCCESS;
}

bool stream_busy(CUstream stream)
{
    return query(stream) == CUDA_ERROR_NOT_READY;
}

/* Drivers before 12.8 cannot be asked. */
CUdevice stream_device(CUstream stream)
{
    CUdevice device;
    bool default_stream = (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
    CUresult result = default_stream || !weir_has_real(WEIR_ID_cuStreamGetDevice)
                          ? WEIR_REAL(cuCtxGetDevice)(&device)
                          : WEIR_ASK(cuStreamGetDevice, stream, &device);
    return result == CUDA_SUCCESS ? device : -1;
}

bool event_pending(CUevent event)
{
    return WEIR_ASK(cuEventQuery, event) == CUDA_ERROR_NOT_READY;
}
