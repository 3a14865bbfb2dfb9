/*
 * Moving bytes: every copy is a box of width x height x depth between two sides, each linear or an array.
 *
 * Copies are checked, then made at once when they are queued; the card's timeline gets the time they take.
 * So a copy queued behind a host function does not see what that function will write; everything else that
 * changes memory is made at once too, hence in order. Bandwidth is the link's that lies between the sides.
 * What it does not do: streams (copy_call.c).
 */
#include <string.h>

#include "memory.h"

struct side {
    uint64_t start;        /* first byte of the box */
    uint64_t pitch, slice; /* bytes from row to row, from plane to plane */
    uint32_t device;       /* SIM_NONE: host */
};

struct linear { /* one side of CUDA_MEMCPY3D */
    CUmemorytype type;
    uint64_t host, pointer;
    CUarray array;
    size_t x, y, z, pitch, height;
};

static CUresult open_array(const struct linear *from, const CUDA_MEMCPY3D *box, struct side *side)
{
    struct sim_array *array;
    CUresult result = sim_array_resolve(from->array, &array);
    if (result)
        return result;
    size_t rows = array->descriptor.Height ? array->descriptor.Height : 1;
    if (box->WidthInBytes > array->row || from->x > array->row - box->WidthInBytes || box->Height > rows ||
        from->y > rows - box->Height || box->Depth > array->layers || from->z > array->layers - box->Depth)
        return CUDA_ERROR_INVALID_VALUE;
    *side = (struct side){.start = array->base + from->z * array->slice + from->y * array->pitch + from->x,
                          .pitch = array->pitch,
                          .slice = array->slice,
                          .device = array->device};
    return CUDA_SUCCESS;
}

/* z * slice + y * pitch + x; false when that is beyond 64 bits. */
static bool offset_of(size_t x, size_t y, size_t z, const struct side *side, uint64_t *offset)
{
    uint64_t rows, planes;
    return !__builtin_mul_overflow(y, side->pitch, &rows) && !__builtin_mul_overflow(z, side->slice, &planes) &&
           !__builtin_add_overflow(rows, planes, &rows) && !__builtin_add_overflow(rows, x, offset);
}

static CUresult open_linear(const struct linear *from, const CUDA_MEMCPY3D *box, struct side *side)
{
    uint64_t base = from->type == CU_MEMORYTYPE_HOST ? from->host : from->pointer;
    uint64_t width, height, before, bytes;
    if (!base || __builtin_add_overflow(from->x, box->WidthInBytes, &width) ||
        __builtin_add_overflow(from->y, box->Height, &height))
        return CUDA_ERROR_INVALID_VALUE;
    side->pitch = from->pitch ? from->pitch : width;
    uint64_t rows = from->height ? from->height : height;
    if (side->pitch < width || (box->Depth > 1 && rows < height) ||
        __builtin_mul_overflow(side->pitch, rows, &side->slice) ||
        !offset_of(from->x, from->y, from->z, side, &before) ||
        !offset_of(box->WidthInBytes, box->Height - 1, box->Depth - 1, side, &bytes) ||
        __builtin_add_overflow(base, before, &side->start))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_place_check(side->start, bytes, &side->device);
}

static CUresult open_side(const struct linear *from, const CUDA_MEMCPY3D *box, struct side *side)
{
    switch (from->type) {
    case CU_MEMORYTYPE_ARRAY:
        return open_array(from, box, side);
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return open_linear(from, box, side);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult open_sides(const CUDA_MEMCPY3D *box, struct side *to, struct side *from)
{
    struct linear source = {box->srcMemoryType, (uint64_t)box->srcHost, box->srcDevice, box->srcArray,
                            box->srcXInBytes,   box->srcY,              box->srcZ,      box->srcPitch,
                            box->srcHeight};
    struct linear target = {box->dstMemoryType, (uint64_t)box->dstHost, box->dstDevice, box->dstArray,
                            box->dstXInBytes,   box->dstY,              box->dstZ,      box->dstPitch,
                            box->dstHeight};
    CUresult result = open_side(&source, box, from);
    return result ? result : open_side(&target, box, to);
}

static uint64_t duration(uint64_t bytes, uint64_t bandwidth)
{
    return sim_hardware->copy_ns + (uint64_t)((double)bytes / (double)bandwidth * 1e9);
}

static uint64_t bandwidth_between(uint32_t one, uint32_t other)
{
    if (one == SIM_NONE || other == SIM_NONE)
        return sim_hardware->host_bandwidth;
    return one == other ? sim_hardware->device_bandwidth : sim_hardware->peer_bandwidth;
}

static void move(const CUDA_MEMCPY3D *box, const struct side *to, const struct side *from)
{
    for (size_t z = 0; z < box->Depth; z++)
        for (size_t y = 0; y < box->Height; y++)
            memmove((void *)(to->start + z * to->slice + y * to->pitch),
                    (const void *)(from->start + z * from->slice + y * from->pitch), box->WidthInBytes);
}

CUresult sim_memory_copy(const CUDA_MEMCPY3D *params, uint64_t *time)
{
    struct side to, from;
    *time = 0;
    if (!params->WidthInBytes || !params->Height || !params->Depth)
        return CUDA_SUCCESS;
    CUresult result = open_sides(params, &to, &from);
    if (result)
        return result;
    move(params, &to, &from);
    uint64_t bytes = params->WidthInBytes * params->Height * params->Depth;
    *time = duration(bytes, bandwidth_between(to.device, from.device));
    return CUDA_SUCCESS;
}

CUresult sim_memory_copy_reach(const CUDA_MEMCPY3D *params, bool *touches_host)
{
    struct side to = {.device = 0}, from = {.device = 0};
    CUresult result = CUDA_SUCCESS;
    if (params->WidthInBytes && params->Height && params->Depth)
        result = open_sides(params, &to, &from);
    *touches_host = to.device == SIM_NONE || from.device == SIM_NONE;
    return result;
}

static void fill_row(uint64_t start, const CUDA_MEMSET_NODE_PARAMS *params)
{
    if (params->elementSize == 1) {
        memset((void *)start, (int)params->value, params->width);
    } else if (params->elementSize == 2) {
        uint16_t *row = (uint16_t *)start;
        for (size_t i = 0; i < params->width; i++)
            row[i] = (uint16_t)params->value;
    } else {
        uint32_t *row = (uint32_t *)start;
        for (size_t i = 0; i < params->width; i++)
            row[i] = params->value;
    }
}

CUresult sim_memory_set(const CUDA_MEMSET_NODE_PARAMS *params, uint64_t *time)
{
    uint32_t device;
    uint64_t row, bytes;
    bool sizes = params->elementSize == 1 || params->elementSize == 2 || params->elementSize == 4;
    *time = 0;
    if (!sizes || params->dst % params->elementSize ||
        __builtin_mul_overflow(params->width, params->elementSize, &row) ||
        (params->height > 1 && params->pitch < row))
        return CUDA_ERROR_INVALID_VALUE;
    if (!row || !params->height)
        return CUDA_SUCCESS;
    struct side side = {.pitch = params->pitch};
    if (!offset_of(row, params->height - 1, 0, &side, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_place_check(params->dst, bytes, &device);
    if (result)
        return result;
    for (size_t y = 0; y < params->height; y++)
        fill_row(params->dst + y * params->pitch, params);
    *time = duration(row * params->height, sim_hardware->device_bandwidth);
    return CUDA_SUCCESS;
}
