/*
 * The settings, the clock, the GPU and the driver of pacing_world.c, which alone includes this.
 *
 * The clock moves only when something takes time: a driver call, a sleep, a wait for the GPU. Streams are
 * queues of kernels that run as soon as their predecessor is complete; kernels of several streams overlap.
 * A kernel's function handle is its duration. What the GPU really did is counted here, apart from the
 * limiter.
 */
#ifndef PACING_WORLD_H
#define PACING_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hooks.h"
#include "clock.h"

/* ---- settings ---- */

static struct settings {
    double limit, kernel_us, seconds, host_us, step_idle_us, warmup;
    double frame_us, offset_us, length_us;     /* a slot */
    double relimit_at, relimit;                /* a limit changed at run time */
    double gate_at, gate_for;                  /* a gate that closes at run time */
    double late_us;                            /* by which every sleep wakes up late */
    double load_us;                            /* host time that the first launch of a function takes */
    double second_us;                          /* a second kind of kernel, in turn with the first; 0: none */
    double broken_at, broken_for;              /* event calls fail meanwhile */
    double capture_at, capture_for;            /* launches then go into a capturing stream */
    double longer_at, longer;                  /* from then on kernels take so many times as long */
    double turn_us;                            /* a kernel that overruns the slot waits for a turn */
    double fail;                               /* every so many launches, one fails */
    double mark_us;                            /* GPU time that a timing event takes */
    long queue, streams, step, functions, graph;
    long ahead;                                /* steps; the program waits for its event of so long ago … */
    long drain_every;                          /* … but every so many steps for its last, and is idle then */
    double drain_idle_us;
} set = {.limit = 10000, .kernel_us = 1000, .seconds = 5, .host_us = 3.5, .queue = 64, .streams = 1,
         .functions = 1, .ahead = -1};

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            exit(2);
        *value++ = 0;
