/*
 * What a launch hook does before and after the driver's call, and a hook that waits for the GPU.
 *
 * Before: find out in some 25 ns that the stream's ticket covers this launch, or else decide with the
 * pacer, wait if it says so, and put a new ticket on the lane. After: record the batch's end where this
 * launch used the ticket up. A launch is held back only by a rule that carries a deadline or a debt that
 * time repays, and the control page is read again every 50 ms at the latest (turn.h).
 */
#ifndef WEIR_PACING_H
#define WEIR_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "gate.h"
#include "hooks.h"

struct meter;
struct lane;
struct batch;
struct estimate;

/* What is left to do after the driver's call. */
struct pacing {
    struct meter *meter;    /* NULL: nothing */
    struct lane *lane;      /* its batch ends with this launch; NULL: it goes on */
    struct batch *opened;   /* this launch is its first … */
    uint64_t began;         /* … and the call began then */
    struct hold hold;       /* … and does not start yet */
    struct estimate *first; /* of a function that was not measured yet */
};

/* `function`: the kernel or graph. May wait. */
struct pacing pacing_begin(const void *function, CUstream stream);
void pacing_end(const struct pacing *pacing, CUresult result);

/* Around a call that waits: for one stream, for whatever the current device runs, or for an event. */
enum pacing_scope { PACING_STREAM, PACING_ALL, PACING_EVENT };
/* `what`: the stream or event. Returns when the wait began; 0: nothing is measured. */
uint64_t pacing_before_wait(enum pacing_scope scope, const void *what);
void pacing_after_wait(enum pacing_scope scope, uint64_t began);

/* To be called before a stream is destroyed: a batch that is open in it would be asked about it afterwards. */
void pacing_forget_stream(CUstream stream);
/* To be called before a context is destroyed or reset; where nobody could foresee it, after that, and not `alive`. */
void weir_pacing_forget_context(CUcontext context, bool alive);

#endif
