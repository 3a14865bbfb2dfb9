/*
 * The slice this process lives in: its control page (read-only) and its stats page, found and mapped at the
 * first use of a hook that needs them, and this process's slot in it.
 *
 * weir_slice() is a load and a compare once the pages are mapped. It never blocks for long, never fails loudly
 * and keeps errno. When the pages are replaced under a running program, later calls give the new ones, and what the
 * process holds has moved to them; a slice once given stays valid. A fork child uses its parent's mapping and takes
 * a slot of its own. What it does not do: decide anything about memory (ledger.h) or launches (pacer.h).
 */
#ifndef WEIR_SLICE_H
#define WEIR_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"

struct weir_own; /* internal.h: what the limiter keeps about the pages beside them */

struct weir_slice {
    const struct weir_control_header *control;
    struct weir_stats_header *stats;
    uint32_t device_count;   /* 1 … WEIR_MAX_DEVICES, the same in both pages */
    uint32_t control_header; /* sizes and strides as the files say; they may differ from our own structs */
    uint32_t control_stride;
    uint32_t stats_header;
    uint32_t stats_stride;
    uint32_t slot_count;
    uint32_t slot_stride;
    struct weir_own *own;
};

/* Whether there is a slice directory at all. Looks once; maps nothing. */
bool weir_present(void);

/* The slice, or NULL: there is none, or its pages cannot be used (then weir_refusing() is true). */
const struct weir_slice *weir_slice(void);

/* True: a slice directory is there, but its pages are missing, corrupt or of another major. Fail closed. */
bool weir_refusing(void);

/* Index of this process's slot, claimed at the first call; −1: none is free, so nothing may be charged. */
int weir_slot(const struct weir_slice *slice);

/* Takes back the slots of dead processes; true if there was one. */
bool weir_reap(const struct weir_slice *slice);

/* ---- the parts of the stats page; index < device_count, slot < slot_count ---- */

static inline struct weir_stats_device *weir_stats_device(const struct weir_slice *slice, uint32_t device)
{
    return (struct weir_stats_device *)((char *)slice->stats + slice->stats_header +
                                        (size_t)device * slice->stats_stride);
}

static inline size_t weir_slot_offset(const struct weir_slice *slice, uint32_t slot)
{
    return slice->stats_header + (size_t)slice->device_count * slice->stats_stride +
           (size_t)slot * slice->slot_stride;
}

static inline struct weir_slot_header *weir_slot_header(const struct weir_slice *slice, uint32_t slot)
{
    return (struct weir_slot_header *)((char *)slice->stats + weir_slot_offset(slice, slot));
}

static inline struct weir_slot_device *weir_slot_device(const struct weir_slice *slice, uint32_t slot,
                                                        uint32_t device)
{
    return (struct weir_slot_device *)(weir_slot_header(slice, slot) + 1) + device;
}

/* ---- the control page ---- */

/* Changes whenever the agent has written; compare it with the one you read a copy at. One relaxed load. */
static inline uint32_t weir_control_sequence(const struct weir_slice *slice)
{
    return atomic_load_explicit(&slice->control->sequence, memory_order_acquire);
}

/*
 * A consistent copy of a device's control fields and of the policy (either may be NULL). Fields that an older
 * page does not have read as 0. Returns the sequence it belongs to. If the agent died half-way through a write
 * the fields are given as they stand, after a bounded number of tries.
 */
uint32_t weir_control_read(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy);

/* The slice's size: min(limit, live lease), or WEIR_NO_LIMIT. */
uint64_t weir_memory_size(const struct weir_control_device *control, uint64_t now);
/* Bytes that may be charged: of that size, less live unaccounted, at least 0; or WEIR_NO_LIMIT. */
uint64_t weir_memory_chargeable(const struct weir_control_device *control, uint64_t now);
/* The same, as the page says now. */
uint64_t weir_memory_limit(const struct weir_slice *slice, uint32_t device);

/* Whether calls that take memory unaccounted are to be refused. */
bool weir_refuse_unknown(const struct weir_slice *slice);

/* ---- which device ---- */

enum {
    WEIR_NO_DEVICE = -1,     /* no current context, or no slice: pass the call through */
    WEIR_OTHER_DEVICE = -2   /* a card that is not in the slice: nothing is allowed there */
};

/* The slice's index of the current context's device, or one of the above. ~20 ns; nothing if only one exists. */
int weir_current_device(void);
/* … of a CUDA device ordinal. */
int weir_device_of(int ordinal);
/* … of a UUID. */
int weir_device_of_uuid(const struct weir_slice *slice, const uint8_t uuid[16]);

/* CLOCK_MONOTONIC in ns, to within a scheduler tick: good enough for deadlines and heartbeats. */
uint64_t weir_coarse_now(void);

/* One line on stderr, "weir: …", at most once for each of the callers' flags. Never formats into stdout. */
void weir_complain(atomic_flag *once, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
