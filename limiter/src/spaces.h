/*
 * Namespaces that the program makes with dlmopen: this library is loaded into each before anything else, so what
 * the program loads there finds our lookups and hooks first, as everywhere. The copy there is a limiter of its own:
 * it has its own driver, takes a slot of its own, and charges the same ledger.
 */
#ifndef WEIR_SPACES_H
#define WEIR_SPACES_H

#include <stdint.h>

/* The hook of a namespace's own copy, for a library of that namespace; NULL: `handle` is in none of them. */
void *weir_space_hook(void *handle, const char *name);

/* A new namespace with this library in it; LM_ID_NEWLM where that cannot be, so that the linker says why. */
intptr_t weir_new_space(void);

#endif
