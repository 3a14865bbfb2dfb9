/*
 * A GPU, slices and programs in virtual time, under the limiter's real pacing code.
 *
 *   pacing_world [KEY=VALUE …] [/ KEY=VALUE …]…
 *
 * Settings (pacing_world.h) before the first slash hold for every tenant, those after a slash for one more of
 * them. The result is one JSON object for each: what the GPU really did, the union of all kernels, beside what
 * the stats page claims. Nothing here sleeps for real.
 */
#include "pacing_driver.h"

#include "graphs.h"
#include "meter.h"
#include "pacing.h"
#include "pools.h"
#include "slice.h"

/* ---- the slices ---- */

static struct weir_control_header control_header;
static _Alignas(64) char pages[TENANTS][4096];
static struct weir_slice slices[TENANTS]; /* a stride of 0: each device number shows the same card */

static unsigned slice_number(void)
{
    return me->set.slice < 0 ? (unsigned)(process() - tenants) : (unsigned)me->set.slice;
}

const struct weir_slice *weir_slice(void)
{
    struct weir_slice *slice = &slices[slice_number()];
    if (!slice->stats)
        *slice = (struct weir_slice){.control = &control_header,
                                     .stats = (struct weir_stats_header *)pages[slice_number()],
                                     .device_count = TENANTS,
                                     .stats_header = sizeof(struct weir_stats_header)};
    return slice;
}

static struct weir_stats_device *stats(void) { return weir_stats_device(weir_slice(), 0); }

int weir_current_device(void) { return (int)(process() - tenants); }
void weir_pools_waited(bool for_all) { (void)for_all; }

bool weir_graph_begin(struct weir_graph_use *use, CUgraphExec graph, CUstream stream)
{
    (void)use, (void)graph, (void)stream;
    return true; /* memory is none of this world's business */
}

void weir_graph_end(struct weir_graph_use *use, CUresult result) { (void)use, (void)result; }

uint32_t weir_control_read(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy)
{
    (void)slice, (void)device, (void)policy;
    const struct settings *set = &me->set;
    uint64_t at = me->now - START, gate_at = (uint64_t)(set->gate_at * 1e9);
    bool away = within(set->away_at, set->away_for);
    uint64_t renewed = (away ? START + (uint64_t)(set->away_at * 1e9) : me->now) + WEIR_S;
    *out = (struct weir_control_device){
        .core_limit = (uint32_t)IN_FORCE(set, limit, me->now),
        .loan_core_limit = (uint32_t)IN_FORCE(set, loan, me->now),
        .lease_core_limit = (uint32_t)IN_FORCE(set, lease, me->now),
    };
    out->core_guarantee = out->core_limit < WEIR_FULL_CORES ? out->core_limit : 0;
    out->loan_deadline = out->loan_core_limit ? renewed : 0;
    out->lease_deadline = out->lease_core_limit ? renewed : 0;
    if (set->gate_at > 0 && at >= gate_at) {
        out->gate = 1;
        out->gate_deadline = START + gate_at + (uint64_t)(set->gate_for * 1e9);
    }
    if (within(set->noise_at, set->noise_for))
        stats()->balance = stats()->drain = INT64_MAX;
    bool beside = set->beside_at > 0 && (double)at >= set->beside_at * 1e9;
    if (beside) {
        out->beside_deadline = renewed;
    } else {
        out->slot_deadline = renewed;
        out->slot_frame = (uint64_t)(IN_FORCE(set, frame_us, me->now) * 1e3);
        out->slot_offset = (uint64_t)(IN_FORCE(set, offset_us, me->now) * 1e3);
        out->slot_length = (uint64_t)(IN_FORCE(set, length_us, me->now) * 1e3);
    }
    return 0;
}

/* ---- the programs ---- */

static CUstream stream_of(uint64_t number)
{
    if (me->set.own_stream > 0)
        return CU_STREAM_PER_THREAD;
    uint64_t others = (uint64_t)(me - process()) * (uint64_t)me->set.streams;
    uintptr_t handle = (number % (uint64_t)me->set.streams + others + 1) << 8;
    while (me->set.crowded > 0 && lane_slot(handle) > 0)
        handle += STREAMS << 8;
    return (CUstream)handle;
}

