/*
 * Charging (account.h): which limit holds now, what is tried before a refusal, and the counters.
 *
 * Limits come from the control page at every charge, so a change or a lease is in force with the next call.
 * The only place where the slice's slot, the ledger and the control page meet.
 */
#include "account.h"

#include "internal.h"
#include "ledger.h"
#include "physical.h"
#include "pools.h"

/* A page that is found cut short only while it is charged says nothing of what is held, and the charge is void. */
static bool take(const struct weir_slice *slice, uint32_t device, enum weir_kind kind, uint64_t bytes)
{
    int slot = weir_slot(slice);
    if (slot < 0 ||
        !weir_ledger_take(slice, (uint32_t)slot, device, kind, bytes, weir_memory_limit(slice, device)) ||
        atomic_load_explicit(&slice->own->stats.replaced, memory_order_relaxed))
        return false;
    weir_held_add(device, kind, (int64_t)bytes);
    return true;
}

bool weir_try_charge(int device, enum weir_kind kind, uint64_t bytes)
{
    const struct weir_slice *slice = weir_slice();
    if (device == WEIR_NO_DEVICE)
        return !weir_refusing();
    if (device < 0 || !slice)
        return false;
    if (take(slice, (uint32_t)device, kind, bytes))
        return true;
    weir_pools_trim();
    weir_physical_refresh();
    weir_reap(slice);
    return take(slice, (uint32_t)device, kind, bytes);
}

bool weir_charge(int device, enum weir_kind kind, uint64_t bytes)
{
    if (weir_try_charge(device, kind, bytes))
        return true;
    weir_count_denied(device, bytes);
    return false;
}

void weir_charge_anyway(int device, enum weir_kind kind, uint64_t bytes)
{
    const struct weir_slice *slice = weir_slice();
    int slot = slice && device >= 0 ? weir_slot(slice) : -1;
    if (slot >= 0 && weir_ledger_take(slice, (uint32_t)slot, (uint32_t)device, kind, bytes, WEIR_NO_LIMIT))
        weir_held_add((uint32_t)device, kind, (int64_t)bytes);
}

void weir_give_back(int device, enum weir_kind kind, uint64_t bytes)
{
    const struct weir_slice *slice = weir_slice();
    int slot = slice && device >= 0 ? weir_slot(slice) : -1;
    if (slice && device >= 0)
        weir_held_add((uint32_t)device, kind, -(int64_t)bytes); /* even while there is no page to say so */
    if (slot >= 0)
        weir_ledger_give(slice, (uint32_t)slot, (uint32_t)device, kind, bytes);
}

/* The stats of a device; those of the slice's first for a card that is not in it; NULL without a slice. */
static struct weir_stats_device *stats_of(int device)
{
    const struct weir_slice *slice = weir_slice();
    return slice ? weir_stats_device(slice, device >= 0 ? (uint32_t)device : 0) : NULL;
}

void weir_count_denied(int device, uint64_t bytes)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_stats_device *stats = stats_of(device);
    if (!stats)
        return;
    bool accountable = device >= 0 && weir_slot(slice) >= 0; /* a full page has no slot to charge it to */
    atomic_fetch_add(accountable ? &stats->denied_limit : &stats->denied_policy, 1);
    atomic_fetch_add(&stats->denied_bytes, bytes);
}

void weir_count_result(int device, CUresult result)
{
    struct weir_stats_device *stats = device >= 0 ? stats_of(device) : NULL;
    if (stats && result == CUDA_SUCCESS)
        atomic_fetch_add(&stats->allocations, 1);
    else if (stats && result == CUDA_ERROR_OUT_OF_MEMORY)
        atomic_fetch_add(&stats->denied_device, 1);
}

void weir_count_free(int device)
{
    struct weir_stats_device *stats = device >= 0 ? stats_of(device) : NULL;
    if (stats)
        atomic_fetch_add(&stats->frees, 1);
}

void weir_count_error(int device)
{
    struct weir_stats_device *stats = stats_of(device);
    if (stats)
        atomic_fetch_add(&stats->hook_errors, 1);
}
