/*
 * Events over all streams of a context at once.
 *
 * Recording goes through a channel of its own, which waits for what every stream holds at that moment and makes
 * no stream wait for another. What it does not do: capture; both calls are refused while a stream of the
 * context captures.
 */
#include "driver.h"

#define RETRY_NS UINT64_C(100000)

static CUresult enter(const char *function, CUcontext context_handle, CUevent handle, struct sim_context **context,
                      struct sim_recorder **recorder)
{
    CUresult result = sim_enter_event(function, handle, recorder);
    if (!result)
        result = sim_context_resolve(context_handle, context);
    if (result)
        return result;
    sim_lock();
    for (struct sim_stream *stream = (*context)->streams; stream; stream = stream->next)
        if (sim_stream_capturing(stream))
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_unlock();
    return result;
}

static void wait_for_all(struct sim_context *context, uint32_t channel, uint64_t now)
{
    struct sim_ticket last;
    uint32_t next = sim_channel_busy(sim_self_index(), context->id, 0, &last);
    for (; next != SIM_NONE; next = sim_channel_busy(sim_self_index(), context->id, next, &last)) {
        struct sim_op op = {.type = SIM_OP_WAIT_CHANNEL,
                            .target = last.channel,
                            .generation = last.generation,
                            .sequence = last.position};
        if (!sim_channel_full(channel, 2))
            sim_channel_push(channel, &op, now);
    }
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext context_handle, CUevent handle)
{
    struct sim_context *context;
    struct sim_recorder *recorder;
    CUresult result = enter(__func__, context_handle, handle, &context, &recorder);
    if (result || recorder->context != context)
        return result ? result : CUDA_ERROR_INVALID_HANDLE;
    recorder->capture = 0;
    uint64_t now = sim_lock();
    uint32_t channel = sim_channel_create(sim_self_index(), context->device, 0, 0);
    if (channel != SIM_NONE) {
        wait_for_all(context, channel, now);
        sim_event_record(recorder->event, channel, now);
        sim_channel_destroy(channel, now); /* once it has recorded */
    }
    sim_unlock();
    return channel == SIM_NONE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* True when every stream has it in its queue. A stream may get it twice, which changes nothing. */
static bool queue_in_all(struct sim_context *context, uint32_t event)
{
    bool all = true;
    uint64_t now = sim_lock();
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        if (sim_channel_full(stream->channel, 1))
            all = false;
        else
            sim_event_wait(event, stream->channel, now);
    }
    sim_unlock();
    return all;
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext context_handle, CUevent handle)
{
    struct sim_context *context;
    struct sim_recorder *recorder;
    CUresult result = enter(__func__, context_handle, handle, &context, &recorder);
    while (!result && !queue_in_all(context, recorder->event))
        sim_sleep_until(sim_now() + RETRY_NS);
    return result;
}
