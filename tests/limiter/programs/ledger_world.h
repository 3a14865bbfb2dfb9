/*
 * A slice without its files' makers: what the ledger's test programs share. It is linked with ledger.c, slots.c
 * and slice.c as they are; the parts of the limiter that only matter with a driver are left out.
 */
#ifndef LEDGER_WORLD_H
#define LEDGER_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"
#include "ledger.h"
#include "../../programs/require.h"

#define MIB UINT64_C(1048576)

/* held.c is linked in; nothing else is there to be forgotten. */
#define NOTHING_TO_FORGET(table)                                                                             \
    __attribute__((weak)) void weir_##table##_forget(void) {}
WEIR_LARGE_TABLES(NOTHING_TO_FORGET)
WEIR_SMALL_TABLES(NOTHING_TO_FORGET)

static inline uint64_t word_bytes(uint64_t word)
{
    return (word >> WEIR_WORD_SUM_SHIFT) * WEIR_UNIT;
}

/* Σ over the slots of what each holds on a device. */
static inline uint64_t slots_total(const struct weir_slice *slice, uint32_t device)
{
    uint64_t total = 0;
    for (uint32_t slot = 0; slot < slice->slot_count; slot++)
        total += word_bytes(atomic_load(&weir_slot_device(slice, slot, device)->used));
    return total;
}

/* No sequence of an intent has gone back since the last call; for one slot in a program. */
static inline void check_sequences(const struct weir_slice *slice, uint32_t slot)
{
    static uint64_t last[WEIR_INTENTS];
    for (uint32_t i = 0; i < WEIR_INTENTS; i++) {
        uint64_t now = atomic_load(&weir_slot_header(slice, slot)->intents[i].sequence);
        REQUIRE(now >= last[i]);
        last[i] = now;
    }
}

/* How many of its intents stand for an operation that has not ended. */
static inline uint32_t under_way(const struct weir_slice *slice, uint32_t slot)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WEIR_INTENTS; i++)
        count += atomic_load(&weir_slot_header(slice, slot)->intents[i].sequence) & 1;
    return count;
}

#endif
