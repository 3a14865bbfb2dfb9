/*
 * See coverage.h: an array of disjoint intervals in ascending order. Adding one swallows those it touches,
 * so consecutive batches of one stream stay a single interval and the array stays short.
 */
#include "coverage.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define LENGTH_BITS 24
#define LONGEST ((INT64_C(1) << LENGTH_BITS) - 1)
#define WRAP (INT64_C(1) << (64 - LENGTH_BITS))
#define TRIES 8 /* each failure is another's success; then what is charged twice is little */

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

/* The word's interval, at that turn of the counter which lies nearest to `near`. */
static struct coverage_interval unpack(uint64_t word, int64_t near)
{
    int64_t start = (near & ~(WRAP - 1)) | (int64_t)(word >> LENGTH_BITS);
    start += start > near + WRAP / 2 ? -WRAP : start < near - WRAP / 2 ? WRAP : 0;
    return (struct coverage_interval){start, start + (int64_t)(word & LONGEST)};
}

static uint64_t pack(int64_t start, int64_t end)
{
    if (end - start > LONGEST)
        start = end - LONGEST;
    return (uint64_t)(start & (WRAP - 1)) << LENGTH_BITS | (uint64_t)(end - start);
}

/* Where an interval is entered: into a word that it touches, else a free one, else the oldest. */
struct entry {
    unsigned place;
    uint64_t old;
    struct coverage_interval whole; /* with all that it touches */
    int64_t age;                    /* the least so far */
};

static void consider(struct entry *entry, unsigned place, uint64_t word, struct coverage_interval held)
{
    struct coverage_interval *whole = &entry->whole;
    bool touches = word && held.start <= whole->end && held.end >= whole->start;
    if (touches) {
        whole->start = held.start < whole->start ? held.start : whole->start;
        whole->end = held.end > whole->end ? held.end : whole->end;
    }
    int64_t age = touches ? INT64_MIN : word ? held.end : INT64_MIN + 1;
    if (age < entry->age)
        *entry = (struct entry){place, word, *whole, age};
}

int64_t coverage_share(_Atomic uint64_t *words, unsigned count, int64_t start, int64_t end)
{
    start = (start + COVERAGE_UNIT / 2) / COVERAGE_UNIT;
    end = (end + COVERAGE_UNIT / 2) / COVERAGE_UNIT;
    int64_t added = 0;
    for (int try = 0; end > start && try < TRIES; try++) {
        struct coverage known = {.count = 0};
        struct entry entry = {.whole = {start, end}, .age = INT64_MAX};
        for (unsigned i = 0; i < count; i++) {
            uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
            struct coverage_interval held = unpack(word, end);
            coverage_add(&known, held.start, held.end);
            consider(&entry, i, word, held);
        }
        added = coverage_add(&known, start, end);
        uint64_t merged = pack(entry.whole.start, entry.whole.end);
        if (atomic_compare_exchange_strong(&words[entry.place], &entry.old, merged))
            break;
    }
    return added * COVERAGE_UNIT;
}
