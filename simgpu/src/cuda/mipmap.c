/*
 * Mipmapped arrays: one allocation, whose levels are arrays inside it that go with it.
 *
 * Each level halves the extents of the one below, down to 1; layers are not halved. What it does not do:
 * textures.
 */
#include <stdlib.h>

#include "memory.h"

struct mipmap {
    struct sim_array whole; /* first: its address is the handle */
    unsigned count;
    struct sim_array levels[];
};

static size_t halved(size_t extent, unsigned level)
{
    size_t half = extent >> level;
    return extent && !half ? 1 : half;
}

static unsigned possible_levels(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    size_t largest = descriptor->Width > descriptor->Height ? descriptor->Width : descriptor->Height;
    if (sim_array_solid(descriptor) && descriptor->Depth > largest)
        largest = descriptor->Depth;
    unsigned levels = 1;
    while (levels < 32 && largest >> levels)
        levels++;
    return levels;
}

static CUresult describe_levels(struct mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    bool layered = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    for (unsigned i = 0; i < mipmap->count; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
        level.Width = halved(descriptor->Width, i);
        level.Height = halved(descriptor->Height, i);
        level.Depth = layered ? descriptor->Depth : halved(descriptor->Depth, i);
        CUresult result = sim_array_describe(&level, &mipmap->levels[i]);
        if (result)
            return result;
    }
    sim_array_lay_out_levels(&mipmap->whole, mipmap->levels, mipmap->count);
    return CUDA_SUCCESS;
}

static void attach_levels(struct mipmap *mipmap)
{
    for (unsigned i = 0; i < mipmap->count; i++) {
        mipmap->levels[i].base += mipmap->whole.base;
        mipmap->levels[i].device = mipmap->whole.device;
        mipmap->levels[i].whole = &mipmap->whole;
    }
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!pHandle || !pMipmappedArrayDesc))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    unsigned most = possible_levels(pMipmappedArrayDesc), wanted = numMipmapLevels ? numMipmapLevels : 1;
    unsigned count = wanted < most ? wanted : most;
    struct mipmap *mipmap = calloc(1, sizeof *mipmap + count * sizeof mipmap->levels[0]);
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mipmap->whole.magic = SIM_MIPMAP_MAGIC;
    mipmap->whole.descriptor = *pMipmappedArrayDesc;
    mipmap->count = count;
    result = describe_levels(mipmap, pMipmappedArrayDesc);
    if (!result)
        result = sim_array_store(context, &mipmap->whole);
    if (result) {
        free(mipmap);
        return result;
    }
    attach_levels(mipmap);
    *pHandle = (CUmipmappedArray)mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    struct mipmap *mipmap = (struct mipmap *)hMipmappedArray;
    CUresult result = sim_enter(__func__);
    if (!result && (!mipmap || mipmap->whole.magic != SIM_MIPMAP_MAGIC || !mipmap->whole.allocation))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && (!pLevelArray || level >= mipmap->count))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pLevelArray = (CUarray)&mipmap->levels[level];
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    struct sim_context *context;
    struct mipmap *mipmap = (struct mipmap *)hMipmappedArray;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!mipmap || mipmap->whole.magic != SIM_MIPMAP_MAGIC))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sim_capture_forbids();
    if (!result)
        result = sim_context_drain(context);
    return result ? result : sim_array_unstore(&mipmap->whole);
}
