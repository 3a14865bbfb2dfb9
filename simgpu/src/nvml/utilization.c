/*
 * What was measured on an H200 (driver 580), with a load that starts on a process which was idle before:
 *
 *   card       0 or 100 % about 0.2 s after the load starts or ends: its newest sample;
 *   process    the average of its samples newer than the caller's lastSeenTimeStamp, up to the newest one:
 *              asked for the last second it reads 17 % after 0.19 s, 57 % after 0.58 s, 97 % after 1.06 s, and
 *              is gone a second after the load; asked for everything (0), it averages the process's life.
 *
 * So NVML's lag is the window that the caller chose, and up to one sample. The history here reaches back less
 * far than the driver's (LONGEST); a longer question that does not begin before the process is cut to that.
 */
#include "utilization.h"

#define LONGEST (12 * UTILIZATION_SAMPLE_NS) /* of the history's 2.56 s, in whole samples */

static uint32_t percent_of(uint64_t busy, uint64_t time) {
    uint64_t percent = time ? (busy * 100 + time / 2) / time : 0;
    return percent < 100 ? (uint32_t)percent : 100;
}

uint64_t utilization_newest(uint64_t now) {
    return now - now % UTILIZATION_SAMPLE_NS;
}

uint32_t utilization_of_sample(const struct sim_history *history, uint64_t now) {
    uint64_t to = utilization_newest(now), from = to - UTILIZATION_SAMPLE_NS;
    return percent_of(sim_history_busy(history, from, to), to - from);
}

bool utilization_since(const struct sim_history *history, uint64_t started, uint64_t since, uint64_t now,
                       uint32_t *percent) {
    uint64_t to = utilization_newest(now), from = utilization_newest(since), born = utilization_newest(started);
    if (from < born)
        from = born;
    if (from >= to)
        return false;
    if (to - from > LONGEST && from > born)
        from = to - LONGEST;
    *percent = to - from > LONGEST ? percent_of(history->total, now - started)
                                   : percent_of(sim_history_busy(history, from, to), to - from);
    return true;
}
