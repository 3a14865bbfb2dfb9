/*
 * The ledger of ledger.h. The life of one operation, in the order in which its traces reach the page:
 *
 *   1. claim    the intent is the thread's (intents.h); sequence even → odd; delta, device and kind are written
 *   2. apply    device word: sum + delta, tagged with (intent, sequence); then intent.applied = sequence
 *   3. fold     slot word: the same, then intent.folded = sequence
 *   4. release  intent.sequence odd → even; the intent is anybody's
 *
 * Killed before 2 nothing has happened; killed between 2 and 3 the device holds bytes that the slot does not
 * show yet. Which of the two it was is in the device word, or (if somebody has replaced that word since) in
 * intent.applied, because everybody records the tag he is about to overwrite. The order above is the proof: each
 * step ends in a compare-and-swap (the last in a release), which no earlier or later store of the thread passes.
 * An operation that a handler jumped out of is ended as one that was killed, by the next of its thread.
 *
 * Not here: sizes, limits, who may reap, which thread has which intent.
 */
#include "ledger.h"

#include <errno.h>
#include <sched.h>

#include "clock.h"
#include "intents.h"

#define MAX_UNITS ((UINT64_C(1) << (64 - WEIR_WORD_SUM_SHIFT)) - 1)
#define CLAIM_TRIES 4000 /* then 50 µs apart: a fifth of a second in all */

struct operation {
    const struct weir_slice *slice;
    struct weir_intent *intent;
    uint64_t tag; /* intent and sequence, as they stand in a word */
    uint64_t sequence;
    uint32_t slot;
    uint32_t device;
    int64_t units;
};

enum place { DEVICE_WORD, SLOT_WORD };

static _Atomic uint64_t *word_of(const struct weir_slice *slice, uint32_t slot, uint32_t device, enum place place)
{
    return place == DEVICE_WORD ? &weir_stats_device(slice, device)->used
                                : &weir_slot_device(slice, slot, device)->used;
}

static _Atomic uint64_t *mark_of(struct weir_intent *intent, enum place place)
{
    return place == DEVICE_WORD ? &intent->applied : &intent->folded;
}

static uint64_t tag_of(uint32_t slot, uint32_t index, uint64_t sequence)
{
    uint64_t name = (uint64_t)slot * WEIR_INTENTS + index;
    return name << WEIR_WORD_INTENT_SHIFT | (sequence & WEIR_WORD_SEQUENCE_MASK);
}

static bool names(uint64_t word, uint64_t tag)
{
    return (word & ((UINT64_C(1) << WEIR_WORD_SUM_SHIFT) - 1)) == tag;
}

/* Records the operation named in `seen` in its own intent, before that name is overwritten. */
static void help(const struct weir_slice *slice, _Atomic uint64_t *word, uint64_t seen, uint32_t device,
                 enum place place)
{
    uint64_t name = seen >> WEIR_WORD_INTENT_SHIFT & WEIR_WORD_INTENT_MASK;
    if (name / WEIR_INTENTS >= slice->slot_count)
        return; /* a tenant's scribble */
    struct weir_intent *intent =
        &weir_slot_header(slice, (uint32_t)(name / WEIR_INTENTS))->intents[name % WEIR_INTENTS];
    uint64_t sequence = atomic_load(&intent->sequence);
    bool under_way = (sequence & 1) && (sequence & WEIR_WORD_SEQUENCE_MASK) == (seen & WEIR_WORD_SEQUENCE_MASK);
    if (!under_way || atomic_load(&intent->device) != device)
        return; /* finished: its owner has recorded it himself */
    if (atomic_load(word) != seen)
        return; /* replaced meanwhile: whoever did that has helped */
    uint64_t marked = atomic_load(mark_of(intent, place));
    if (marked < sequence) /* only ever forward, so a helper that slept cannot undo a later mark */
        atomic_compare_exchange_strong(mark_of(intent, place), &marked, sequence);
}

