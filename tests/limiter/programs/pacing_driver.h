/*
 * The driver of pacing_world.c, which alone includes this: as much of it as pacing calls, at an H200's prices.
 *
 * A kernel's function handle is its duration in ns, plus a running number for functions that are alike.
 */
#ifndef PACING_DRIVER_H
#define PACING_DRIVER_H

#include "gate.h"
#include "pacing_gpu.h"

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
static unsigned limiter_events;
static CUresult fake_create(CUevent *event, unsigned flags)
{
    (void)flags;
    limiter_events++;
    *event = (CUevent)(uintptr_t)new_event();
    return CUDA_SUCCESS;
}
static CUresult fake_destroy(CUevent event) { return (void)event, CUDA_SUCCESS; }
static CUresult fake_record(CUevent event, CUstream stream)
{
    if (capturing())
        abort(); /* an event in a capture would become part of the graph */
    spend(me->set.record_us);
    if (within(me->set.ends_at, me->set.ends_at)) {
        me->ended = true;
        yield();
    }
    me->records++;
    me->calls++;
    if (within(me->set.broken_at, me->set.broken_for))
        return CUDA_ERROR_INVALID_HANDLE;
    events[(uintptr_t)event] = NEVER;
    unsigned record = ++records[(uintptr_t)event];
    enqueue(stream, (struct op){.soonest = me->now, .event = (unsigned)(uintptr_t)event, .record = record});
    return CUDA_SUCCESS;
}
static CUresult fake_query(CUevent event)
{
    spend(0.3);
    me->calls++;
    gpu_catch_up();
    return events[(uintptr_t)event] <= me->now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
static CUresult fake_elapsed(float *ms, CUevent start, CUevent end)
{
    spend(0.1);
    me->calls++;
    double ns = (double)((int64_t)events[(uintptr_t)end] - (int64_t)events[(uintptr_t)start]);
    *ms = (float)(ns * (1 + me->set.drift_ppm * 1e-6) * 1e-6);
    return CUDA_SUCCESS;
}

#define SEEN (8 * WEIR_US) /* a word is seen by the card so much later than it is written */

/* Of the real one's thread, which wakes up late as all do, and of the card. */
bool gate_close(CUcontext context, CUstream stream, uint64_t opening, uint64_t early)
{
    uint64_t opens = later(opening, opening - early + (uint64_t)(me->set.late_us * 1e3));
    (void)context;
    if (me->set.no_gates > 0)
        return false;
    spend(0.75);
    me->calls++;
    enqueue(stream, (struct op){.soonest = later(opens, me->now) + SEEN, .event = new_event()});
    return true;
}

static struct op *held_op[TENANTS];

struct hold gate_hold(CUcontext context, CUstream stream, uint64_t early)
{
    uint64_t until = me->now + 200 * WEIR_US;
    if (!gate_close(context, stream, until, early))
        return (struct hold){context, 0};
    held_op[me - tenants] = last_op(stream);
    return (struct hold){context, until};
}

void gate_let_go(const struct hold *hold)
{
    struct op *op = held_op[me - tenants];
    if (hold->until && op && op->soonest > me->now + SEEN)
        op->soonest = me->now + SEEN;
    held_op[me - tenants] = NULL;
}

void gate_forget_context(CUcontext context) { (void)context; }
void gate_forget_all(void) {}

/* The event of the stream's launch so many before its last; 0: there was none. */
static unsigned launch_event(CUstream stream, uint64_t before)
{
    unsigned index = (uintptr_t)stream >> 8 & (STREAMS - 1);
    uint64_t launched = process()->launched[index];
    return launched > before ? process()->done[index][(launched - before - 1) % LAUNCHES] : 0;
}

static bool pending(unsigned event)
{
    gpu_catch_up();
    return events[event] > me->now;
}

static CUresult fake_stream_query(CUstream stream)
{
    if (capturing())
        abort(); /* it would end the capture */
    spend(0.3);
    me->calls++;
    return pending(launch_event(stream, 0)) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static CUresult fake_stream_synchronize(CUstream stream)
{
    await(launch_event(stream, 0));
    return CUDA_SUCCESS;
}
static CUresult fake_event_synchronize(CUevent event)
{
    spend(0.3);
    await((unsigned)(uintptr_t)event);
    return CUDA_SUCCESS;
}

/* Kernels that vary do so by a fixed sequence, so that every run is the same. */
static double varied(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return 1 + me->set.vary * (2 * (double)(state >> 11) / (double)(UINT64_C(1) << 53) - 1);
}

static bool is_longer(uint64_t number)
{
    bool each = me->set.longer_each <= 1 || number % (uint64_t)me->set.longer_each == 0;
    return each && within(me->set.longer_at, me->set.longer ? 1e9 : 0);
}

static void run_kernel(CUstream stream, double ns)
{
    unsigned index = (uintptr_t)stream >> 8 & (STREAMS - 1);
    unsigned *event = &process()->done[index][process()->launched[index]++ % LAUNCHES];
    if (!*event)
        *event = new_event();
    events[*event] = NEVER;
    ns *= varied() * (is_longer(process()->launched[index]) ? me->set.longer : 1);
    enqueue(stream, (struct op){.left = (uint64_t)ns, .soonest = me->now + SUBMIT, .event = *event, .kernel = true});
}

static CUresult launch(CUgraphExec graph, double ns, CUstream stream)
{
    static bool loaded[TENANTS][256];
    static long launches[TENANTS];
    uintptr_t number = (uintptr_t)graph & 0xff;
    spend(me->set.host_us + (loaded[me - tenants][number] ? 0 : me->set.load_us));
    loaded[me - tenants][number] = true;
    if (me->set.fail > 0 && ++launches[me - tenants] % (long)me->set.fail == 0)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (!capturing())
        run_kernel(stream, ns);
    return CUDA_SUCCESS;
}
static CUresult fake_launch_graph(CUgraphExec graph, CUstream stream)
{
    return launch(graph, (double)((uintptr_t)graph >> 8), stream);
}
static CUresult fake_launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters,
                            void **extra)
{
    double ns = gx > 1 ? me->set.second_us * 1e3 : (double)((uintptr_t)function >> 8);
    (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
    return launch((CUgraphExec)function, ns, stream);
}

static CUresult fake_cooperative(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters)
{
    return fake_launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, NULL);
}

void *_Atomic weir_reals[WEIR_SYMBOLS];

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
    REAL_IS(cuLaunchKernel_ptsz, fake_launch);
    REAL_IS(cuLaunchCooperativeKernel, fake_cooperative);
    REAL_IS(cuGraphLaunch, fake_launch_graph);
}

#endif
