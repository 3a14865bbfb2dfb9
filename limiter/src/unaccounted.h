/*
 * Calls that take device memory which the ledger does not cover yet (the lists are uncovered.h).
 */
#ifndef WEIR_UNACCOUNTED_H
#define WEIR_UNACCOUNTED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "page.h"

/* Counts one such call on the current device. False: refuse it, as the control page says so. */
bool weir_unaccounted_call(enum weir_api api, const char *symbol, atomic_flag *said);

/* The same; a function that is refused is said so once in a process. */
#define WEIR_UNACCOUNTED(api, symbol)                                                                        \
    __extension__({                                                                                          \
        static atomic_flag said_ = ATOMIC_FLAG_INIT;                                                         \
        weir_unaccounted_call(api, symbol, &said_);                                                          \
    })

#endif
