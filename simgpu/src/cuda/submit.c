/*
 * Putting work into streams in the order CUDA promises, and waiting for it.
 *
 * The legacy stream of a context waits for what its blocking streams hold, and they wait for what it holds;
 * both are waits between channels, queued before the operation and only for work not waited for yet. A
 * submission that finds the queue full waits, as the driver does; nobody holds the lock meanwhile.
 * What it does not do: capture. Whoever submits has asked for that before.
 */
#include "driver.h"

#define ROOM 64 /* operations made room for: one submission and the waits before it */

static bool blocking(const struct sim_stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING) && stream != stream->context->legacy;
}

static void push_join(uint32_t channel, uint32_t target, uint64_t now)
{
    struct sim_ticket last = sim_channel_last(target);
    struct sim_op op = {.type = SIM_OP_WAIT_CHANNEL,
                        .target = target,
                        .generation = last.generation,
                        .sequence = last.position};
    sim_channel_push(channel, &op, now);
}

/* The legacy stream waits for its blocking streams. False: the queue ran out of room, go on later. */
static bool join_blocking(struct sim_stream *legacy, uint64_t now)
{
    for (struct sim_stream *stream = legacy->context->streams; stream; stream = stream->next) {
        uint64_t last = sim_machine->channels[stream->channel].submitted;
        if (!blocking(stream) || stream->legacy_joined == last)
            continue;
        if (!sim_channel_idle(stream->channel)) {
            if (sim_channel_full(legacy->channel, 2))
                return false;
            push_join(legacy->channel, stream->channel, now);
        }
        stream->legacy_joined = last;
    }
    return true;
}

static bool join(struct sim_stream *stream, uint64_t now)
{
    struct sim_stream *legacy = stream->context->legacy;
    if (stream == legacy)
        return join_blocking(stream, now);
    if (!blocking(stream))
        return true;
    uint64_t last = sim_machine->channels[legacy->channel].submitted;
    if (stream->joined != last && !sim_channel_idle(legacy->channel))
        push_join(stream->channel, legacy->channel, now);
    stream->joined = last;
    return true;
}

uint64_t sim_submit_begin(struct sim_stream *stream)
{
    uint64_t now = sim_lock_with_room(stream->channel, ROOM);
    while (!join(stream, now)) {
        sim_unlock();
        now = sim_lock_with_room(stream->channel, ROOM);
    }
    return now;
}

CUresult sim_submit(struct sim_stream *stream, const struct sim_op *op, struct sim_ticket *ticket)
{
    uint64_t now = sim_submit_begin(stream);
    struct sim_ticket queued = sim_channel_push(stream->channel, op, now);
    sim_unlock();
    if (ticket)
        *ticket = queued;
    return CUDA_SUCCESS;
}

CUresult sim_submit_copy(struct sim_stream *stream, uint64_t duration, struct sim_ticket *ticket)
{
    struct sim_op op = {.type = SIM_OP_COPY, .duration = duration};
    return sim_submit(stream, &op, ticket);
}

bool sim_stream_idle(struct sim_stream *stream)
{
    sim_lock();
    bool idle = sim_channel_idle(stream->channel);
    if (stream == stream->context->legacy) /* is done when its blocking streams are */
        for (struct sim_stream *other = stream->context->streams; other && idle; other = other->next)
            idle = !blocking(other) || sim_channel_idle(other->channel);
    sim_unlock();
    return idle;
}

CUresult sim_stream_drain(struct sim_stream *stream)
{
    sim_submit_begin(stream); /* the legacy stream's waits for the others are part of it */
    struct sim_ticket ticket = sim_channel_last(stream->channel);
    sim_unlock();
    sim_wait_ticket(ticket);
    return CUDA_SUCCESS;
}

CUresult sim_context_drain(struct sim_context *context)
{
    struct sim_ticket ticket = {0};
    uint32_t next = 0;
    while (next != SIM_NONE) {
        sim_lock();
        next = sim_channel_busy(sim_self_index(), context->id, next, &ticket);
        sim_unlock();
        if (next != SIM_NONE)
            sim_wait_ticket(ticket);
    }
    return CUDA_SUCCESS;
}
