/*
 * The layout of arrays on a card (array_size.h), as measured: docs/decisions/what-the-card-charges.md has the table.
 *
 * Texels lie in tiles of 64 bytes by 8 rows, and tiles in blocks: one wide, and as many high and deep as the array's
 * own extents ask for, up to a bound. Every extent is rounded up to whole blocks, so a row has a multiple of 64 bytes,
 * an array in one dimension has 8 rows, and one of 1,025 rows 1,152. Layers and the faces of a cube are not halved
 * from level to level, nor rounded.
 */
#include "array_size.h"

#include "account.h"

#define TILE_WIDTH 64 /* bytes */
#define TILE_ROWS 8
#define BLOCK_ROWS 128    /* the highest block */
#define BOX_BLOCK_ROWS 32 /* … of an array in three dimensions, */
#define BOX_BLOCK_DEPTH 8 /* and how deep it is */

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Bytes of one channel; 0: of a format that is not laid out texel by texel. */
static uint64_t channel_size(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

/* Rounded up to the smallest block that holds it, or to whole ones of the largest. */
static uint64_t in_blocks(uint64_t extent, uint64_t smallest, uint64_t largest)
{
    uint64_t block = smallest;
    while (block < extent && block < largest)
        block *= 2;
    return weir_round_up(extent, block);
}

/* An extent of 0 is one that the array does not have. */
static uint64_t halved(uint64_t extent, unsigned level)
{
    uint64_t half = level < 64 ? extent >> level : 0;
    return half ? half : 1;
}

static bool layered(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    return shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

static uint64_t level_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, uint64_t texel, unsigned level)
{
    bool box = !layered(shape) && shape->Depth > 1;
    uint64_t row = weir_round_up(times(halved(shape->Width, level), texel), TILE_WIDTH);
    uint64_t rows = in_blocks(halved(shape->Height, level), TILE_ROWS, box ? BOX_BLOCK_ROWS : BLOCK_ROWS);
    uint64_t planes = box ? in_blocks(halved(shape->Depth, level), 1, BOX_BLOCK_DEPTH) : halved(shape->Depth, 0);
    return times(times(row, rows), planes);
}

static bool smallest(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level)
{
    return halved(shape->Width, level) == 1 && halved(shape->Height, level) == 1 &&
           (layered(shape) || halved(shape->Depth, level) == 1);
}

struct weir_array_size weir_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    uint64_t channel = channel_size(shape->Format), sum = 0;
    uint64_t texel = times(channel ? channel : 4, shape->NumChannels);
    for (unsigned level = 0; level < levels; level++) {
        sum = plus(sum, level_size(shape, texel, level));
        if (smallest(shape, level))
            break;
    }
    return (struct weir_array_size){.least = channel ? sum : 0, .most = sum};
}
