/*
 * weir-load: a CUDA client made to be measured. It keeps a GPU busy, or full, in a known way and writes down
 * what it got, one JSON object a line; it runs unchanged on a real card and on a simulated one.
 *
 * It reaches the driver as every real client does (dlopen, dlsym, cuGetProcAddress; see driver.c), so what is
 * preloaded in front of the driver is in front of weir-load too. It never includes engine.h and knows no more
 * of the simulated machine than the driver API shows.
 *
 *   options.c   command line          kernels.c   the kernels and how long they take
 *   driver.c    the way to libcuda    launches.c  queues, graphs, streams
 *   latency.c   times and arrivals    memory.c    allocations         report.c    JSON lines
 *   main.c      processes, signals, the order of things
 */
#ifndef WEIR_LOAD_H
#define WEIR_LOAD_H

#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LOAD_MAX_SIZES 64
#define LOAD_MAX_STREAMS 64
#define LOAD_MAX_PROCESSES 256
#define LOAD_ERROR_KINDS 8
#define LOAD_LATENCY_BUCKETS 2000 /* up to seven minutes */

/* ---- options.c ---- */

struct options {
    double kernel_us;
    double seconds; /* of launching; 0: not limited by time */
    double warmup;
    double hold;
    double idle_ms;
    double think_us;
    double every_ms; /* mean of random arrivals; 0: the next launch follows the last */
    double report_every;
    uint64_t launches; /* 0: not limited by number */
    uint64_t queue;
    uint64_t wait_every; /* launches between waits for the stream; 0: never */
    uint64_t graph;
    uint64_t streams;
    uint64_t grid;
    uint64_t device;
    uint64_t processes;
    uint64_t allocate_step;
    uint64_t allocate_until; /* 0: until refused */
    uint64_t sizes[LOAD_MAX_SIZES];
    uint64_t size_count;
    const char *report;
    bool wait, cooperative, extended, ptds, events, latency, no_calibrate, dlsym;
};

/* Ends the process with status 2 and one line on a bad value, with 0 after --help. */
void options_parse(struct options *options, int argc, char **argv);
bool options_launches(const struct options *options); /* whether kernels are launched at all */

/* ---- driver.c ---- */

/* name, CUDA version whose ABI is used, suffix of the per-thread-default-stream variant */
#define LOAD_DRIVER(X)                                                                                         \
    X(cuInit, 2000, "")                                                                                        \
    X(cuGetErrorName, 6000, "")                                                                                \
    X(cuDeviceGet, 2000, "")                                                                                   \
    X(cuDevicePrimaryCtxRetain, 7000, "")                                                                      \
    X(cuCtxSetCurrent, 4000, "")                                                                               \
    X(cuCtxSynchronize, 2000, "")                                                                              \
    X(cuModuleLoadData, 2000, "")                                                                              \
    X(cuModuleGetFunction, 2000, "")                                                                           \
    X(cuModuleGetGlobal, 3020, "")                                                                             \
    X(cuMemcpyDtoH, 7000, "_ptds")                                                                             \
    X(cuMemAlloc, 3020, "")                                                                                    \
    X(cuMemFree, 3020, "")                                                                                     \
    X(cuStreamCreate, 2000, "")                                                                                \
    X(cuStreamSynchronize, 7000, "_ptsz")                                                                      \
    X(cuEventCreate, 2000, "")                                                                                 \
    X(cuEventRecord, 7000, "_ptsz")                                                                            \
    X(cuEventSynchronize, 2000, "")                                                                            \
    X(cuEventElapsedTime, 2000, "")                                                                            \
    X(cuLaunchKernel, 7000, "_ptsz")                                                                           \
    X(cuLaunchKernelEx, 11060, "_ptsz")                                                                        \
    X(cuLaunchCooperativeKernel, 9000, "_ptsz")                                                                \
    X(cuStreamBeginCapture, 10010, "_ptsz")                                                                    \
    X(cuStreamEndCapture, 10000, "_ptsz")                                                                      \
    X(cuGraphInstantiateWithFlags, 11040, "")                                                                  \
    X(cuGraphLaunch, 10000, "_ptsz")

struct driver {
#define LOAD_MEMBER(name, version, suffix) __typeof__(&name) name;
    LOAD_DRIVER(LOAD_MEMBER)
#undef LOAD_MEMBER
};

extern struct driver driver;

void driver_open(const struct options *options);
const char *driver_error(CUresult result);

/* For calls that have no reason to fail: ends the process with status 1 and one line that names the call. */
#define CHECK(call) driver_check((call), #call)
void driver_check(CUresult result, const char *call);

/* ---- latency.c ---- */

struct latency {
    uint64_t buckets[LOAD_LATENCY_BUCKETS];
    uint64_t count;
};

struct arrivals {
    double last; /* seconds, CLOCK_MONOTONIC */
    uint64_t random;
};

void latency_add(struct latency *latency, double seconds);
double latency_percentile(const struct latency *latency, double percent); /* in seconds */
double arrival_next(struct arrivals *arrivals, double mean_seconds);      /* when the next launch is due */

/* ---- report.c ---- */

struct counters {
    uint64_t launches; /* calls that the driver took */
    uint64_t kernels;  /* known to be complete */
    double event_seconds;
    uint64_t allocated;
    CUresult error_codes[LOAD_ERROR_KINDS];
    uint64_t error_counts[LOAD_ERROR_KINDS];
};

struct report {
    FILE *file;
    const struct options *options;
    struct counters counters;
    struct latency latency;
    unsigned process;
    double started, last; /* seconds, CLOCK_MONOTONIC */
    uint64_t last_launches;
};

/* Ends the process with status 5 and one line if `file`, called so in --report, did not take all that was written. */
void output_flush(FILE *file, const char *name);
void report_open(struct report *report, const struct options *options, unsigned process);
void report_restart(struct report *report); /* forget what the warm-up counted */
void report_error(struct report *report, CUresult result);
void report_line(struct report *report, const char *phase);
void report_if_due(struct report *report);

/* ---- kernels.c ---- */

struct kernels {
    CUfunction spin, empty, chosen;
    uint64_t ns, iterations; /* the arguments of weir_spin */
    unsigned grid;
};

void kernels_load(struct kernels *kernels, const struct options *options);
CUresult kernels_launch(struct kernels *kernels, const struct options *options, CUstream stream);

/* ---- launches.c, memory.c ---- */

void launches_run(struct kernels *kernels, const struct options *options, struct report *report);
void memory_allocate(const struct options *options, struct report *report);

/* ---- main.c ---- */

extern volatile sig_atomic_t stop_asked; /* SIGTERM or SIGINT was seen */
double seconds_now(void);
void nap(double seconds); /* returns early once stop_asked */

#endif
