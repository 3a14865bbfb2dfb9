/*
 * The contexts that a meter (meter.h) has timelines for.
 *
 * There is room for a few. A context more takes the place of the one that was longest without a launch and has no work
 * that is yet to be measured; only while all of them have such work are its launches charged as last measured, and
 * counted as errors. A context is forgotten before the driver destroys it, for another may have the same handle at
 * once, and its events must not be asked about afterwards.
 */
#include "meter.h"

static bool is_busy(const struct meter *meter, const struct timeline *timeline)
{
    for (uint64_t busy = meter->open | meter->waiting; busy; busy &= busy - 1)
        if (meter->lanes[__builtin_ctzll(busy)].timeline == timeline)
            return true;
    return false;
}

static void drop(struct lane *lane, CUevent event, bool alive)
{
    if (event && alive)
        timeline_drop(lane->timeline, event);
}

void lane_forget(struct meter *meter, struct lane *lane, bool alive, uint64_t now)
{
    if (lane->open)
        drop(lane, lane->open->start, alive);
    meter_give_up(meter, lane, now);
    while (lane->oldest) {
        struct batch *batch = lane->oldest;
        meter_unlink_oldest(meter, lane);
        drop(lane, batch->start, alive);
        drop(lane, batch->end, alive);
        meter_settle_unmeasured(meter, lane, batch, now);
    }
    meter_close(meter, lane, now); /* launches of no batch */
    lane->timeline = NULL;
    atomic_store(&lane->key, 0);
}

static void timeline_forget(struct meter *meter, struct timeline *timeline, bool alive, uint64_t now)
{
    for (int index = 0; index < METER_LANES; index++)
        if (meter->lanes[index].timeline == timeline)
            lane_forget(meter, &meter->lanes[index], alive, now);
    if (alive)
        timeline_end(timeline);
    *timeline = (struct timeline){.context = NULL};
}

/* A free place, or that of whoever can best do without; NULL: all have work to be measured. */
static struct timeline *place(struct meter *meter, uint64_t now)
{
    struct timeline *oldest = NULL;
    for (struct timeline *one = meter->timelines; one < meter->timelines + METER_CONTEXTS; one++) {
        if (!one->context)
            return one;
        if ((!oldest || one->used < oldest->used) && !is_busy(meter, one))
            oldest = one;
    }
    if (oldest)
        timeline_forget(meter, oldest, true, now);
    return oldest;
}

struct timeline *meter_timeline(struct meter *meter, CUcontext context, uint64_t now)
{
    struct timeline *timeline = NULL;
    for (int i = 0; context && i < METER_CONTEXTS && !timeline; i++)
        if (meter->timelines[i].context == context)
            timeline = &meter->timelines[i];
    if (context && !timeline && (timeline = place(meter, now)))
        timeline->context = context;
    if (!timeline && context) {
        atomic_fetch_add_explicit(&meter->stats->hook_errors, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&meter->stats->launch_errors, 1, memory_order_relaxed);
    }
    if (!timeline)
        return NULL;
    timeline->stats = meter->stats; /* the page may have been replaced */
    timeline->used = now;
    return timeline;
}

void meter_forget(struct meter *meter, CUcontext context, bool alive, uint64_t now)
{
    for (int i = 0; i < METER_CONTEXTS; i++)
        if (meter->timelines[i].context == context)
            timeline_forget(meter, &meter->timelines[i], alive, now);
}