static void launch_one(uint64_t number)
{
    bool second = me->set.second_us > 0 && number % 2, another = second && me->set.second_grid == 0;
    unsigned grid = second && !another ? (unsigned)me->set.second_grid : 1;
    uintptr_t ns = (uintptr_t)((another ? me->set.second_us : me->set.kernel_us) * 1e3);
    uint64_t turn = number / (me->set.second_us > 0 ? 2 : 1) % (uint64_t)me->set.functions;
    uintptr_t handle = (ns << 8) + turn + (another ? 128 : 0);
    uint64_t before = me->now;
    if (me->set.graph > 0)
        cuGraphLaunch((CUgraphExec)handle, stream_of(number));
    else if (me->set.cooperative > 0)
        cuLaunchCooperativeKernel((CUfunction)handle, grid, 1, 1, 1, 1, 1, 0, stream_of(number), NULL);
    else if (me->set.own_stream > 0)
        cuLaunchKernel_ptsz((CUfunction)handle, grid, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    else
        cuLaunchKernel((CUfunction)handle, grid, 1, 1, 1, 1, 1, 0, stream_of(number), NULL, NULL);
    me->longest_call = later(me->longest_call, me->now - before);
}

/* Ends a step: records an event, and waits for that of `ahead` steps ago. */
static void keep_ahead(uint64_t number)
{
    uint64_t step = number / (uint64_t)me->set.step;
    spend(0.3);
    bool drains = me->set.drain_every > 0 && step % (uint64_t)me->set.drain_every == 0;
    uint64_t ahead = drains ? 0 : (uint64_t)me->set.ahead;
    uint64_t launches = ahead * (uint64_t)me->set.step / (uint64_t)me->set.streams;
    unsigned event = launch_event(stream_of(number), launches);
    if (event)
        cuEventSynchronize((CUevent)(uintptr_t)event);
    if (drains)
        spend(me->set.drain_idle_us);
}

/* Waits as a program with a bounded queue does: until only so many launches are not complete. */
static void keep_queue(uint64_t number)
{
    unsigned event = launch_event(stream_of(number), (uint64_t)me->set.queue);
    if (event && pending(event))
        cuEventSynchronize((CUevent)(uintptr_t)event);
}

static uint64_t run_until(uint64_t end)
{
    static uint64_t numbers[TENANTS];
    uint64_t *number = &numbers[me - tenants], first = *number;
    while (me->now < end) {
        if (within(me->set.quiet_at, me->set.quiet_for))
            pass_time(START + (uint64_t)((me->set.quiet_at + me->set.quiet_for) * 1e9) - me->now);
        launch_one((*number)++);
        spend(me->set.think_us);
        if (me->set.pause_every > 0 && *number % (uint64_t)me->set.pause_every == 0)
            spend(me->set.pause_us);
        if (me->set.ahead >= 0) {
            if (*number % (uint64_t)me->set.step == 0)
                keep_ahead(*number - 1);
        } else if (me->set.queue == 0) {
            cuStreamSynchronize(stream_of(*number - 1));
        } else {
            keep_queue(*number - 1);
        }
        if (me->set.step > 0 && *number % (uint64_t)me->set.step == 0)
            spend(me->set.step_idle_us);
    }
    return *number - first;
}

static void drain(void)
{
    for (uint64_t i = 0; i < (uint64_t)me->set.streams; i++)
        cuStreamSynchronize(stream_of(i));
}

static void print(uint64_t launches, uint64_t gpu_time, uint64_t counted)
{
    double wall = (double)(me->now - me->from);
    printf("{\"tenant\": %ld, \"share\": %.5f, \"smooth\": %.5f, \"claimed\": %.5f, \"outside\": %.5f, "
           "\"launches\": %lu, \"counted\": %lu, \"longest_kernel_us\": %.3f, \"throttled\": %lu, \"periods\": %lu, "
           "\"throttled_ms\": %.3f, \"longest_call_ms\": %.3f, \"hook_errors\": %lu, \"launch_errors\": %lu, "
           "\"events\": %u, \"host_us\": %.3f, \"records\": %lu, \"calls\": %lu, \"wall_ms\": %.3f, \"windows\": [",
           (long)(me - tenants), (double)me->busy / wall, (double)me->smooth / wall, (double)gpu_time / wall,
           (double)me->outside / wall, launches, counted, (double)stats()->longest_kernel * 1e-3,
           (uint64_t)stats()->throttled_periods, (uint64_t)stats()->periods,
           (double)stats()->throttled_time * 1e-6, (double)me->longest_call * 1e-6,
           (uint64_t)stats()->hook_errors, (uint64_t)stats()->launch_errors, limiter_events,
           launches ? wall * 1e-3 / (double)launches : 0, me->records, me->calls, wall * 1e-6);
    for (uint64_t i = 0; i + 1 < WINDOWS && me->from + (i + 1) * window_ns() <= me->now; i++)
        printf("%s%.5f", i ? ", " : "", (double)me->window[i] / (double)window_ns());
    printf("]}\n");
}

static void live(void)
{
    weir_entered = NULL; /* whoever gave way to this tenant may have been inside the driver */
    pass_time((uint64_t)(me->set.start_at * 1e9));
    run_until(START + (uint64_t)(me->set.warmup * 1e9));
    drain();
    me->longest_call = me->records = me->calls = 0;
    me->from = me->now;
    uint64_t gpu_time = stats()->gpu_time, counted = stats()->launches;
    uint64_t launches = run_until(me->from + (uint64_t)(me->set.seconds * 1e9));
    drain();
    print(launches, stats()->gpu_time - gpu_time, stats()->launches - counted);
    me->ended = true;
    yield();
}

/* ---- */

static void begin(const struct settings *settings)
{
    if (tenant_count == TENANTS)
        exit(2);
    struct tenant *tenant = &tenants[tenant_count++];
    enum { STACK = 256 << 10 };
    tenant->set = *settings;
    tenant->now = START;
    getcontext(&tenant->context);
    tenant->context.uc_stack.ss_sp = malloc(STACK);
    tenant->context.uc_stack.ss_size = STACK;
    makecontext(&tenant->context, live, 0);
}

int main(int argc, char **argv)
{
    struct settings common = defaults, one = defaults;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "/"); i++)
        set_one(&common, argv[i]);
    if (i == argc)
        begin(&common);
    while (i < argc) {
        one = common;
        while (++i < argc && strcmp(argv[i], "/"))
            set_one(&one, argv[i]);
        begin(&one);
    }
    install();
    gpu.now = START;
    run_all();
    return 0;
}
