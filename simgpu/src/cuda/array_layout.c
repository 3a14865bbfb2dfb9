/*
 * Where the texels of an array lie: block-linear, as the free memory of an H200 showed before and after arrays of many
 * shapes were made (docs/decisions/what-the-card-charges.md).
 *
 * The unit is a GOB, 512 bytes: 64 bytes of 8 rows. GOBs are stacked 2^n high and, in three dimensions, 2^m deep; a
 * plane holds whole stacks. Inside, the simulated card keeps its texels in plain rows: no program can see that.
 * What it does not do: other cards, whose arrays were not measured; they pad as the H200 does.
 */
#include "memory.h"

#define GOB_BYTES 64u
#define GOB_ROWS 8u

/* log2 of how many of `count` are stacked: as few as hold all of them, at most 2^most. */
static unsigned stacked(uint64_t count, unsigned most)
{
    unsigned log = 0;
    while (log < most && UINT64_C(1) << log < count)
        log++;
    return log;
}

static uint64_t up(uint64_t count, unsigned log)
{
    uint64_t mask = (UINT64_C(1) << log) - 1;
    return (count + mask) & ~mask;
}

void sim_array_lay_out(struct sim_array *array, bool solid)
{
    uint64_t rows = array->descriptor.Height ? array->descriptor.Height : 1;
    uint64_t across = (array->row + GOB_BYTES - 1) / GOB_BYTES, down = (rows + GOB_ROWS - 1) / GOB_ROWS;
    array->pitch = across * GOB_BYTES;
    array->slice = array->pitch * GOB_ROWS * up(down, stacked(down, solid ? 2 : 4));
    array->size = array->slice * (solid ? up(array->layers, stacked(array->layers, 3)) : array->layers);
}
