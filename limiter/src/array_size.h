/*
 * How many bytes of a card an array takes: the one place that knows how arrays are laid out.
 *
 * The texels of an array lie in tiles (array_size.c), so that it takes more than their bytes. `most` is what is charged
 * before the call; where `least` is smaller, the layout of its format is not known, and the card is asked afterwards
 * (arrays.c). Sizes that do not fit 64 bits are UINT64_MAX. Not here: pages, and which arrays share one.
 */
#ifndef WEIR_ARRAY_SIZE_H
#define WEIR_ARRAY_SIZE_H

#include "hooks.h"

struct weir_array_size {
    uint64_t least, most;
};

/* Of an array (`levels` 1) or a mipmapped one. */
struct weir_array_size weir_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels);

#endif
