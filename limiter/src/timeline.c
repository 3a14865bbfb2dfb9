/*
 * See timeline.h. Each call of the driver is a WEIR_ASK: it does not mind captures under way, nor they it.
 */
#include "timeline.h"

#include "clock.h"

#define BASE_AGE (4 * (int64_t)WEIR_S)    /* 4,000 ms as a float are exact to 0.25 us */
#define LONG_IDLE (60 * (int64_t)WEIR_S) /* … and a minute to 4 us: beyond that the axis is laid anew */
#define DRIFT 50e-6 /* the two clocks part by no more than this … */
#define WANDER 2e-6 /* … and their rates change by no more while one is reckoned with, … */
#define DRIFT_FOR (60 * (int64_t)WEIR_S) /* … which is so long */

static bool check(struct timeline *timeline, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return true;
    timeline->broken = true;
    atomic_fetch_add_explicit(&timeline->stats->hook_errors, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&timeline->stats->launch_errors, 1, memory_order_relaxed);
    return false;
}

/* An event belongs to the context that was current when it was made, and is recorded in its streams alone. */
static CUevent new_event(struct timeline *timeline)
{
    CUevent event = NULL;
    bool entered = context_enter(timeline->context);
    bool made = check(timeline, WEIR_ASK(cuEventCreate, &event, CU_EVENT_DEFAULT));
    if (entered)
        context_leave();
    return made ? event : NULL;
}

CUevent timeline_record(struct timeline *timeline, CUstream stream)
{
    if (timeline->broken || stream_captures(stream))
        return NULL;
    CUevent event = timeline->spare_count ? timeline->spares[--timeline->spare_count] : new_event(timeline);
    if (!event)
        return NULL;
    if (check(timeline, WEIR_ASK(cuEventRecord, event, stream)))
        return event;
    timeline_drop(timeline, event);
    return NULL;
}

enum timeline_state timeline_poll(struct timeline *timeline, CUevent event)
{
    if (timeline->broken)
        return TIMELINE_BROKEN;
    CUresult result = WEIR_ASK(cuEventQuery, event);
    if (result == CUDA_ERROR_NOT_READY)
        return TIMELINE_PENDING;
    return check(timeline, result) ? TIMELINE_DONE : TIMELINE_BROKEN;
}

static void rebase(struct timeline *timeline, CUevent event, int64_t ns)
{
    if (timeline->base)
        timeline_drop(timeline, timeline->base);
    timeline->base = event;
    timeline->base_ns = ns;
}

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* Begins to learn anew how fast the clocks part. */
static void anchor(struct timeline *timeline, int64_t ns, double wander)
{
    timeline->drift.ns = ns;
    timeline->drift.shift = timeline->shift;
    timeline->drift.slack = timeline->slack;
    timeline->drift.least = larger(timeline->drift.least - wander, -DRIFT);
    timeline->drift.most = smaller(timeline->drift.most + wander, DRIFT);
}

/*
 * What the shift is now was between two bounds then, and since then it has grown no faster and no slower than this. If
 * that cannot be, the clocks part faster than was reckoned with, or did: nothing learned before is kept.
 */
static void learn_drift(struct timeline *timeline, int64_t ns)
{
    int64_t passed = ns - timeline->drift.ns;
    int64_t most = timeline->shift + timeline->slack - timeline->drift.shift;
    int64_t least = timeline->shift - (timeline->drift.shift + timeline->drift.slack);
    bool vague = timeline->drift.slack > TIMELINE_TIGHT && timeline->slack < timeline->drift.slack / 2;
    if (passed <= 0)
        return;
    timeline->drift.most = smaller(timeline->drift.most, (double)most / (double)passed);
    timeline->drift.least = larger(timeline->drift.least, (double)least / (double)passed);
    if (timeline->drift.least > timeline->drift.most) {
        timeline->drift.least = timeline->drift.most = 0;
        anchor(timeline, ns, DRIFT);
    } else if (passed > DRIFT_FOR || vague)
        anchor(timeline, ns, WANDER);
}

/* Narrows down where the axis lies: an event was neither before its recording nor after it was seen. */
static void bound(struct timeline *timeline, int64_t ns, uint64_t recorded)
{
    int64_t passed = ns - timeline->last_ns;
    if (passed > (int64_t)WEIR_MS) {
        int64_t grown = (int64_t)((double)passed * timeline->drift.least);
        timeline->last_ns = ns;
        timeline->shift += grown;
        timeline->slack += (int64_t)((double)passed * timeline->drift.most) - grown;
    }
    int64_t early = (int64_t)recorded - (ns + timeline->shift);
    if (recorded && early > 0) {
        timeline->shift += early;
        timeline->slack = timeline->slack > early ? timeline->slack - early : 0;
    }
    int64_t room = (int64_t)weir_now() - (ns + timeline->shift);
    if (room < timeline->slack)
        timeline->slack = room;
    if (timeline->slack < 0) {
        timeline->shift += timeline->slack;
        timeline->slack = 0;
    }
    learn_drift(timeline, ns);
}

bool timeline_consume(struct timeline *timeline, CUevent event, uint64_t recorded, int64_t *ns)
{
    int64_t base_at = timeline->base_ns + timeline->shift;
    if (!timeline->base || (recorded && (int64_t)recorded - base_at > LONG_IDLE)) {
        *ns = recorded ? (int64_t)recorded : (int64_t)weir_now();
        rebase(timeline, event, *ns);
        timeline->shift = 0;
        timeline->slack = LONG_IDLE;
        timeline->last_ns = *ns;
        timeline->drift.least = timeline->drift.most = 0;
        anchor(timeline, *ns, DRIFT);
        bound(timeline, *ns, recorded);
        return true;
    }
    float elapsed = 0;
    bool known = check(timeline, WEIR_ASK(cuEventElapsedTime, &elapsed, timeline->base, event));
    int64_t difference = (int64_t)((double)elapsed * 1e6);
    *ns = timeline->base_ns + difference;
    if (known && difference > BASE_AGE)
        rebase(timeline, event, *ns);
    else
        timeline_drop(timeline, event);
    if (known)
        bound(timeline, *ns, recorded);
    return known;
}

void timeline_drop(struct timeline *timeline, CUevent event)
{
    if (timeline->spare_count < TIMELINE_SPARES)
        timeline->spares[timeline->spare_count++] = event;
    else
        WEIR_ASK(cuEventDestroy_v2, event);
}

void timeline_end(struct timeline *timeline)
{
    if (timeline->base)
        WEIR_ASK(cuEventDestroy_v2, timeline->base);
    while (timeline->spare_count)
        WEIR_ASK(cuEventDestroy_v2, timeline->spares[--timeline->spare_count]);
    *timeline = (struct timeline){.context = NULL};
}
