/*
 * What this process holds of each device, and for what, as it was charged. The page says the same; this is for the
 * case that the page is cut short or replaced, when the process brings what it holds with it. Charges that another
 * thread has under way at that moment may be missing from the new page: the agent finds them unaccounted for.
 */
#include "internal.h"
#include "ledger.h"

static _Atomic int64_t held[WEIR_MAX_DEVICES][WEIR_KINDS]; /* in WEIR_UNIT, rounded up as the ledger does */

void weir_held_add(uint32_t device, enum weir_kind kind, int64_t bytes)
{
    int64_t units = (bytes < 0 ? bytes - (WEIR_UNIT - 1) : bytes + (WEIR_UNIT - 1)) / WEIR_UNIT;
    atomic_fetch_add_explicit(&held[device % WEIR_MAX_DEVICES][kind], units, memory_order_relaxed);
}

void weir_held_charge(const struct weir_slice *slice, uint32_t slot)
{
    for (uint32_t device = 0; device < slice->device_count; device++)
        for (int kind = 0; kind < WEIR_KINDS; kind++) {
            int64_t units = atomic_load(&held[device][kind]);
            if (units > 0)
                weir_ledger_take(slice, slot, device, (enum weir_kind)kind, (uint64_t)units * WEIR_UNIT,
                                 WEIR_NO_LIMIT);
        }
}

void weir_held_forget(void)
{
    for (uint32_t device = 0; device < WEIR_MAX_DEVICES; device++)
        for (int kind = 0; kind < WEIR_KINDS; kind++)
            atomic_store(&held[device][kind], 0);
}
