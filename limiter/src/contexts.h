/*
 * What contexts of all kinds have in common: what one costs, and that what was made in it ends with it.
 */
#ifndef WEIR_CONTEXTS_H
#define WEIR_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

/* What a context takes of the device; 0 where nothing is charged. */
uint64_t weir_context_bytes(int device);
/*
 * Before the driver may destroy it (`alive`; else right after): what was made in it is set apart from what another
 * context of the same handle makes.
 */
void weir_context_ends(void *context, bool alive);
/* The driver has not destroyed it. */
void weir_context_stays(void *context);
/* It is destroyed, and what was set apart is gone, with the context's own charge. */
void weir_context_gone(void *context, int device, uint64_t charged);

#endif
