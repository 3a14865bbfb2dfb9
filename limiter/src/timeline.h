/*
 * The timing events of one context, on one time axis in nanoseconds.
 *
 * Events are recorded, polled and then consumed: consuming gives the event's time and puts it back into the pool.
 * Times are differences to a base event that is renewed every few seconds, because the driver gives milliseconds as
 * a float. How far the axis lies from CLOCK_MONOTONIC, and how fast the two clocks part, is known better with every
 * event: none happened before it was recorded, nor after it was seen. While another process had the GPU, both may be
 * late by milliseconds, so what compares times of several processes asks whether the axis is tight.
 *
 * Not thread-safe: the meter's owner calls. After an error other than "not ready" the timeline is broken: it
 * measures no more, and its context's launches go on being charged at the last estimates.
 */
#ifndef WEIR_TIMELINE_H
#define WEIR_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "hooks.h"
#include "page.h"
#include "streams.h"

#define TIMELINE_SPARES 128
#define TIMELINE_TIGHT ((int64_t)(200 * WEIR_US)) /* enough to tell whose millisecond it was */

struct timeline {
    CUcontext context; /* NULL: the entry is free */
    uint64_t used;     /* when it was last asked for */
    bool broken;
    struct weir_stats_device *stats; /* counts the call that broke it */
    CUevent base;
    int64_t base_ns;
    int64_t shift;   /* CLOCK_MONOTONIC less the axis: at least this … */
    int64_t slack;   /* … and more by this at most, … */
    int64_t last_ns; /* … at some event less than a millisecond before the one last consumed */
    struct {
        int64_t ns, shift, slack; /* as they were at some event */
        double least, most; /* how fast the shift has grown since: ns for each ns */
    } drift;
    CUevent spares[TIMELINE_SPARES];
    unsigned spare_count;
};

enum timeline_state { TIMELINE_PENDING, TIMELINE_DONE, TIMELINE_BROKEN };

/* Records an event; NULL: not possible, or the stream is capturing, in which nothing may be recorded. */
CUevent timeline_record(struct timeline *timeline, CUstream stream);
enum timeline_state timeline_poll(struct timeline *timeline, CUevent event);
/* The time of a completed event. `recorded`: when, on CLOCK_MONOTONIC, if the stream was idle; else 0. */
bool timeline_consume(struct timeline *timeline, CUevent event, uint64_t recorded, int64_t *ns);
/* Puts an event back without asking for its time. */
void timeline_drop(struct timeline *timeline, CUevent event);
/* Gives all that it has put by back to the driver. */
void timeline_end(struct timeline *timeline);

#endif
