/*
 * The tenants of pacing_world.c, which alone includes this: their settings, their clocks, who runs when.
 *
 * Each tenant is a process of its own to the GPU and a coroutine here, and has a clock that moves only when
 * something takes time: a driver call, a sleep, a wait for the GPU. Who is furthest behind runs, so no tenant
 * does anything before another's earlier act. Tenants with the same `slice` share a stats page; the limiter
 * keeps its state by device, so each is given a device number of its own.
 */
#ifndef PACING_WORLD_H
#define PACING_WORLD_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "hooks.h"
#include "clock.h"

/* ---- settings ---- */

/* What the control page says, and from `changes_at` on as then_NAME, where that is given. */
#define RULES(X) X(limit) X(loan) X(lease) X(frame_us) X(offset_us) X(length_us)

#define REALS(X)                                                                                             \
    X(kernel_us) X(seconds) X(host_us) X(step_idle_us) X(warmup)                                             \
    X(window_ms)                          /* how long those are of which each one's share is told */         \
    X(think_us)                           /* host time between launches, beside what a launch takes … */     \
    X(pause_every) X(pause_us)            /* … and longer after every so many of them */                     \
    X(changes_at)                         /* the control page then says something else */                    \
    X(away_at) X(away_for)                /* the agent is dead meanwhile: what it wrote ends by itself */    \
    X(gate_at) X(gate_for)                /* a gate that closes at run time */                               \
    X(beside_at)                          /* from then on others run beside it without slots, says the agent */ \
    X(late_us)                            /* by which every sleep wakes up late */                           \
    X(no_gates)                           /* the driver has none */                                          \
    X(load_us)                            /* host time that the first launch of a function takes */          \
    X(second_us)                          /* a second kind of kernel, in turn with the first; 0: none */     \
    X(second_grid)                        /* … that is the same function with so many blocks; 0: another */  \
    X(broken_at) X(broken_for)            /* event calls fail meanwhile */                                   \
    X(capture_at) X(capture_for)          /* launches then go into a capturing stream */                     \
    X(longer_at) X(longer)                /* from then on kernels take so many times as long … */            \
    X(longer_each)                        /* … or one of so many of them */                                  \
    X(quiet_at) X(quiet_for)              /* the program rests */                                            \
    X(start_at)                           /* … or begins late */                                             \
    X(noise_at) X(noise_for)              /* somebody writes moments far off into the stats page */          \
    X(fail)                               /* every so many launches, one fails */                            \
    X(mark_us)                            /* GPU time that a timing event takes */                           \
    X(drift_ppm)                          /* by which its clock is faster than the host's */                 \
    X(gap_us)                             /* … and the change from one kernel to the next */                 \
    X(turn_us) X(switch_us)               /* a process's turn on the GPU, and what preempting it takes */    \
    X(vary)                               /* kernels last between (1 − vary) and (1 + vary) times that */    \
    X(cooperative) X(own_stream)          /* kernels are launched so; … on the thread's default stream */     \
    X(crowded)                            /* streams whose lanes are the same few */                         \
    X(record_us)                          /* host time that recording an event takes */                      \
    X(ends_at)                            /* it ends in the middle of such a call then */                    \
    X(thread)                             /* it is a thread of that tenant's process, with other streams */  \
    X(queue) X(streams) X(step) X(functions) X(graph) X(slice)                                               \
    X(ahead)                              /* steps; the program waits for its event of so long ago … */      \
    X(drain_every)                        /* … but every so many steps for its last, and is idle then */     \
    X(drain_idle_us)

struct settings {
#define FIELD(name) double name;
#define CHANGED_FIELD(name) double name, then_##name;
    REALS(FIELD) RULES(CHANGED_FIELD)
};

#define UNCHANGED(name) .then_##name = -1,
static const struct settings defaults = {RULES(UNCHANGED).limit = 10000, .kernel_us = 1000, .seconds = 5,
                                         .host_us = 3.5, .queue = 64, .streams = 1, .functions = 1, .ahead = -1,
                                         .turn_us = 2000, .switch_us = 220, .record_us = 1.34, .slice = -1,
                                         .thread = -1, .window_ms = 1000};

static void set_one(struct settings *settings, char *argument)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
#define NAMED(name) {#name, offsetof(struct settings, name)},
#define NAMED_TWICE(name) NAMED(name) NAMED(then_##name)
        REALS(NAMED) RULES(NAMED_TWICE)
    };
    char *value = strchr(argument, '=');
    if (value)
        *value++ = 0;
    for (size_t i = 0; value && i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(argument, fields[i].name)) {
            *(double *)((char *)settings + fields[i].offset) = atof(value);
            return;
        }
    fprintf(stderr, "%s: no such setting\n", argument);
    exit(2);
}

/* ---- tenants ---- */

#define START (1000 * WEIR_S)
#define TENANTS 16
#define STREAMS 128 /* bits of a mask; twice as many as a meter has lanes */
#define WINDOWS 4096
#define LAUNCHES 2048 /* the program's own events go round */

struct tenant {
    struct settings set;
    uint64_t now;
    unsigned waiting; /* for this event; 0: runnable */
    bool ended;
    const char *entered;
    ucontext_t context;
    uint64_t from; /* when the measurement began; 0: not yet */
    uint64_t busy, smooth, outside, last_busy, window[WINDOWS];
    uint64_t longest_call, records, calls;
    uint64_t launched[STREAMS];
    unsigned done[STREAMS][LAUNCHES];
};

static struct tenant tenants[TENANTS], *me = tenants;
static unsigned tenant_count;

static uint64_t window_ns(void) { return (uint64_t)(tenants[0].set.window_ms * 1e6); }

static ucontext_t scheduler;
static uint64_t horizon; /* until then nobody else does anything */

static bool changed(const struct settings *set, uint64_t at)
{
    return set->changes_at > 0 && at >= START + (uint64_t)(set->changes_at * 1e9);
}

#define IN_FORCE(set, name, at) (changed(set, at) && (set)->then_##name >= 0 ? (set)->then_##name : (set)->name)

/* Who has the GPU, streams and the limiter's state together with it. */
static struct tenant *process(void) { return me->set.thread < 0 ? me : &tenants[(unsigned)me->set.thread]; }

__thread const char *weir_entered; /* each tenant has a stack of its own */

static void yield(void)
{
    me->entered = weir_entered;
    swapcontext(&me->context, &scheduler);
    weir_entered = me->entered;
}

static void pass_time(uint64_t ns)
{
    me->now += ns;
    if (me->now > horizon)
        yield();
}

static void spend(double us) { pass_time((uint64_t)(us * 1e3)); }

static bool within(double from, double length)
{
    double at = (double)(me->now - START) * 1e-9;
    return length && at >= from && at < from + length;
}

static bool capturing(void) { return within(me->set.capture_at, me->set.capture_for); }

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    me->now += 20;
    *time = (struct timespec){(time_t)(me->now / WEIR_S), (long)(me->now % WEIR_S)};
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    (void)clock, (void)flags, (void)left;
    uint64_t until = (uint64_t)time->tv_sec * WEIR_S + (uint64_t)time->tv_nsec;
    if (until > me->now)
        pass_time(until - me->now + (uint64_t)(me->set.late_us * 1e3));
    return 0;
}

#endif
