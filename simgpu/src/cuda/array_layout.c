/*
 * Where the texels of an array lie, and so how many bytes it takes: block-linear, as an H200 named and charged it for
 * thousands of shapes (docs/benchmarks/h200-arrays.csv).
 *
 * The unit is a GOB, 512 bytes: 64 bytes of 8 rows. In two dimensions GOBs are stacked 2^n high, in three 2^m deep; a
 * plane holds whole stacks. A layer begins where a stack of its first level may. Inside, the simulated card keeps
 * texels in plain rows: no program can see that.
 * What it does not do: other cards, whose arrays were not measured; they pad as the H200 does.
 */
#include "memory.h"

#define GOB_BYTES 64u
#define GOB_ROWS 8u
#define NEEDS_STEP 65536u /* a deferred array is told in */

static uint64_t in_whole(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

/* log2 of how many of `count` are stacked: as few as hold all of them, at most 2^most. */
static unsigned stacked(uint64_t count, unsigned most)
{
    unsigned log = 0;
    while (log < most && UINT64_C(1) << log < count)
        log++;
    return log;
}

void sim_array_lay_out(struct sim_array *array)
{
    bool solid = sim_array_solid(&array->descriptor);
    uint64_t rows = array->descriptor.Height ? array->descriptor.Height : 1;
    uint64_t across = (array->row + GOB_BYTES - 1) / GOB_BYTES, down = (rows + GOB_ROWS - 1) / GOB_ROWS;
    unsigned high = solid ? 0 : stacked(down, 4), deep = solid ? stacked(array->layers, 4) : 0;
    array->stack = (uint64_t)GOB_BYTES * GOB_ROWS << high << deep;
    array->pitch = across * GOB_BYTES;
    array->slice = array->pitch * GOB_ROWS * in_whole(down, UINT64_C(1) << high);
    array->size = array->slice * in_whole(array->layers, UINT64_C(1) << deep);
}

void sim_array_lay_out_levels(struct sim_array *whole, struct sim_array *levels, unsigned count)
{
    bool solid = sim_array_solid(&whole->descriptor);
    uint64_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        levels[i].base = size; /* from the storage's start, until that is known */
        size += solid ? levels[i].size : levels[i].slice;
    }
    size = solid ? size : in_whole(size, levels[0].stack);
    for (unsigned i = 0; i < count && !solid; i++)
        levels[i].slice = size; /* a layer is followed by its other levels */
    whole->size = solid ? size : size * levels[0].layers;
}

static CUresult requirements(const char *function, CUDA_ARRAY_MEMORY_REQUIREMENTS *told, CUdevice ordinal,
                             const struct sim_array *whole, unsigned magic)
{
    uint32_t device;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    if (!result && (!whole || whole->magic != magic || whole->whole != whole))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && (!told || !(whole->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *told = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = in_whole(whole->size, NEEDS_STEP), .alignment = NEEDS_STEP};
    return result;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array,
                                      CUdevice device)
{
    return requirements(__func__, memoryRequirements, device, (struct sim_array *)array, SIM_ARRAY_MAGIC);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice device)
{
    return requirements(__func__, memoryRequirements, device, (struct sim_array *)mipmap, SIM_MIPMAP_MAGIC);
}