/* Moves one word by the operation's delta. False: it would pass the limit (bytes). */
static bool move(const struct operation *op, enum place place, uint64_t limit)
{
    _Atomic uint64_t *word = word_of(op->slice, op->slot, op->device, place);
    uint64_t seen = atomic_load(word);
    uint64_t next;
    do {
        uint64_t sum = seen >> WEIR_WORD_SUM_SHIFT;
        if (op->units >= 0) {
            next = sum + (uint64_t)op->units;
            if (next > MAX_UNITS || next > limit / WEIR_UNIT)
                return false;
        } else {
            uint64_t less = (uint64_t)-op->units;
            next = sum > less ? sum - less : 0;
        }
        help(op->slice, word, seen, op->device, place);
        WEIR_LEDGER_STEP();
    } while (!atomic_compare_exchange_weak(word, &seen, next << WEIR_WORD_SUM_SHIFT | op->tag));
    WEIR_LEDGER_STEP();
    atomic_store_explicit(mark_of(op->intent, place), op->sequence, memory_order_relaxed);
    WEIR_LEDGER_STEP();
    return true;
}

/* Opens an intent that nobody else uses. */
static void open_intent(struct operation *op, uint32_t index)
{
    op->intent = &weir_slot_header(op->slice, op->slot)->intents[index];
    op->sequence = (atomic_load(&op->intent->sequence) + 1) | 1;
    op->tag = tag_of(op->slot, index, op->sequence);
    /* The sequence in a word is cut to 18 bits: step over the one that would look as if we had been there. */
    if (names(atomic_load(word_of(op->slice, op->slot, op->device, DEVICE_WORD)), op->tag) ||
        names(atomic_load(word_of(op->slice, op->slot, op->device, SLOT_WORD)), op->tag)) {
        op->sequence += 2;
        op->tag = tag_of(op->slot, index, op->sequence);
    }
    atomic_store_explicit(&op->intent->sequence, op->sequence, memory_order_release);
    WEIR_LEDGER_STEP();
}

static void finish(const struct weir_slice *slice, uint32_t slot, uint32_t index);

static void end_abandoned_operation(uint32_t index, const void *argument)
{
    const struct operation *op = argument;
    finish(op->slice, op->slot, index);
}

/* Other threads have all of the process's intents: waits a bounded time for one. */
static bool wait_for_intent(const struct operation *op, struct weir_claim *claim)
{
    int saved = errno;
    bool claimed = false;
    atomic_fetch_add(&weir_stats_device(op->slice, op->device)->intent_waits, 1);
    for (int round = 0; !claimed && round < CLAIM_TRIES; round++) {
        if (round < CLAIM_TRIES / 4)
            sched_yield();
        else
            weir_sleep_until(weir_now() + 50 * WEIR_US);
        claimed = weir_claim_any(claim);
    }
    errno = saved;
    return claimed;
}

static void release(const struct operation *op)
{
    atomic_store_explicit(&op->intent->sequence, op->sequence + 1, memory_order_release);
    WEIR_LEDGER_STEP();
}

/* Steps 2 to 4 of an operation whose intent is claimed. */
static bool perform(const struct operation *op, enum weir_kind kind, uint64_t limit)
{
    atomic_store_explicit(&op->intent->delta, op->units * WEIR_UNIT, memory_order_relaxed);
    atomic_store_explicit(&op->intent->device, op->device, memory_order_relaxed);
    atomic_store_explicit(&op->intent->kind, (uint32_t)kind, memory_order_relaxed);
    WEIR_LEDGER_STEP();
    bool fits = move(op, DEVICE_WORD, limit);
    if (fits)
        move(op, SLOT_WORD, WEIR_NO_LIMIT);
    release(op);
    return fits;
}

static void count(const struct operation *op, enum weir_kind kind)
{
    struct weir_slot_device *mine = weir_slot_device(op->slice, op->slot, op->device);
    atomic_fetch_add_explicit(&mine->kind_bytes[kind], (uint64_t)(op->units * WEIR_UNIT), memory_order_relaxed);
    atomic_store_explicit(&op->slice->stats->heartbeat, weir_coarse_now(), memory_order_relaxed);
    struct weir_stats_device *device = weir_stats_device(op->slice, op->device);
    uint64_t used = weir_ledger_used(op->slice, op->device);
    uint64_t peak = atomic_load(&device->peak_bytes);
    while (used > peak && !atomic_compare_exchange_weak(&device->peak_bytes, &peak, used))
        ;
}

