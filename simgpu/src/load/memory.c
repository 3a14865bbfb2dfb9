/*
 * Device memory that the load takes before it launches: sizes given one by one, which must succeed, and steps
 * that go on until the driver refuses one, which is their purpose. Nothing is given back before the end; the
 * driver frees it with the process.
 */
#include <stddef.h>
#include <stdlib.h>

#include "load.h"

static CUresult take(struct report *report, uint64_t bytes) {
    CUdeviceptr pointer;
    CUresult result = driver.cuMemAlloc(&pointer, bytes);
    if (result == CUDA_SUCCESS)
        report->counters.allocated += bytes;
    else
        report_error(report, result);
    return result;
}

static void take_in_steps(const struct options *options, struct report *report) {
    uint64_t until = options->allocate_until ? options->allocate_until : UINT64_MAX;
    while (!stop_asked && report->counters.allocated < until)
        if (take(report, options->allocate_step) != CUDA_SUCCESS)
            break;
}

void memory_allocate(const struct options *options, struct report *report) {
    for (uint64_t i = 0; i < options->size_count; i++) {
        CUresult result = take(report, options->sizes[i]);
        if (result == CUDA_SUCCESS)
            continue;
        report_line(report, "failed");
        fprintf(stderr, "weir-load: --memory: %llu bytes: %s\n", (unsigned long long)options->sizes[i],
                driver_error(result));
        exit(1);
    }
    if (options->allocate_step)
        take_in_steps(options, report);
    if (options->size_count || options->allocate_step)
        report_line(report, "allocated");
}
