/*
 * See estimates.h. An estimate falls half-way to what was measured and rises by an eighth of the way (half
 * of that where functions share a batch), because what disturbs a measurement, a neighbour's turn on the
 * card or a host that was held up, only ever lengthens it. What is used is charged as measured all the
 * same: estimates decide how much may be in flight.
 */
#include "estimates.h"

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

struct estimate *estimate_claim(struct estimates *estimates, uintptr_t function)
{
    unsigned slot = estimate_slot(function);
    struct estimate *entry = NULL;
    for (unsigned probe = 0; probe < ESTIMATE_PROBES; probe++) {
        entry = &estimates->slots[(slot + probe) % ESTIMATE_SLOTS];
        uintptr_t held = 0;
        bool comes = atomic_compare_exchange_strong(&entry->function, &held, function);
        if (comes)
            atomic_fetch_add(&estimates->functions, 1);
        if (comes || held == function)
            return entry;
    }
    atomic_store(&entry->function, function);
    atomic_store(&entry->ns, 0);
    atomic_store(&entry->pending, 0);
    atomic_store(&entry->loaded, false);
    atomic_store(&entry->due, 0);
    return entry;
}

uint64_t estimate_due_in(const struct estimates *estimates, bool paced, uint64_t ticks)
{
    uint64_t each = atomic_load_explicit(&estimates->functions, memory_order_relaxed) * ESTIMATE_EACH;
    uint64_t usual = (each > ESTIMATE_DUE ? each : ESTIMATE_DUE) * (paced ? 1 : ESTIMATE_FED);
    return usual / 2 + (uint64_t)((unsigned __int128)usual * weir_hash(ticks) >> 64);
}

static void move_towards(struct estimate *estimate, uint64_t target, unsigned fall, unsigned rise)
{
    uint64_t old = atomic_load_explicit(&estimate->ns, memory_order_relaxed);
    if (old && target > old)
        target = old + ((target - old) >> rise);
    else if (old)
        target = old - ((old - target) >> fall);
    atomic_store_explicit(&estimate->ns, within(target, ESTIMATE_LEAST, ESTIMATE_MOST), memory_order_relaxed);
    atomic_store_explicit(&estimate->pending, 0, memory_order_relaxed);
}

void estimate_learn(struct estimate *estimate, uint64_t measured, uint32_t launches)
{
    if (launches)
        move_towards(estimate, measured / launches, 1, 3);
}

void estimate_correct(struct estimate *estimate, uint64_t measured)
{
    uint64_t twice = 2 * atomic_load_explicit(&estimate->ns, memory_order_relaxed);
    move_towards(estimate, measured < twice ? measured : twice, 1, 2);
}

void estimate_scale(const struct estimate_note *notes, unsigned count, uint64_t charged, uint64_t measured)
{
    for (unsigned i = 0; i < count && charged; i++) {
        unsigned __int128 target = (unsigned __int128)notes[i].charged * measured / charged;
        move_towards(notes[i].estimate, target > ESTIMATE_MOST ? ESTIMATE_MOST : (uint64_t)target, 2, 4);
    }
}

void longest_note(_Atomic uint64_t *longest, _Atomic uint64_t *seen, uint64_t ns, uint64_t now)
{
    uint64_t old = atomic_load_explicit(longest, memory_order_relaxed), keep = old;
    uint64_t last = atomic_load_explicit(seen, memory_order_relaxed);
    if (ns >= old - old / 4) {
        atomic_store_explicit(seen, now, memory_order_relaxed);
        keep = ns < old ? old - (old - ns) / 16 : ns; /* what disturbs a measurement lengthens it */
    } else if ((last > now || now - last > ESTIMATE_HALF_LIFE) && atomic_compare_exchange_strong(seen, &last, now)) {
        keep = old / 2;
    }
    uint64_t next = ns > keep ? ns : keep;
    while (next != old && !atomic_compare_exchange_weak(longest, &old, next))
        next = ns > old ? ns : old; /* somebody else was here: it is lengthened only */
}
