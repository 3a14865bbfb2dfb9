/*
 * How long each function's launches take, as last measured: what a launch is charged before its events
 * come.
 *
 * A table of fixed size, one per device, read and written without a lock: every field is an atomic of its
 * own, and a torn pair is an estimate that is off once and corrected by the next measurement. Graphs count
 * as functions. A batch of several functions scales each towards what it was charged at times the batch's
 * ratio of measured to charged; moving to a target, not by a factor, keeps batches that were charged alike
 * and are measured together from multiplying up.
 */
#ifndef WEIR_ESTIMATES_H
#define WEIR_ESTIMATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "hash.h"

#define ESTIMATE_SLOTS 2048 /* power of two; frameworks use some hundred functions */
#define ESTIMATE_PROBES 8
#define ESTIMATE_UNKNOWN (1 * WEIR_MS) /* charged for a function that was never measured */
#define ESTIMATE_LEAST (1 * WEIR_US)
#define ESTIMATE_MOST (60 * WEIR_S)
#define ESTIMATE_HALF_LIFE (2 * WEIR_S)
#define ESTIMATE_DUE (200 * WEIR_MS) /* a function is timed by itself so often where the host sets the pace, … */
#define ESTIMATE_EACH (2 * WEIR_MS)  /* … more seldom where so much for each function is longer, … */
#define ESTIMATE_FED 8               /* … and by so much more where it does not, for batches tell enough */

struct estimate {
    _Atomic uintptr_t function;
    _Atomic uint64_t ns;      /* 0: not measured yet */
    _Atomic uint64_t batch;   /* the batch in whose notes it stands */
    _Atomic uint64_t pending; /* when its first, unmeasured launch was made; 0: none is under way */
    _Atomic bool loaded;      /* a launch was made whose host time may have been lazy loading */
    _Atomic uint64_t due;     /* ticks: when its launch is timed by itself again */
};

struct estimates {
    struct estimate slots[ESTIMATE_SLOTS];
    _Atomic uint32_t functions; /* that have come */
};

/* What a function was charged at when it was launched in some batch. */
struct estimate_note {
    struct estimate *estimate;
    uint64_t charged;
};

static inline unsigned estimate_slot(uintptr_t function)
{
    return (unsigned)(weir_hash(function) >> 48) % ESTIMATE_SLOTS;
}

/* The function's entry, or NULL where it has none. */
static inline struct estimate *estimate_find(struct estimates *estimates, uintptr_t function)
{
    unsigned slot = estimate_slot(function);
    for (unsigned probe = 0; probe < ESTIMATE_PROBES; probe++) {
        struct estimate *found = &estimates->slots[(slot + probe) % ESTIMATE_SLOTS];
        uintptr_t held = atomic_load_explicit(&found->function, memory_order_relaxed);
        if (held == function)
            return found;
        if (!held)
            return NULL;
    }
    return NULL;
}

/* … or a new one; where the neighbourhood is full, the place of another. */
struct estimate *estimate_claim(struct estimates *estimates, uintptr_t function);

/*
 * What a launch is charged. While a function's first launch is still running, all that is known is that it takes
 * at least this long already: so its next ones are let through ever more seldom, and in the end all the same, for
 * the first may be waiting for them.
 */
static inline uint64_t estimate_charge(const struct estimate *estimate, uint64_t now)
{
    uint64_t ns = atomic_load_explicit(&estimate->ns, memory_order_relaxed);
    uint64_t pending = atomic_load_explicit(&estimate->pending, memory_order_relaxed);
    uint64_t runs = pending && now > pending ? now - pending : 0;
    return ns ? ns : runs < ESTIMATE_UNKNOWN ? ESTIMATE_UNKNOWN : runs < ESTIMATE_MOST ? runs : ESTIMATE_MOST;
}

/*
 * In how many ns it is due again. At random, so that functions of one step part, and nobody can foresee when a long
 * launch goes unnoticed.
 */
uint64_t estimate_due_in(const struct estimates *estimates, bool paced, uint64_t ticks);

/* `launches` of one function took `measured` ns. */
void estimate_learn(struct estimate *estimate, uint64_t measured, uint32_t launches);

/* A launch timed by itself, of a function that was known, took `measured`, or more where somebody came between. */
void estimate_correct(struct estimate *estimate, uint64_t measured);

/* A batch of several functions, charged `charged` ns together, took `measured`. */
void estimate_scale(const struct estimate_note *notes, unsigned count, uint64_t charged, uint64_t measured);

/*
 * Keeps the longest launch of late: one that nothing has come near to for ESTIMATE_HALF_LIFE is halved. Frames follow
 * it, and one long kernel must not make them long for ever. `seen`: when something last came near.
 */
void longest_note(_Atomic uint64_t *longest, _Atomic uint64_t *seen, uint64_t ns, uint64_t now);

#endif
