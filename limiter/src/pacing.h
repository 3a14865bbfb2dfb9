/*
 * What a launch hook does before and after the driver's call, and a hook that waits for the GPU.
 *
 * Before: find out in some 25 ns that the stream's ticket covers this launch, or else decide with the pacer,
 * wait if it says so, and put a new ticket on the lane. After: record the batch's end where this launch used
 * the ticket up. A launch is held back only by a rule that carries a deadline or a debt that time repays, and
 * the control page is read again every PACING_LOOK at the latest.
 */
#ifndef WEIR_PACING_H
#define WEIR_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

struct meter;
struct lane;
struct estimate;

struct pacing {
    struct meter *meter; /* NULL: nothing to do after the call */
    struct lane *lane;
    struct estimate *first; /* this is its first launch, made at `began` */
    uint64_t began;
};

/* `function`: the kernel or graph. May wait. */
struct pacing pacing_begin(const void *function, CUstream stream);
void pacing_end(const struct pacing *pacing, CUresult result);

/* Around a call that waits: for one stream, or for whatever the current device runs (PACING_ALL). */
enum pacing_scope { PACING_STREAM, PACING_ALL, PACING_EVENT };
void pacing_before_wait(enum pacing_scope scope, CUstream stream);
void pacing_after_wait(void);

/* To be called when a context has been destroyed or reset. */
void weir_pacing_forget_context(CUcontext context);

#endif
