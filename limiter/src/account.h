/*
 * From a hook to the ledger: charge before the driver is called, settle after it.
 *
 * A device is the slice's index, or negative (slice.h): WEIR_NO_DEVICE is charged to nobody and let through,
 * WEIR_OTHER_DEVICE is refused. A refusal comes only after this process's unused pool memory and the slots of
 * dead processes have been given back. All counters of the stats page that concern memory are kept here.
 */
#ifndef WEIR_ACCOUNT_H
#define WEIR_ACCOUNT_H

#include "hooks.h"
#include "slice.h"

#define WEIR_BLOCK UINT64_C(0x200000)     /* the card gives memory in pages of 2 MiB */
#define WEIR_PACKED_MAX UINT64_C(0x100000) /* up to this size several allocations share one */

/* Charges; false: it does not fit. Not counted as a refusal yet. */
bool weir_try_charge(int device, enum weir_kind kind, uint64_t bytes);
/* The same, and a refusal is counted. */
bool weir_charge(int device, enum weir_kind kind, uint64_t bytes);
/* Charges what has been taken already, whatever the limit. */
void weir_charge_anyway(int device, enum weir_kind kind, uint64_t bytes);
void weir_give_back(int device, enum weir_kind kind, uint64_t bytes);

void weir_count_denied(int device, uint64_t bytes);
/* After the driver has answered to an allocation that was charged. */
void weir_count_result(int device, CUresult result);
void weir_count_free(int device);
void weir_count_error(int device);

/* Rounded up; near the end of the range it stays below, at a size that nothing can be charged for. */
static inline uint64_t weir_round_up(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX - UINT64_MAX % step : (bytes + step - 1) / step * step;
}

/* What a buffer takes of the card, when it is the first in its block. */
static inline uint64_t weir_footprint(uint64_t bytes)
{
    return weir_round_up(bytes, WEIR_BLOCK);
}

#endif
