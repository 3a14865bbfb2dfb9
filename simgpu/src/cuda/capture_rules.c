/*
 * What is refused while a stream captures.
 *
 * By the mode of the capture and of the calling thread: what is unsafe, for a capture does not see it. In every
 * mode: to ask a stream, event or context that is part of a capture how far it is, and work of the legacy stream
 * while a blocking stream captures. A refused call spoils the capture. All of it as the CUDA documentation has it,
 * which an H200 was asked about too.
 */
#include "capture.h"

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* Does this capture forbid unsafe calls in the calling thread? */
static bool forbids(const struct sim_capture *capture)
{
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (sim_capture_mine(capture))
        return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (sim_capture_count == 0)
        return result;
    pthread_mutex_lock(&sim_captures_lock);
    for (struct sim_capture *capture = sim_captures; capture; capture = capture->next)
        if (forbids(capture))
            result = sim_capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&sim_captures_lock);
    return result;
}

CUresult sim_enter_unsafe(const char *function)
{
    CUresult result = sim_enter(function);
    return result ? result : sim_capture_forbids();
}

CUresult sim_capture_forbids_own(struct sim_stream *stream)
{
    if (sim_capture_count == 0)
        return CUDA_SUCCESS;
    if (stream->capture)
        return sim_capture_spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return sim_capture_forbids_legacy_use(stream);
}

CUresult sim_capture_forbids_stream(struct sim_stream *stream)
{
    CUresult result = sim_capture_forbids_own(stream);
    return result ? result : sim_capture_forbids();
}

static bool has_member(const struct sim_capture *capture, const struct sim_context *context, bool blocking)
{
    for (const struct sim_stream *member = capture->members; member; member = member->next_member)
        if (member->context == context && !(blocking && member->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

/* `why`, where a (blocking) stream of the context captures. */
static CUresult if_member(const struct sim_context *context, bool blocking, bool spoils, CUresult why)
{
    CUresult result = CUDA_SUCCESS;
    if (sim_capture_count == 0)
        return result;
    pthread_mutex_lock(&sim_captures_lock);
    for (struct sim_capture *capture = sim_captures; capture; capture = capture->next)
        if (has_member(capture, context, blocking))
            result = spoils ? sim_capture_spoil(capture, why) : why;
    pthread_mutex_unlock(&sim_captures_lock);
    return result;
}

CUresult sim_capture_forbids_context(const struct sim_context *context)
{
    CUresult result = if_member(context, false, true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result ? result : sim_capture_forbids();
}

static CUresult legacy_use(const struct sim_stream *stream, bool spoils)
{
    if (stream != stream->context->legacy)
        return CUDA_SUCCESS;
    return if_member(stream->context, true, spoils, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult sim_capture_forbids_legacy_use(struct sim_stream *stream)
{
    return legacy_use(stream, true);
}

CUresult sim_capture_hides_legacy(struct sim_stream *stream)
{
    return legacy_use(stream, false);
}

CUresult sim_capture_forbids_event(const struct sim_recorder *recorder)
{
    if (recorder->capture) {
        pthread_mutex_lock(&sim_captures_lock);
        struct sim_capture *capture = sim_capture_find(recorder->capture);
        if (capture)
            capture->spoilt = true;
        pthread_mutex_unlock(&sim_captures_lock);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return sim_capture_forbids();
}
