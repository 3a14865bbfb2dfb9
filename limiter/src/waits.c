/*
 * Which lanes' batches end at a wait for an event. See meter.h.
 *
 * A timing event costs the host a microsecond and keeps short kernels from following each other closely, so a
 * wait for an event ends a batch only if the lane's last such wait left it without work. Where that was not
 * foreseen, the batch that ran dry is charged as estimated, and its successor ends before the wait.
 */
#include "meter.h"

#define METER_FED ((int64_t)(200 * WEIR_US)) /* no stream is idle, although estimates may err */

/* What the GPU still has to do, as estimated. What tickets still hold is charged, but not launched yet. */
static int64_t in_flight(const struct meter *meter, uint64_t now)
{
    uint64_t drain = atomic_load_explicit(&meter->stats->drain, memory_order_relaxed);
    int64_t work = drain > now ? (int64_t)(drain - now) : 0;
    for (uint64_t open = meter->open; open; open &= open - 1) {
        const struct lane *lane = &meter->lanes[__builtin_ctzll(open)];
        work -= ticket_left(atomic_load_explicit(&lane->ticket, memory_order_relaxed));
    }
    return work;
}

void meter_before_event(struct meter *meter, CUevent event, uint64_t now)
{
    uint64_t draining = meter->open & meter->drains;
    if (!draining)
        return;
    if (!event_pending(event)) {
        meter->drains &= ~draining;
        return;
    }
    for (; draining; draining &= draining - 1) {
        struct lane *lane = &meter->lanes[__builtin_ctzll(draining)];
        if (lane_within_reach(lane))
            meter_close(meter, lane, now);
    }
}

void meter_after_event(struct meter *meter, uint64_t now)
{
    if (meter->drains & meter->waiting)
        meter_collect(meter, now);
    meter->drains &= ~(meter->waiting | meter->open);
    if (!meter->open || in_flight(meter, now) > METER_FED)
        return;
    for (uint64_t open = meter->open; open; open &= open - 1) {
        struct lane *lane = &meter->lanes[__builtin_ctzll(open)];
        if (!lane_within_reach(lane) || !stream_idle(lane->stream))
            continue;
        meter_abandon(meter, lane, now);
        meter->drains |= lane_bit(meter, lane);
    }
}
