/*
 * The one hash of the limiter: multiplication by 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, volume 3, section 6.4), which spreads pointers that lie close together, or a multiple of a power
 * of two apart, over all 64 bits.
 *
 * The upper bits of the product are the good ones, so callers shift first. It costs one multiplication, so
 * the launch path can have it; it withstands nobody who chooses his values, so no safety rests on it.
 */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H

#include <stdint.h>

static inline uint64_t weir_hash(uint64_t value) { return value * UINT64_C(0x9e3779b97f4a7c15); }

#endif
