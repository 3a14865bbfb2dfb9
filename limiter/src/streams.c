/*
 * See streams.h. Nothing is kept: whether a stream captures is the driver's to say, in 30 ns.
 */
#include "streams.h"

CUcontext current_context(void)
{
    CUcontext current = NULL;
    return WEIR_CALL(cuCtxGetCurrent, &current) == CUDA_SUCCESS ? current : NULL;
}

CUcontext stream_context(CUstream stream)
{
    CUcontext owner = NULL;
    if (stream_is_default(stream) || !weir_has_real(WEIR_ID_cuStreamGetCtx))
        return current_context();
    return WEIR_ASK(cuStreamGetCtx, stream, &owner) == CUDA_SUCCESS ? owner : NULL;
}

bool context_enter(CUcontext context)
{
    return context != current_context() && WEIR_CALL(cuCtxPushCurrent_v2, context) == CUDA_SUCCESS;
}

void context_leave(void)
{
    CUcontext left;
    WEIR_CALL(cuCtxPopCurrent_v2, &left);
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
    CUresult result = stream_is_default(stream) || !weir_has_real(WEIR_ID_cuStreamGetDevice)
                          ? WEIR_REAL(cuCtxGetDevice)(&device)
                          : WEIR_ASK(cuStreamGetDevice, stream, &device);
    return result == CUDA_SUCCESS ? device : -1;
}

bool event_pending(CUevent event)
{
    return WEIR_ASK(cuEventQuery, event) == CUDA_ERROR_NOT_READY;
}
