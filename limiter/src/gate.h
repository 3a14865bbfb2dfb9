/*
 * Gates: what is launched into a stream behind one begins when a slot opens, while the program runs on.
 *
 * A launch that waits for its slot holds the host up, and a program that launches hardly faster than the GPU works
 * then cannot fill the slot. So some of the next slot's work may be queued before it begins, behind a wait of the
 * stream's for a word in this process's memory. A thread of the limiter's own, started with the first gate, writes
 * the moment into that word whenever a slot opens: every gate of that moment or an earlier one is open then,
 * however many there are, and one that is closed too late opens at once. The thread asks the driver nothing, waits
 * for nobody and has all signals blocked; a gate is never closed unless it is on its way to open it.
 *
 * A kernel that is timed by itself is held by a gate too, until its events and its launch are in the stream; whoever
 * launches it opens that one, and the thread does if he does not.
 *
 * What it does not do: decide what may be queued (pacer.h). On an H200 a gate costs the launching thread 0.75 to 2 us,
 * its kernels begin within 10 us of the word, and neighbours lose nothing to a process whose streams are all gated.
 */
#ifndef WEIR_GATE_H
#define WEIR_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

/*
 * Lets nothing that is put into the stream from now on begin before `opening`; `early`: ns by which wake-ups are late
 * here. False: it cannot be arranged, and nothing has changed. Not for a stream that captures.
 */
bool gate_close(CUcontext context, CUstream stream, uint64_t opening, uint64_t early);

struct hold {
    CUcontext context;
    uint64_t until; /* at the latest; 0: nothing is held */
};

/*
 * Lets nothing that is put into the stream from now on begin before it is let go, or 0.2 ms have passed: what is put
 * there meanwhile then follows each other on the GPU without what the host took for it.
 */
struct hold gate_hold(CUcontext context, CUstream stream, uint64_t early);
void gate_let_go(const struct hold *hold);

/* To be called before a context is destroyed or reset: its gates open, and it may have others if it stays. */
void gate_forget_context(CUcontext context);
/* It is destroyed: the page that its gates used may be another's. */
void gate_context_gone(CUcontext context);
/* In a fork child, which has neither the thread nor a context. */
void gate_forget_all(void);

#endif
