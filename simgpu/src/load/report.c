/*
 * What the load got, as JSON lines: one after allocating, one every --report-every seconds, one at the end.
 *
 *   {"phase":"running","process":0,"pid":7,"device":0,"at":<CLOCK_MONOTONIC s>,"t":1.0,"launches":1000,
 *    "kernels":990,"kernel_seconds":0.99,"launches_per_second":1000.0,"allocated":0,"errors":{}}
 *
 * `kernels` counts those known to be complete, `kernel_seconds` is that times the nominal duration, and
 * `event_seconds` (with --events) is the time between events around them; `p50_us` and `p99_us` (with --latency)
 * are what launches took from their arrival on. `t` starts after the warm-up.
 * `launches_per_second` is since the line before, in the last line over the whole run. A line is one write to
 * a file opened for appending: several processes can share it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

static _Noreturn void output_failed(const char *name) {
    if (strcmp(name, "-") == 0)
        fprintf(stderr, "weir-load: standard output: %s; give it a place that can be written to\n", strerror(errno));
    else
        fprintf(stderr, "weir-load: --report: %s: %s\n", name, strerror(errno));
    exit(5);
}

void output_flush(FILE *file, const char *name) {
    if (fflush(file) != 0 || ferror(file))
        output_failed(name);
}

void report_open(struct report *report, const struct options *options, unsigned process) {
    *report = (struct report){.options = options, .process = process, .file = stdout};
    if (strcmp(options->report, "-") != 0) {
        int descriptor = open(options->report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        report->file = descriptor < 0 ? NULL : fdopen(descriptor, "a");
    }
    if (!report->file)
        output_failed(options->report);
    report_restart(report);
}

void report_restart(struct report *report) {
    report->counters.launches = 0;
    report->counters.kernels = 0;
    report->counters.event_seconds = 0;
    report->latency = (struct latency){0};
    report->last_launches = 0;
    report->started = report->last = seconds_now();
}

void report_error(struct report *report, CUresult result) {
    struct counters *counters = &report->counters;
    for (int i = 0; i < LOAD_ERROR_KINDS; i++) {
        if (counters->error_counts[i] && counters->error_codes[i] != result)
            continue;
        counters->error_codes[i] = result;
        counters->error_counts[i]++;
        return;
    }
}

static int format_errors(const struct counters *counters, char *text, size_t size) {
    int length = 0;
    text[0] = 0;
    for (int i = 0; i < LOAD_ERROR_KINDS && counters->error_counts[i]; i++)
        length += snprintf(text + length, size - (size_t)length, "%s\"%s\":%llu", i ? "," : "",
                           driver_error(counters->error_codes[i]),
                           (unsigned long long)counters->error_counts[i]);
    return length;
}

void report_line(struct report *report, const char *phase) {
    const struct counters *counters = &report->counters;
    double now = seconds_now();
    bool whole = strcmp(phase, "done") == 0;
    double since = whole ? report->started : report->last;
    uint64_t before = whole ? 0 : report->last_launches;
    double rate = now > since ? (double)(counters->launches - before) / (now - since) : 0;
    char errors[LOAD_ERROR_KINDS * 80], events[48] = "", latency[80] = "";
    format_errors(counters, errors, sizeof errors);
    if (report->options->events)
        snprintf(events, sizeof events, "\"event_seconds\":%.6f,", counters->event_seconds);
    if (report->options->latency)
        snprintf(latency, sizeof latency, "\"p50_us\":%.1f,\"p99_us\":%.1f,",
                 latency_percentile(&report->latency, 50) * 1e6, latency_percentile(&report->latency, 99) * 1e6);
    fprintf(report->file,
            "{\"phase\":\"%s\",\"process\":%u,\"pid\":%d,\"device\":%llu,\"at\":%.6f,\"t\":%.6f,"
            "\"launches\":%llu,\"kernels\":%llu,\"kernel_seconds\":%.6f,%s%s\"launches_per_second\":%.1f,"
            "\"allocated\":%llu,\"errors\":{%s}}\n",
            phase, report->process, (int)getpid(), (unsigned long long)report->options->device, now,
            now - report->started, (unsigned long long)counters->launches,
            (unsigned long long)counters->kernels,
            (double)counters->kernels * report->options->kernel_us * 1e-6, events, latency, rate,
            (unsigned long long)counters->allocated, errors);
    output_flush(report->file, report->options->report);
    report->last = now;
    report->last_launches = counters->launches;
}

void report_if_due(struct report *report) {
    double every = report->options->report_every;
    if (every > 0 && seconds_now() - report->last >= every)
        report_line(report, "running");
}
