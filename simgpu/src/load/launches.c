/*
 * Launches: streams in turn, each with at most --queue launches under way.
 *
 * A stream's queue is two halves; each half ends in an event, and a half is filled again only once its event
 * has come, so the queue is never above its limit and seldom below half of it, at two driver calls a half.
 * With --wait-every there is one half of so many launches (--wait: of one), and the stream itself is waited for
 * where it is full, as a program without a queue does. Kernels count when their half is known to be complete.
 * Nothing but launching, thinking and counting happens here.
 */
#include <stddef.h>

#include "load.h"

struct half {
    CUevent begin, end;
    uint64_t launches; /* in it and not yet known to be complete */
};

struct lane {
    CUstream stream;
    struct half halves[2];
    unsigned filling;
};

struct run {
    struct kernels *kernels;
    const struct options *options;
    struct report *report;
    struct lane lanes[LOAD_MAX_STREAMS];
    uint64_t half_size;
    unsigned halves;
    CUgraphExec graph;
    struct arrivals arrivals;
};

static void lane_open(struct lane *lane, const struct options *options) {
    unsigned flags = options->events ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    if (!options->ptds)
        CHECK(driver.cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) {
        CHECK(driver.cuEventCreate(&lane->halves[i].begin, flags | CU_EVENT_BLOCKING_SYNC));
        CHECK(driver.cuEventCreate(&lane->halves[i].end, flags | CU_EVENT_BLOCKING_SYNC));
    }
}

/* K launches captured into one graph, as frameworks do it. */
static void graph_build(struct run *run) {
    CUgraph graph;
    CUstream stream;
    CHECK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (uint64_t i = 0; i < run->options->graph; i++)
        CHECK(kernels_launch(run->kernels, run->options, stream));
    CHECK(driver.cuStreamEndCapture(stream, &graph));
    CHECK(driver.cuGraphInstantiateWithFlags(&run->graph, graph, 0));
}

/* Waits until everything in this half is complete, and counts it. */
static void half_collect(struct run *run, struct lane *lane, struct half *half) {
    if (!half->launches)
        return;
    CHECK(run->options->wait_every ? driver.cuStreamSynchronize(lane->stream)
                                   : driver.cuEventSynchronize(half->end));
    uint64_t each = run->options->graph ? run->options->graph : 1;
    run->report->counters.kernels += half->launches * each;
    half->launches = 0;
    if (run->options->events) {
        float elapsed;
        CHECK(driver.cuEventElapsedTime(&elapsed, half->begin, half->end));
        run->report->counters.event_seconds += (double)elapsed * 1e-3;
    }
}

/* Ends the half that is being filled; the next launch goes into the other one. */
static void half_close(struct run *run, struct lane *lane) {
    struct half *half = &lane->halves[lane->filling];
    if (run->options->events || !run->options->wait_every)
        CHECK(driver.cuEventRecord(half->end, lane->stream));
    lane->filling = (lane->filling + 1) % run->halves;
    if (run->options->wait_every)
        half_collect(run, lane, half);
}

static void launch_one(struct run *run, struct lane *lane) {
    struct half *half = &lane->halves[lane->filling];
    if (half->launches == run->half_size) /* still full from its last turn */
        half_collect(run, lane, half);
    if (half->launches == 0 && run->options->events)
        CHECK(driver.cuEventRecord(half->begin, lane->stream));
    CUresult result = run->graph ? driver.cuGraphLaunch(run->graph, lane->stream)
                                 : kernels_launch(run->kernels, run->options, lane->stream);
    if (result != CUDA_SUCCESS) {
        report_error(run->report, result);
        report_line(run->report, "failed");
        driver_check(result, run->graph ? "cuGraphLaunch(" : "cuLaunchKernel(");
    }
    run->report->counters.launches++;
    if (++half->launches == run->half_size)
        half_close(run, lane);
}

static void drain(struct run *run) {
    for (uint64_t i = 0; i < run->options->streams; i++) {
        struct lane *lane = &run->lanes[i];
        if (lane->halves[lane->filling].launches && lane->halves[lane->filling].launches < run->half_size)
            half_close(run, lane);
        for (int half = 0; half < 2; half++)
            half_collect(run, lane, &lane->halves[half]);
    }
}

/* Waits for the next arrival, if they come by themselves; when it came, though it may have been long ago. */
static double await_arrival(struct run *run) {
    if (run->options->every_ms <= 0)
        return seconds_now();
    double due = arrival_next(&run->arrivals, run->options->every_ms * 1e-3);
    nap(due - seconds_now());
    return due;
}

/* What a CPU-bound program does between launches: it is awake all the time, however long the launch took. */
static void think(double seconds) {
    for (double until = seconds_now() + seconds; seconds_now() < until;)
        ;
}

static void launch_until(struct run *run, double deadline, uint64_t launches) {
    const struct options *options = run->options;
    uint64_t next = 0;
    for (; !stop_asked && next < launches && seconds_now() < deadline; next++) {
        double arrived = await_arrival(run);
        launch_one(run, &run->lanes[next % options->streams]);
        if (options->wait)
            latency_add(&run->report->latency, seconds_now() - arrived);
        if (options->idle_ms > 0)
            nap(options->idle_ms * 1e-3);
        if (options->think_us > 0)
            think(options->think_us * 1e-6);
        report_if_due(run->report);
    }
    drain(run);
}

void launches_run(struct kernels *kernels, const struct options *options, struct report *report) {
    static struct run run; /* too large for a stack; one for each process */
    bool queued = !options->wait_every && options->queue > 1;
    run = (struct run){.kernels = kernels, .options = options, .report = report};
    run.halves = queued ? 2 : 1;
    run.half_size = queued ? options->queue / 2 : options->wait_every ? options->wait_every : 1;
    for (uint64_t i = 0; i < options->streams; i++)
        lane_open(&run.lanes[i], options);
    if (options->graph)
        graph_build(&run);
    if (options->warmup > 0)
        launch_until(&run, seconds_now() + options->warmup, UINT64_MAX);
    report_restart(report);
    launch_until(&run, options->seconds > 0 ? seconds_now() + options->seconds : 1e300,
                 options->launches ? options->launches : UINT64_MAX);
}
