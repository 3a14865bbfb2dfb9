/*
 * A GPU, a slice and a program in virtual time, under the limiter's real pacing code.
 *
 * Settings are key=value arguments (pacing_world.h has them and the GPU); the result is one JSON object:
 * what the GPU really did, the union of all kernels, beside what the stats page claims. Nothing here
 * sleeps for real.
 */
#include "pacing_world.h"

#include "pacing.h"
#include "pools.h"
#include "slice.h"

/* ---- the slice ---- */

static _Alignas(64) char page[4096];
static struct weir_control_header control_header;
static const struct weir_slice the_slice = {.control = &control_header,
                                            .stats = (struct weir_stats_header *)page,
                                            .device_count = 1,
                                            .stats_header = sizeof(struct weir_stats_header),
                                            .stats_stride = sizeof(struct weir_stats_device)};

static struct weir_stats_device *stats(void) { return weir_stats_device(&the_slice, 0); }

const struct weir_slice *weir_slice(void) { return &the_slice; }
int weir_current_device(void) { return 0; }
void weir_pools_waited(bool for_all) { (void)for_all; }

uint32_t weir_control_read(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy)
{
    (void)slice, (void)device, (void)policy;
    uint64_t at = virtual_now - START, gate_at = (uint64_t)(set.gate_at * 1e9);
    bool changed = set.relimit_at && (double)at >= set.relimit_at * 1e9;
    *out = (struct weir_control_device){.core_limit = (uint32_t)(changed ? set.relimit : set.limit)};
    if (set.gate_at && at >= gate_at) {
        out->gate = 1;
        out->gate_deadline = START + gate_at + (uint64_t)(set.gate_for * 1e9);
    }
    if (set.frame_us) {
        out->slot_deadline = virtual_now + WEIR_S;
        out->slot_frame = (uint64_t)(set.frame_us * 1e3);
        out->slot_offset = (uint64_t)(set.offset_us * 1e3);
        out->slot_length = (uint64_t)(set.length_us * 1e3);
    }
    return 0;
}

/* ---- the program ---- */

static uint64_t longest_call;

static void launch_one(uint64_t number)
{
    CUstream stream = (CUstream)((number % (uint64_t)set.streams + 1) << 8);
    bool second = set.second_us && number % 2;
    uintptr_t ns = (uintptr_t)((second ? set.second_us : set.kernel_us) * 1e3);
    uintptr_t handle = ns << 8 | (number % (uint64_t)set.functions + (second ? 128 : 0));
    uint64_t before = virtual_now;
    if (set.graph)
        cuGraphLaunch((CUgraphExec)handle, stream);
    else
        cuLaunchKernel((CUfunction)handle, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    if (virtual_now - before > longest_call)
        longest_call = virtual_now - before;
}

/* The program's own events take the last places; each is of a moment at which it is complete. */
static CUevent event_at(uint64_t step, uint64_t moment)
{
    uintptr_t event = EVENTS - 1 - step % 1024;
    events[event] = moment;
    return (CUevent)event;
}

/* Ends a step: records an event, and waits for that of `ahead` steps ago. */
static void keep_ahead(uint64_t number)
{
    static uint64_t step;
    spend(0.3);
    event_at(step, *tail_of((CUstream)((number % (uint64_t)set.streams + 1) << 8)));
    bool drains = set.drain_every && step % (uint64_t)set.drain_every == 0;
    uint64_t ahead = drains ? 0 : (uint64_t)set.ahead;
    if (step >= ahead)
        cuEventSynchronize((CUevent)(uintptr_t)(EVENTS - 1 - (step - ahead) % 1024));
    if (drains)
        spend(set.drain_idle_us);
    step++;
}

/* Waits as a program with a bounded queue does: until the stream's tail is at most `queue` kernels off. */
static void keep_queue(uint64_t number)
{
    CUstream stream = (CUstream)((number % (uint64_t)set.streams + 1) << 8);
    uint64_t depth = (uint64_t)((double)set.queue * set.kernel_us * 1e3), tail = *tail_of(stream);
    if (tail > virtual_now + depth)
        cuEventSynchronize(event_at(0, tail - depth));
}

static uint64_t run_until(uint64_t end)
{
    static uint64_t number;
    uint64_t first = number;
    while (virtual_now < end) {
        launch_one(number++);
        if (set.ahead >= 0) {
            if (number % (uint64_t)set.step == 0)
                keep_ahead(number - 1);
        } else if (set.queue == 0)
            cuStreamSynchronize((CUstream)((((number - 1) % (uint64_t)set.streams) + 1) << 8));
        else
            keep_queue(number - 1);
        if (set.step && number % (uint64_t)set.step == 0)
            spend(set.step_idle_us);
    }
    return number - first;
}

static void drain(void)
{
    for (uintptr_t i = 1; i <= (uintptr_t)set.streams; i++)
        cuStreamSynchronize((CUstream)(i << 8));
}

static void print(uint64_t from, uint64_t launches, uint64_t gpu_time, uint64_t counted)
{
    double wall = (double)(virtual_now - from);
    printf("{\"share\": %.5f, \"claimed\": %.5f, \"outside\": %.5f, \"launches\": %lu, \"counted\": %lu, "
           "\"longest_kernel_us\": %.3f, \"throttled\": %lu, \"periods\": %lu, \"throttled_ms\": %.3f, "
           "\"longest_call_ms\": %.3f, \"hook_errors\": %lu, \"events\": %u, \"host_us\": %.3f, "
           "\"records\": %lu, \"calls\": %lu, \"wall_ms\": %.3f}\n",
           (double)busy / wall, (double)gpu_time / wall, (double)outside / wall, launches,
           counted, (double)stats()->longest_kernel * 1e-3,
           (uint64_t)stats()->throttled_periods, (uint64_t)stats()->periods,
           (double)stats()->throttled_time * 1e-6, (double)longest_call * 1e-6,
           (uint64_t)stats()->hook_errors, event_count, launches ? wall * 1e-3 / (double)launches : 0,
           records, calls, wall * 1e-6);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    install();
    run_until(START + (uint64_t)(set.warmup * 1e9));
    drain();
    busy = outside = longest_call = records = calls = 0;
    uint64_t from = virtual_now, gpu_time = stats()->gpu_time, counted = stats()->launches;
    uint64_t launches = run_until(from + (uint64_t)(set.seconds * 1e9));
    drain();
    print(from, launches, stats()->gpu_time - gpu_time, stats()->launches - counted);
    return 0;
}
