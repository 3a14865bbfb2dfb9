/*
 * Calls that take device memory which the ledger does not cover yet (the list is uncovered.h).
 */
#ifndef WEIR_UNACCOUNTED_H
#define WEIR_UNACCOUNTED_H

#include <stdbool.h>

/* Counts one such call on the current device. False: refuse it, as the control page says so. */
bool weir_unaccounted_call(bool refusable);

#endif
