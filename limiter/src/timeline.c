/*
 * See timeline.h. Each call of the driver is a WEIR_ASK: it does not mind captures under way, nor they it.
 */
#include "timeline.h"

#include "clock.h"

#define BASE_AGE (4 * (int64_t)WEIR_S)    /* 4,000 ms as a float are exact to 0.25 us */
#define LONG_IDLE (60 * (int64_t)WEIR_S) /* … and a minute to 4 us: beyond that the axis is laid anew */
#define DRIFT 20000 /* the two clocks may part by one ns in so many: 50 ppm */

static bool check(struct timeline *timeline, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return true;
    timeline->broken = true;
    atomic_fetch_add_explicit(&timeline->stats->hook_errors, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&timeline->stats->launch_errors, 1, memory_order_relaxed);
    return false;
}

CUevent timeline_record(struct timeline *timeline, CUstream stream)
{
    CUevent event = NULL;
    if (timeline->broken || stream_captures(stream))
        return NULL;
    if (timeline->spare_count)
        event = timeline->spares[--timeline->spare_count];
    else if (!check(timeline, WEIR_ASK(cuEventCreate, &event, CU_EVENT_DEFAULT)))
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

/* Narrows down where the axis lies: an event was neither before its recording nor after it was seen. */
static void bound(struct timeline *timeline, int64_t ns, uint64_t recorded)
{
    int64_t passed = ns > timeline->last_ns ? ns - timeline->last_ns : 0;
    int64_t early = (int64_t)recorded - (ns + timeline->shift);
    timeline->last_ns = ns;
    timeline->slack += passed / DRIFT;
    if (recorded && early > 0) {
        timeline->shift += early;
        timeline->slack -= early;
    }
    int64_t room = (int64_t)weir_now() - (ns + timeline->shift);
    if (room < timeline->slack)
        timeline->slack = room;
    if (timeline->slack < 0) {
        timeline->shift += timeline->slack;
        timeline->slack = 0;
    }
}

bool timeline_consume(struct timeline *timeline, CUevent event, uint64_t recorded, int64_t *ns)
{
    int64_t base_at = timeline->base_ns + timeline->shift;
    if (!timeline->base || (recorded && (int64_t)recorded - base_at > LONG_IDLE)) {
        *ns = recorded ? (int64_t)recorded : (int64_t)weir_now();
        rebase(timeline, event, *ns);
        timeline->shift = 0;
        timeline->slack = LONG_IDLE;
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
