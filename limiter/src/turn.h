/*
 * A launch's turn: ask the pacer, and sleep for as long as it says, outside of everything.
 *
 * Never for longer than TURN_LOOK without reading the control page again, so that a change of gate, limit,
 * slot or lease is obeyed within that time; and each thing that is waited for ends by itself.
 */
#ifndef WEIR_TURN_H
#define WEIR_TURN_H

#include "meter.h"
#include "pacer.h"
#include "slice.h"

/* A launch on its way: everything that the steps before the driver's call share. */
struct launch {
    const struct weir_slice *slice;
    uint32_t device;
    struct meter *meter;
    struct estimate *estimate;
    uintptr_t key;
    CUstream stream;
    bool gap;    /* the host left one before it */
    bool single; /* it is measured by itself */
    bool waited; /* for its turn: another may have had the card until now */
};

static inline void launch_count(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

/* Returns when the launch may pass: on what terms, and under which rule. */
struct pacer_verdict turn_await(struct launch *launch, struct pacer_rule *rule, uint64_t now);

#endif
