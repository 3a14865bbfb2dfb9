/*
 * Utilisation history: how many nanoseconds of each 10 ms step somebody was busy, for the last 2.56 s.
 *
 * Time only grows; a step that time has passed over without work reads 0. What it does not do: smooth or
 * delay anything. NVML's lag is made by whoever reads it.
 */
#include "engine.h"

#include <string.h>

static void forward(struct sim_history *history, uint64_t bucket)
{
    if (bucket <= history->newest)
        return;
    if (bucket - history->newest >= SIM_BUCKETS)
        memset(history->busy, 0, sizeof(history->busy));
    else
        for (uint64_t b = history->newest + 1; b <= bucket; b++)
            history->busy[b % SIM_BUCKETS] = 0;
    history->newest = bucket;
}

static void add_to_bucket(struct sim_history *history, uint64_t bucket, uint64_t busy)
{
    forward(history, bucket);
    if (bucket + SIM_BUCKETS > history->newest)
        history->busy[bucket % SIM_BUCKETS] += (uint32_t)busy;
}

void sim_history_add(struct sim_history *history, uint64_t from, uint64_t to)
{
    history->total += to - from;
    if (to > from + SIM_BUCKETS * SIM_BUCKET_NS)
        from = to - SIM_BUCKETS * SIM_BUCKET_NS;
    while (from < to) {
        uint64_t bucket = from / SIM_BUCKET_NS;
        uint64_t end = (bucket + 1) * SIM_BUCKET_NS;
        end = end < to ? end : to;
        add_to_bucket(history, bucket, end - from);
        from = end;
    }
}

uint64_t sim_history_busy(const struct sim_history *history, uint64_t from, uint64_t to)
{
    uint64_t first = from / SIM_BUCKET_NS, last = to / SIM_BUCKET_NS, busy = 0;
    if (first + SIM_BUCKETS <= history->newest)
        first = history->newest - SIM_BUCKETS + 1;
    for (uint64_t b = first; b < last && b <= history->newest; b++)
        busy += history->busy[b % SIM_BUCKETS];
    return busy;
}
