/*
 * The layout of arrays on a card (array_size.h), as an H200 named it for thousands of shapes
 * (docs/benchmarks/h200-arrays.csv).
 *
 * Texels lie in tiles of 64 bytes by 8 rows, and tiles in blocks, one wide: in two dimensions the lowest of 8, 16, …
 * 128 rows that holds the array; in three, which a depth of 1 is too, 8 rows of the fewest planes of 1, 2, … 16 that
 * hold it.
 * Every extent is rounded up to whole blocks, so an array in one dimension has 8 rows, and one of 1,025 rows 1,152.
 * A layer, or the face of a cube, is an array of its own with all its levels, and begins at a whole block. Compressed
 * formats have blocks of 4 x 4 texels in place of texels.
 */
#include "array_size.h"

#include "account.h"

#define TILE_WIDTH 64 /* bytes */
#define TILE_ROWS 8
#define BLOCK_ROWS 128  /* the highest block */
#define BLOCK_PLANES 16 /* and the deepest */

struct element { /* a texel, or a compressed block */
    uint64_t bytes, side;
    bool known;
};

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

static struct element compressed(uint64_t bytes)
{
    return (struct element){.bytes = bytes, .side = 4, .known = true};
}

static struct element texel(uint64_t channel, unsigned channels)
{
    return (struct element){.bytes = times(channel, channels), .side = 1, .known = true};
}

static struct element element_of(CUarray_format format, unsigned channels)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1 ... CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1 ... CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
        return texel(1, channels);
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1 ... CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1 ... CU_AD_FORMAT_SNORM_INT16X4:
        return texel(2, channels);
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return texel(4, channels);
    case CU_AD_FORMAT_BC1_UNORM ... CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM ... CU_AD_FORMAT_BC4_SNORM:
        return compressed(8);
    case CU_AD_FORMAT_BC2_UNORM ... CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM ... CU_AD_FORMAT_BC7_UNORM_SRGB:
        return compressed(16);
    default: /* of video: at most that */
        return (struct element){.bytes = times(4, channels), .side = 1};
    }
}

/* The smallest block that holds an extent, or the largest. */
static uint64_t block_for(uint64_t extent, uint64_t smallest, uint64_t largest)
{
    uint64_t block = smallest;
    while (block < extent && block < largest)
        block *= 2;
    return block;
}

/* An extent of 0 is one that the array does not have. */
static uint64_t halved(uint64_t extent, unsigned level)
{
    uint64_t half = level < 64 ? extent >> level : 0;
    return half ? half : 1;
}

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    return shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

/* Bytes of one level of one layer, and of the blocks that it is made of. */
static uint64_t level_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct element element, unsigned level,
                           uint64_t *block)
{
    bool solid = shape->Depth && !is_layered(shape);
    uint64_t width = weir_round_up(halved(shape->Width, level), element.side) / element.side;
    uint64_t height = weir_round_up(halved(shape->Height, level), element.side) / element.side;
    uint64_t depth = solid ? halved(shape->Depth, level) : 1;
    uint64_t rows = solid ? TILE_ROWS : block_for(height, TILE_ROWS, BLOCK_ROWS);
    uint64_t planes = block_for(depth, 1, BLOCK_PLANES);
    *block = TILE_WIDTH * rows * planes;
    uint64_t plane = times(weir_round_up(times(width, element.bytes), TILE_WIDTH), weir_round_up(height, rows));
    return times(plane, weir_round_up(depth, planes));
}

static bool is_smallest(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level)
{
    return halved(shape->Width, level) == 1 && halved(shape->Height, level) == 1 &&
           (is_layered(shape) || halved(shape->Depth, level) == 1);
}

struct weir_array_size weir_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    struct element element = element_of(shape->Format, shape->NumChannels);
    uint64_t first, block, layer = level_size(shape, element, 0, &first);
    for (unsigned level = 1; level < levels && !is_smallest(shape, level - 1); level++)
        layer = plus(layer, level_size(shape, element, level, &block));
    uint64_t size = layer;
    if (is_layered(shape))
        size = times(weir_round_up(layer, first), halved(shape->Depth, 0));
    return (struct weir_array_size){.least = element.known ? size : 0, .most = size};
}