#define REAL(name)                                                                                           \
    if (!strcmp(argv[i], #name))                                                                             \
        set.name = atof(value);
#define WHOLE(name)                                                                                          \
    if (!strcmp(argv[i], #name))                                                                             \
        set.name = atol(value);
        REAL(limit) REAL(kernel_us) REAL(seconds) REAL(host_us) REAL(step_idle_us) REAL(warmup) REAL(frame_us)
        REAL(offset_us) REAL(length_us) REAL(relimit_at) REAL(relimit) REAL(gate_at) REAL(gate_for)
        REAL(late_us) REAL(mark_us)
        REAL(load_us) REAL(second_us) REAL(broken_at) REAL(broken_for) REAL(fail)
        REAL(capture_at) REAL(capture_for) REAL(longer_at) REAL(longer) REAL(turn_us)
        WHOLE(queue) WHOLE(streams) WHOLE(step) WHOLE(functions) WHOLE(graph) WHOLE(ahead)
        WHOLE(drain_every) REAL(drain_idle_us)
    }
}

/* ---- time ---- */

#define START (1000 * WEIR_S)
static uint64_t virtual_now = START;

static void spend(double us) { virtual_now += (uint64_t)(us * 1e3); }

static bool within(double from, double length)
{
    double at = (double)(virtual_now - START) * 1e-9;
    return length && at >= from && at < from + length;
}

static bool capturing(void) { return within(set.capture_at, set.capture_for); }

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    virtual_now += 20;
    *time = (struct timespec){(time_t)(virtual_now / WEIR_S), (long)(virtual_now % WEIR_S)};
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    (void)clock, (void)flags, (void)left;
    uint64_t until = (uint64_t)time->tv_sec * WEIR_S + (uint64_t)time->tv_nsec;
    if (until > virtual_now)
        virtual_now = until + (uint64_t)(set.late_us * 1e3);
    return 0;
}

/* ---- the GPU ---- */

#define STREAMS 16
#define EVENTS 100000
static uint64_t tails[STREAMS + 1];
static uint64_t events[EVENTS];
static unsigned event_count = 1;
static uint64_t calls; /* of events, by the limiter */
static uint64_t records;
static uint64_t busy, busy_until, outside, kernels;

static uint64_t *tail_of(CUstream stream) { return &tails[(uintptr_t)stream >> 8 & 15]; }

static uint64_t overlap_outside_slot(uint64_t start, uint64_t end)
{
    uint64_t frame = (uint64_t)(set.frame_us * 1e3), length = (uint64_t)(set.length_us * 1e3), sum = 0;
    for (uint64_t t = start; frame && t < end;) {
        uint64_t position = (t + frame - (uint64_t)(set.offset_us * 1e3)) % frame;
        uint64_t edge = position < length ? length - position : frame - position;
        uint64_t part = edge < end - t ? edge : end - t;
        sum += position < length ? 0 : part;
        t += part;
    }
    return sum;
}

static void run_kernel(CUstream stream, double us)
{
    uint64_t *tail = tail_of(stream);
    us *= within(set.longer_at, set.longer ? 1e9 : 0) ? set.longer : 1;
    uint64_t soonest = virtual_now + 2000, start = *tail > soonest ? *tail : soonest;
    uint64_t end = start + (uint64_t)(us * 1e3);
    *tail = end + (overlap_outside_slot(start, end) ? (uint64_t)(set.turn_us * 1e3) : 0);
    kernels++;
    if (end > busy_until) { /* streams take turns at the host, so starts come nearly in order */
        busy += end - (start > busy_until ? start : busy_until);
        busy_until = end;
    }
    outside += overlap_outside_slot(start, end);
}

/* ---- the driver, as far as pacing calls it ---- */

static CUresult fake_context(CUcontext *context) { return *context = (CUcontext)1, CUDA_SUCCESS; }
static CUresult fake_stream_context(CUstream stream, CUcontext *context)
{
    (void)stream;
    return fake_context(context);
}
static CUresult fake_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
static CUresult fake_exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static CUresult fake_create(CUevent *event, unsigned flags)
{
    (void)flags;
    if (event_count == EVENTS)
        abort(); /* the pool is not reused */
    *event = (CUevent)(uintptr_t)event_count++;
    return CUDA_SUCCESS;
}
static CUresult fake_destroy(CUevent event) { return (void)event, CUDA_SUCCESS; }
static CUresult fake_record(CUevent event, CUstream stream)
{
    if (capturing())
        abort(); /* an event in a capture would become part of the graph */
    spend(1.3);
    records++;
    calls++;
    if (within(set.broken_at, set.broken_for))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t *tail = tail_of(stream);
    events[(uintptr_t)event] = *tail > virtual_now ? *tail : virtual_now;
    *tail = events[(uintptr_t)event] + (uint64_t)(set.mark_us * 1e3);
    return CUDA_SUCCESS;
}
static CUresult fake_query(CUevent event)
{
    spend(0.3);
    calls++;
    return events[(uintptr_t)event] <= virtual_now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
static CUresult fake_elapsed(float *ms, CUevent start, CUevent end)
{
    spend(0.1);
    calls++;
    *ms = (float)((double)((int64_t)events[(uintptr_t)end] - (int64_t)events[(uintptr_t)start]) * 1e-6);
    return CUDA_SUCCESS;
}
static CUresult fake_stream_query(CUstream stream)
{
    spend(0.3);
    calls++;
    return *tail_of(stream) <= virtual_now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
static CUresult fake_stream_synchronize(CUstream stream)
{
    if (*tail_of(stream) > virtual_now)
        virtual_now = *tail_of(stream);
    return CUDA_SUCCESS;
}
static CUresult fake_event_synchronize(CUevent event)
{
    spend(0.3);
    if (events[(uintptr_t)event] > virtual_now)
        virtual_now = events[(uintptr_t)event];
    return CUDA_SUCCESS;
}

/* The function's handle is its duration in ns, plus a running number for functions that are alike. */
static CUresult fake_launch_graph(CUgraphExec graph, CUstream stream)
{
    static bool loaded[256];
    uintptr_t number = (uintptr_t)graph & 0xff;
    static long launches;
    spend(set.host_us);
    if (!loaded[number])
        spend(set.load_us);
    loaded[number] = true;
    if (set.fail && ++launches % (long)set.fail == 0)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (!capturing())
        run_kernel(stream, (double)((uintptr_t)graph >> 8) * 1e-3);
    return CUDA_SUCCESS;
}
static CUresult fake_launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters,
                            void **extra)
{
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
    return fake_launch_graph((CUgraphExec)function, stream);
}

void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread const char *weir_entered;

void *weir_load_real(enum weir_symbol_id id)
{
    fprintf(stderr, "driver function %d is not part of this world\n", id);
    abort();
}
bool weir_has_real(enum weir_symbol_id id) { return atomic_load(&weir_reals[id]) != NULL; }

static void install(void)
{
#define REAL_IS(symbol, fake) atomic_store(&weir_reals[WEIR_ID_##symbol], (void *)(fake))
    REAL_IS(cuCtxGetCurrent, fake_context);
    REAL_IS(cuStreamGetCtx, fake_stream_context);
    REAL_IS(cuStreamIsCapturing, fake_capturing);
    REAL_IS(cuThreadExchangeStreamCaptureMode, fake_exchange);
    REAL_IS(cuEventCreate, fake_create);
    REAL_IS(cuEventDestroy_v2, fake_destroy);
    REAL_IS(cuEventRecord, fake_record);
    REAL_IS(cuEventQuery, fake_query);
    REAL_IS(cuEventElapsedTime, fake_elapsed);
    REAL_IS(cuStreamQuery, fake_stream_query);
    REAL_IS(cuStreamSynchronize, fake_stream_synchronize);
    REAL_IS(cuEventSynchronize, fake_event_synchronize);
    REAL_IS(cuLaunchKernel, fake_launch);
    REAL_IS(cuGraphLaunch, fake_launch_graph);
}

#endif
