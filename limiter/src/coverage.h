/*
 * The union of the last few intervals of GPU time, so that what overlaps is not charged twice: streams of one
 * process, and the processes of one slice, whose events each hold the others' turns as well.
 *
 * Intervals arrive nearly in order; a handful of disjoint ones is kept, and the oldest is forgotten when they
 * run out. An interval that lies before everything that is still remembered counts in full: what was forgotten
 * ended long before it could still matter.
 *
 * The slice's processes remember in words of the stats page, one interval to a word, each replaced by one
 * compare-and-swap: there is no lock, and who dies leaves the old word or the new. Two that enter touching
 * intervals in the same instant may both be charged for where they meet. A word holds a start modulo 13 days
 * and a length of up to 17 s, in units of 1.024 us; both ends of an interval are rounded, so the sum over
 * intervals that follow each other is exact.
 */
#ifndef WEIR_COVERAGE_H
#define WEIR_COVERAGE_H

#include <stdint.h>

#define COVERAGE_INTERVALS 16
#define COVERAGE_UNIT 1024 /* ns: what shared words can tell apart */

struct coverage {
    unsigned count;
    struct coverage_interval {
        int64_t start, end;
    } intervals[COVERAGE_INTERVALS]; /* disjoint, in ascending order */
};

/* Adds [start, end); returns how many ns of it were not covered before. */
int64_t coverage_add(struct coverage *coverage, int64_t start, int64_t end);

/* The same in `count` words that processes share, at most COVERAGE_INTERVALS; times are CLOCK_MONOTONIC. */
int64_t coverage_share(_Atomic uint64_t *words, unsigned count, int64_t start, int64_t end);

#endif
