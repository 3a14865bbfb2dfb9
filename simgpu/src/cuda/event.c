/*
 * Events: recorded in streams, waited for, and the time between two of them.
 *
 * Times are those of the simulated timeline, exact to the nanosecond. An event recorded while its stream
 * captures belongs to the capture: it stands for nodes, not for a moment, and may not be queried.
 * What it does not do: export to other processes (event_ipc.c).
 */
#include <stdlib.h>

#include "driver.h"
#include "graph.h"
#include "objects.h"

#define KNOWN_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

CUresult CUDAAPI cuEventCreate(CUevent *handle, unsigned int flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result)
        return result;
    if (!handle || (flags & ~(unsigned)KNOWN_FLAGS) ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_recorder *recorder = calloc(1, sizeof(*recorder));
    if (!recorder)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    recorder->event = sim_event_create(sim_self_index());
    sim_unlock();
    if (recorder->event == SIM_NONE) {
        free(recorder);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    recorder->magic = SIM_EVENT_MAGIC;
    recorder->context = context;
    recorder->flags = flags;
    *handle = (CUevent)recorder;
    return CUDA_SUCCESS;
}

CUresult sim_event_resolve(CUevent handle, struct sim_recorder **recorder)
{
    *recorder = (struct sim_recorder *)handle;
    if (!handle || (*recorder)->magic != SIM_EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return (*recorder)->imported ? sim_event_imported(*recorder) : CUDA_SUCCESS;
}

CUresult sim_enter_event(const char *function, CUevent handle, struct sim_recorder **recorder)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_event_resolve(handle, recorder);
    if (!result && sim_device_lost((*recorder)->context->device))
        result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    return result;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent handle)
{
    struct sim_recorder *recorder;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_event_resolve(handle, &recorder);
    if (result)
        return result;
    sim_lock();
    if (!recorder->imported)
        sim_event_destroy(recorder->event);
    sim_unlock();
    recorder->magic = 0;
    free(recorder->captured);
    free(recorder);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent handle)
{
    return cuEventDestroy_v2(handle);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags)
{
    struct sim_stream *stream;
    struct sim_recorder *recorder;
    CUresult result = sim_enter_stream(__func__, stream_handle, &stream);
    if (!result)
        result = sim_event_resolve(handle, &recorder);
    if (result || flags > CU_EVENT_RECORD_EXTERNAL)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (recorder->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_stream_capturing(stream))
        return sim_capture_record(stream, recorder, flags == CU_EVENT_RECORD_EXTERNAL);
    result = sim_capture_forbids_legacy_use(stream);
    if (result)
        return result;
    recorder->capture = 0;
    uint64_t now = sim_submit_begin(stream);
    sim_event_record(recorder->event, stream->channel, now);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
    return cuEventRecordWithFlags(event, sim_per_thread(stream), flags);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    CUresult fault = sim_enter(__func__);
    return fault ? fault : cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return cuEventRecord(event, sim_per_thread(stream));
}

CUresult CUDAAPI cuEventQuery(CUevent handle)
{
    struct sim_recorder *recorder;
    CUresult result = sim_enter_event(__func__, handle, &recorder);
    if (!result)
        result = sim_capture_forbids_event(recorder);
    if (result)
        return result;
    sim_lock();
    bool done = sim_event_done(recorder->event);
    sim_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
    struct sim_recorder *recorder;
    CUresult result = sim_enter_event(__func__, handle, &recorder);
    if (!result)
        result = sim_capture_forbids_event(recorder);
    if (result)
        return result;
    sim_lock();
    const struct sim_event *event = &sim_machine->events[recorder->event];
    bool done = sim_event_done(recorder->event);
    struct sim_ticket ticket = {event->channel, event->generation, event->position};
    sim_unlock();
    if (!done)
        sim_wait_ticket(ticket);
    sim_pools_synchronised();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
    struct sim_stream *stream;
    struct sim_recorder *recorder;
    CUresult result = sim_enter_stream(__func__, stream_handle, &stream);
    if (!result)
        result = sim_event_resolve(handle, &recorder);
    if (result || flags > CU_EVENT_WAIT_EXTERNAL)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_capturing(stream) || recorder->capture)
        return sim_capture_wait(stream, recorder, flags == CU_EVENT_WAIT_EXTERNAL);
    result = sim_capture_forbids_legacy_use(stream);
    if (result)
        return result;
    uint64_t now = sim_submit_begin(stream);
    sim_event_wait(recorder->event, stream->channel, now);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    return cuStreamWaitEvent(sim_per_thread(stream), event, flags);
}

/* ---- time ---- */

CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
    struct sim_recorder *start, *end;
    CUresult result = sim_enter_event(__func__, start_handle, &start);
    if (!result)
        result = sim_event_resolve(end_handle, &end);
    if (result || !milliseconds)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->capture || end->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    sim_lock();
    const struct sim_event *from = &sim_machine->events[start->event], *to = &sim_machine->events[end->event];
    bool recorded = from->recorded > 0 && to->recorded > 0;
    bool done = sim_event_done(start->event) && sim_event_done(end->event);
    double elapsed = (double)(int64_t)(to->time - from->time);
    sim_unlock();
    if (!recorded || !done)
        return recorded ? CUDA_ERROR_NOT_READY : CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)(elapsed / 1e6);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
