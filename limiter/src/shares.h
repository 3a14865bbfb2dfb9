/*
 * Device memory that processes of one slice hold together: paid for once, by the process that made it.
 *
 * Each shared thing has a number in its payer's slot. A guest, which has opened it too, holds a lock for that number
 * on the stats page. So the payer can see that it is still held, and whoever takes back the slot of a dead payer
 * leaves what it had lent in it; the kernel drops the lock however the guest dies. Handles that are plain bytes are
 * found by another lock, which the payer holds at a place that their hash says.
 *
 * A process of another slice is nobody's guest: it pays itself. Whoever can write the page can forge these locks as
 * well as the page; that shows as memory that nobody accounts for.
 */
#ifndef WEIR_SHARES_H
#define WEIR_SHARES_H

#include <stddef.h>

#include "slice.h"

struct weir_share { /* something that a process of the slice pays for */
    uint32_t slot;
    uint32_t number;
};

/* ---- for the guest ---- */

/* Holds it until weir_unlock_share, or this process ends; NULL: the payer cannot be a payer any more. */
void *weir_lock_share(const struct weir_slice *slice, struct weir_share share);
void weir_unlock_share(void *lock);
/* Who pays for what a handle opens. False: nobody in this slice. */
bool weir_find_name(const struct weir_slice *slice, const void *handle, size_t size, struct weir_share *share);

/* ---- for the payer ---- */

/* Lets siblings find it by its handle for as long as the lock is held; NULL: they will pay too. */
void *weir_lock_name(const struct weir_slice *slice, const void *handle, size_t size, uint32_t number);
/* Whether a guest holds it, or nobody can say. */
bool weir_share_is_held(const struct weir_slice *slice, uint32_t number);
/* So many bytes more (less) of what this process is charged for may be held by siblings. */
void weir_lend(const struct weir_slice *slice, int device, int64_t bytes);

#endif
