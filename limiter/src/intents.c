/*
 * The owners of intents.h. An intent is taken in two stores, and the order is the proof: the thread notes its frame,
 * then a compare-and-swap puts its name into the owner word; it is let go in the opposite order. A handler may come
 * between any two. It raises a note to its own frame at most, which lies deeper, and puts back what it found: so a
 * note is never below the frame of a live operation. If it jumps (also no further than within itself), the note stays
 * higher than need be, and the intent is found by an operation as far out as that.
 *
 * Only a thread writes its own notes; it shares them with its handlers, so the compiler must keep their order.
 */
#include "intents.h"

#include <signal.h>
#include <stdalign.h>
#include <stddef.h>

#include "internal.h"

static struct {
    alignas(64) _Atomic uintptr_t thread; /* which owns it, by the address of its notes; 0: nobody */
} owners[WEIR_REAPER_INTENT];

static __thread _Atomic uintptr_t notes[WEIR_REAPER_INTENT];
static __thread _Atomic uintptr_t innermost; /* frame of the operation that the thread is in, or has left; 0: none */
static __thread uint32_t favourite;

static uintptr_t get(_Atomic uintptr_t *own)
{
    return atomic_load_explicit(own, memory_order_relaxed);
}

static void set(_Atomic uintptr_t *own, uintptr_t frame)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(own, frame, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    WEIR_LEDGER_STEP();
}

/* A handler's own stack is deeper than all of the thread's, wherever it lies: its frames count from its start. */
static uintptr_t place_of(uintptr_t frame)
{
    stack_t handlers;
    bool on_it = sigaltstack(NULL, &handlers) == 0 && frame - (uintptr_t)handlers.ss_sp < handlers.ss_size;
    return on_it ? frame - (uintptr_t)handlers.ss_sp + 1 : frame;
}

static bool is_further_out(uintptr_t frame, uintptr_t than)
{
    return place_of(frame) > place_of(than);
}

static uintptr_t this_thread(void)
{
    return (uintptr_t)notes;
}

static void disown(uint32_t index)
{
    atomic_store_explicit(&owners[index].thread, 0, memory_order_release);
    WEIR_LEDGER_STEP();
}

/* Ends what was begun no further out than the claim. What is left: the nearest frame further out; 0: none. */
static uintptr_t end_abandoned(const struct weir_claim *claim)
{
    uintptr_t nearest = 0;
    for (uint32_t index = 0; index < WEIR_REAPER_INTENT; index++) {
        uintptr_t note = get(&notes[index]);
        if (note && is_further_out(note, claim->frame)) {
            nearest = nearest && is_further_out(note, nearest) ? nearest : note;
            continue;
        }
        set(&notes[index], claim->frame); /* a handler leaves it to us from here on, and may have been before us */
        if (get(&owners[index].thread) == this_thread()) {
            claim->end(index, claim->argument);
            disown(index);
        }
        set(&notes[index], 0);
    }
    return nearest;
}

void weir_claim_begin(struct weir_claim *claim)
{
    claim->outer = get(&innermost);
    if (claim->outer && !is_further_out(claim->outer, claim->frame))
        claim->outer = end_abandoned(claim);
    set(&innermost, claim->frame);
}

static bool own(struct weir_claim *claim, uint32_t index)
{
    uintptr_t nobody = 0;
    if (get(&owners[index].thread))
        return false;
    claim->note = get(&notes[index]);
    if (!claim->note || is_further_out(claim->frame, claim->note))
        set(&notes[index], claim->frame);
    bool owned = atomic_compare_exchange_strong(&owners[index].thread, &nobody, this_thread());
    WEIR_LEDGER_STEP();
    if (!owned)
        set(&notes[index], claim->note);
    return owned;
}

static bool own_any(struct weir_claim *claim)
{
    for (uint32_t i = 0; i < WEIR_REAPER_INTENT; i++) {
        claim->index = (favourite + i) % WEIR_REAPER_INTENT;
        if (own(claim, claim->index)) {
            favourite = claim->index;
            return true;
        }
    }
    return false;
}

bool weir_claim_any(struct weir_claim *claim)
{
    if (own_any(claim))
        return true;
    end_abandoned(claim); /* a jump just before innermost was put back goes unnoticed by weir_claim_begin */
    return own_any(claim);
}

void weir_claim_release(const struct weir_claim *claim)
{
    disown(claim->index);
    set(&notes[claim->index], claim->note);
}

void weir_claim_end(const struct weir_claim *claim)
{
    if (get(&innermost) == claim->frame) /* else a handler of ours has jumped out of its own: to be ended */
        set(&innermost, claim->outer);
}

/* In a fork child: what was under way is the parent's, and it is there that it ends. */
void weir_intents_forget(void)
{
    for (uint32_t index = 0; index < WEIR_REAPER_INTENT; index++) {
        atomic_store(&owners[index].thread, 0);
        set(&notes[index], 0);
    }
    set(&innermost, 0);
}
