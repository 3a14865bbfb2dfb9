/*
 * The union of the last few intervals of GPU time, so that streams that overlap are not charged twice.
 *
 * Pure. Intervals arrive nearly in order; a handful of disjoint ones is kept, and the oldest is forgotten
 * when they run out. An interval that lies before everything that is still remembered counts in full: what
 * was forgotten ended long before it could still matter.
 */
#ifndef WEIR_COVERAGE_H
#define WEIR_COVERAGE_H

#include <stdint.h>

#define COVERAGE_INTERVALS 16

struct coverage {
    unsigned count;
    struct coverage_interval {
        int64_t start, end;
    } intervals[COVERAGE_INTERVALS]; /* disjoint, in ascending order */
};

/* Adds [start, end); returns how many ns of it were not covered before. */
int64_t coverage_add(struct coverage *coverage, int64_t start, int64_t end);

#endif
