/*
 * A sorted array of address ranges that do not overlap, searched by halving.
 *
 * Insertion and removal move what lies behind, some microseconds at ten thousand ranges, which is far below
 * what the calls it serves cost on a real card. What it does not do: locking.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Index of the first range that begins behind `address`. */
static size_t behind(const struct sim_ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges->at[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sim_ranges_insert(struct sim_ranges *ranges, uint64_t base, uint64_t size, void *object)
{
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity ? 2 * ranges->capacity : 64;
        struct sim_range *grown = realloc(ranges->at, capacity * sizeof *grown);
        if (!grown)
            return false;
        ranges->at = grown;
        ranges->capacity = capacity;
    }
    size_t place = behind(ranges, base);
    memmove(&ranges->at[place + 1], &ranges->at[place], (ranges->count - place) * sizeof *ranges->at);
    ranges->at[place] = (struct sim_range){base, size, object};
    ranges->count++;
    return true;
}

void sim_ranges_remove(struct sim_ranges *ranges, uint64_t base)
{
    size_t place = behind(ranges, base);
    if (!place || ranges->at[place - 1].base != base)
        return;
    memmove(&ranges->at[place - 1], &ranges->at[place], (ranges->count - place) * sizeof *ranges->at);
    ranges->count--;
}

struct sim_range *sim_ranges_find(const struct sim_ranges *ranges, uint64_t address)
{
    size_t place = behind(ranges, address);
    if (!place)
        return NULL;
    struct sim_range *range = &ranges->at[place - 1];
    return address - range->base < range->size ? range : NULL;
}

uint64_t sim_ranges_gap(const struct sim_ranges *ranges, uint64_t from, uint64_t to, uint64_t size, uint64_t align)
{
    size_t place = behind(ranges, from);
    if (place && from - ranges->at[place - 1].base < ranges->at[place - 1].size)
        from = ranges->at[place - 1].base + ranges->at[place - 1].size;
    for (;; place++) {
        from = (from + align - 1) / align * align;
        uint64_t end = place < ranges->count && ranges->at[place].base < to ? ranges->at[place].base : to;
        if (from <= end && size <= end - from)
            return from;
        if (end == to)
            return 0;
        from = ranges->at[place].base + ranges->at[place].size;
    }
}
