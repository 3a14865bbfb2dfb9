/*
 * Which of the process's intents (page.h) belongs to which of its threads, so that none is lost for good when a
 * signal handler leaves an operation by siglongjmp: the next operation of that thread finds it and ends it.
 *
 * The threads of a process share seven intents; a word of the process's own memory says who has each. Invariant: while
 * an operation is under way, the word names its thread, and that thread's note for the intent is the frame of the
 * operation or one further out. So what a thread owns under a note no further out than where it is now, nobody will
 * ever come back to. It knows nothing of the page; what becomes of an abandoned operation is the caller's to say.
 *
 * Frames are compared as places on the thread's stack, or on its alternate one (sigaltstack). A thread that never
 * comes back, or ends, keeps what it jumped out of.
 */
#ifndef WEIR_INTENTS_H
#define WEIR_INTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "page.h"

#ifdef WEIR_LEDGER_STEP
void WEIR_LEDGER_STEP(void); /* where tests end an operation, or leave it */
#else
#define WEIR_LEDGER_STEP() ((void)0)
#endif

#define WEIR_REAPER_INTENT (WEIR_INTENTS - 1) /* not shared: whoever holds the lock of the slot has it */

/* Ends what was begun with this intent, which the calling thread owns. It may be left by siglongjmp, and repeated. */
typedef void weir_end_abandoned(uint32_t index, const void *argument);

struct weir_claim { /* the operation's own */
    weir_end_abandoned *end;
    const void *argument;
    uintptr_t frame;
    uintptr_t outer; /* of the operation that a handler interrupted for this one; 0: none */
    uintptr_t note;  /* what was noted before */
    uint32_t index;  /* the intent */
};

/* An operation begins in claim->frame; whatever its thread has jumped out of is ended first. */
void weir_claim_begin(struct weir_claim *claim);
/* Makes a free intent the thread's own. False: others have them all. */
bool weir_claim_any(struct weir_claim *claim);
/* Lets it go. */
void weir_claim_release(const struct weir_claim *claim);
/* The operation has ended. */
void weir_claim_end(const struct weir_claim *claim);

#endif
