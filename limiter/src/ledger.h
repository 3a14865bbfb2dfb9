/*
 * The ledger: how many bytes of each device the slice holds, exact through kill −9 at any instruction.
 *
 * An operation claims an intent of its process's slot, writes what it is about to do, moves the device's sum
 * with one compare-and-swap that carries its own name (page.h, "tagged word"), and then folds the same delta
 * into the slot's sum. Whoever replaces a word first records the operation named in it as applied ("helping"),
 * so that the fate of an interrupted operation can always be read: in the word, or in the intent.
 *
 * Invariant: a device's sum = Σ slots' sums + Σ operations applied but not yet folded. No locks; sums never
 * wrap and never go below 0. It decides no sizes: callers say how many bytes a call takes.
 */
#ifndef WEIR_LEDGER_H
#define WEIR_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "slice.h"

/* Everything below counts bytes; they are rounded up to WEIR_UNIT. `slot` is the caller's own. */

/* Adds `bytes` if the sum stays ≤ limit. False: it does not fit, and nothing has changed. */
bool weir_ledger_take(const struct weir_slice *slice, uint32_t slot, uint32_t device, enum weir_kind kind,
                      uint64_t bytes, uint64_t limit);

/* Takes `bytes` off again. */
void weir_ledger_give(const struct weir_slice *slice, uint32_t slot, uint32_t device, enum weir_kind kind,
                      uint64_t bytes);

/* Bytes held by the slice on a device. */
uint64_t weir_ledger_used(const struct weir_slice *slice, uint32_t device);

/*
 * Finishes what a dead process left half-done and gives back what it held; `lent`: but for what it had lent. Only for
 * the holder of the slot's lock. May itself be killed anywhere and repeated.
 */
void weir_ledger_recover(const struct weir_slice *slice, uint32_t slot, bool lent);

#endif
