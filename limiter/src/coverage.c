/*
 * See coverage.h: an array of disjoint intervals in ascending order. Adding one swallows those it touches,
 * so consecutive batches of one stream stay a single interval and the array stays short.
 */
#include "coverage.h"

#include <string.h>

static void remove_range(struct coverage *coverage, unsigned first, unsigned after)
{
    memmove(&coverage->intervals[first], &coverage->intervals[after],
            (coverage->count - after) * sizeof coverage->intervals[0]);
    coverage->count -= after - first;
}

int64_t coverage_add(struct coverage *coverage, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    struct coverage_interval *held = coverage->intervals;
    unsigned first = 0;
    while (first < coverage->count && held[first].end < start)
        first++;
    int64_t added = end - start;
    struct coverage_interval merged = {start, end};
    unsigned after = first;
    for (; after < coverage->count && held[after].start <= end; after++) {
        int64_t from = held[after].start > start ? held[after].start : start;
        int64_t to = held[after].end < end ? held[after].end : end;
        added -= to - from;
        merged.start = held[after].start < merged.start ? held[after].start : merged.start;
        merged.end = held[after].end > merged.end ? held[after].end : merged.end;
    }
    remove_range(coverage, first, after);
    if (coverage->count == COVERAGE_INTERVALS) {
        remove_range(coverage, 0, 1);
        first = first ? first - 1 : 0;
    }
    memmove(&held[first + 1], &held[first], (coverage->count - first) * sizeof held[0]);
    held[first] = merged;
    coverage->count++;
    return added;
}