static uint64_t units_of(uint64_t bytes)
{
    return bytes / WEIR_UNIT + (bytes % WEIR_UNIT != 0);
}

/* One operation of our own, from claim to release. */
static bool operate(struct operation *op, enum weir_kind kind, uint64_t limit, bool *claimed)
{
    bool fits = false;
    struct weir_claim claim = {
        .frame = (uintptr_t)__builtin_frame_address(0), .end = end_abandoned_operation, .argument = op};
    weir_claim_begin(&claim);
    *claimed = weir_claim_any(&claim) || wait_for_intent(op, &claim);
    if (*claimed) {
        open_intent(op, claim.index);
        fits = perform(op, kind, limit);
        weir_claim_release(&claim);
    }
    weir_claim_end(&claim);
    if (fits)
        count(op, kind);
    return fits;
}

bool weir_ledger_take(const struct weir_slice *slice, uint32_t slot, uint32_t device, enum weir_kind kind,
                      uint64_t bytes, uint64_t limit)
{
    uint64_t units = units_of(bytes);
    struct operation op = {.slice = slice, .slot = slot, .device = device, .units = (int64_t)units};
    bool claimed;
    return units <= MAX_UNITS && operate(&op, kind, limit, &claimed);
}

void weir_ledger_give(const struct weir_slice *slice, uint32_t slot, uint32_t device, enum weir_kind kind,
                      uint64_t bytes)
{
    uint64_t units = units_of(bytes);
    struct operation op = {.slice = slice, .slot = slot, .device = device, .units = -(int64_t)units};
    bool claimed = true;
    if (units)
        operate(&op, kind, WEIR_NO_LIMIT, &claimed);
    if (!claimed)
        atomic_fetch_add(&weir_stats_device(slice, device)->hook_errors, 1); /* stays charged until we end */
}

uint64_t weir_ledger_used(const struct weir_slice *slice, uint32_t device)
{
    return (atomic_load(&weir_stats_device(slice, device)->used) >> WEIR_WORD_SUM_SHIFT) * WEIR_UNIT;
}

/* Whether an interrupted operation moved this word. The word comes first: see the top of this file. */
static bool has_moved(const struct operation *op, enum place place)
{
    return names(atomic_load(word_of(op->slice, op->slot, op->device, place)), op->tag) ||
           atomic_load(mark_of(op->intent, place)) == op->sequence;
}

/* Ends an interrupted operation: folds it if it was applied, forgets it if it was not. */
static void finish(const struct weir_slice *slice, uint32_t slot, uint32_t index)
{
    struct weir_intent *intent = &weir_slot_header(slice, slot)->intents[index];
    struct operation op = {.slice = slice, .intent = intent, .slot = slot};
    op.sequence = atomic_load(&intent->sequence);
    op.tag = tag_of(slot, index, op.sequence);
    op.device = atomic_load(&intent->device);
    op.units = atomic_load(&intent->delta) / WEIR_UNIT;
    if (!(op.sequence & 1))
        return;
    if (op.device < slice->device_count && has_moved(&op, DEVICE_WORD) && !has_moved(&op, SLOT_WORD))
        move(&op, SLOT_WORD, WEIR_NO_LIMIT);
    release(&op);
}

void weir_ledger_recover(const struct weir_slice *slice, uint32_t slot, bool lent)
{
    for (uint32_t index = 0; index < WEIR_INTENTS; index++)
        finish(slice, slot, index);
    for (uint32_t device = 0; device < slice->device_count; device++) {
        struct weir_slot_device *held = weir_slot_device(slice, slot, device);
        uint64_t units = atomic_load(&held->used) >> WEIR_WORD_SUM_SHIFT;
        uint64_t kept = lent ? atomic_load(&held->lent) / WEIR_UNIT : 0;
        units = units > kept ? units - kept : 0;
        struct operation op = {.slice = slice, .slot = slot, .device = device, .units = -(int64_t)units};
        if (units) {
            open_intent(&op, WEIR_REAPER_INTENT);
            perform(&op, WEIR_KIND_OTHER, WEIR_NO_LIMIT);
        }
        for (uint32_t kind = 0; kind < WEIR_KINDS; kind++)
            atomic_store(&held->kind_bytes[kind], 0);
        if (!lent)
            atomic_store(&held->lent, 0);
    }
}
