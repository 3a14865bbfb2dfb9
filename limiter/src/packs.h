/*
 * The pages of 2 MiB that small arrays share, for each context: contexts share none with each other, so what a context
 * held goes with it, to the page.
 *
 * How many arrays live and how many pages are charged for them is one word, changed at once. Where more contexts have
 * small arrays than there is room for, those left over are counted together, for each device. Not here: whether the
 * card took or freed a page (arrays.c), and charging.
 */
#ifndef WEIR_PACKS_H
#define WEIR_PACKS_H

#include <stdbool.h>
#include <stdint.h>

/* The place of a context's small arrays; arrays remember it. */
uint64_t weir_pack_of(void *context, int device);
/* One array more, for which the card took a page (`fresh`) or seems not to have. Whether a page is to be charged. */
bool weir_pack_add(uint64_t place, uint64_t size, bool fresh);
/* One less, with which the card freed a page or did not. How many are to be given back. */
uint64_t weir_pack_remove(uint64_t place, uint64_t size, bool freed);
/* The context is gone, and all its arrays have been removed. */
void weir_pack_leave(void *context);

#endif
