/*
 * How long each launch took from its arrival to its completion, with --wait; and when the next one arrives.
 *
 * A histogram whose buckets are a hundredth wider each than the one before: any percentile is right to 1 % and
 * nothing grows. With --every-ms arrivals are a Poisson process: they keep coming while a launch is under way, so
 * one that is held up makes the next wait, and its waiting is counted. The sequence is the same in every run.
 */
#include <math.h>

#include "load.h"

#define WIDTH 1.01
#define MICROSECOND 1e-6

void latency_add(struct latency *latency, double seconds) {
    double bucket = seconds > MICROSECOND ? log(seconds / MICROSECOND) / log(WIDTH) : 0;
    latency->buckets[bucket < LOAD_LATENCY_BUCKETS ? (int)bucket : LOAD_LATENCY_BUCKETS - 1]++;
    latency->count++;
}

double latency_percentile(const struct latency *latency, double percent) {
    double wanted = (double)latency->count * percent / 100;
    uint64_t seen = 0;
    for (int i = 0; i < LOAD_LATENCY_BUCKETS; i++) {
        seen += latency->buckets[i];
        if (seen && (double)seen >= wanted)
            return MICROSECOND * pow(WIDTH, i + 0.5);
    }
    return 0;
}

/* A number above 0 and at most 1; 64-bit linear congruence, its upper 53 bits. */
static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*state >> 11) + 1) / 9007199254740992.0;
}

double arrival_next(struct arrivals *arrivals, double mean_seconds) {
    if (arrivals->last == 0)
        arrivals->last = seconds_now();
    arrivals->last -= mean_seconds * log(uniform(&arrivals->random));
    return arrivals->last;
}
