/*
 * CUDA arrays (1D, 2D, 3D, layered, cube maps) and mipmapped arrays.
 *
 * Storage is linear, row after row without padding, and charged as cuMemAlloc charges the same number of
 * bytes; how the real driver pads arrays was not measured. A mipmapped array is one allocation, its levels
 * are arrays inside it that go with it. What it does not do: sparse arrays, deferred mapping, textures.
 */
#include <stdlib.h>

#include "memory.h"

#define KNOWN_FLAGS                                                                                           \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |  \
     CUDA_ARRAY3D_COLOR_ATTACHMENT)
#define MAX_LEVELS 32u

struct mipmap {
    struct sim_array whole; /* first: its address is the handle */
    unsigned count;
    struct sim_array levels[];
};

static size_t element_size(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    size_t channels = descriptor->NumChannels;
    if (channels != 1 && channels != 2 && channels != 4)
        return 0;
    switch ((int)descriptor->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * channels;
    default:
        return 0;
    }
}

/* Fills in sizes; INVALID_VALUE where it describes nothing. The largest extents keep the product in 64 bits. */
static CUresult describe(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, struct sim_array *array)
{
    size_t element = element_size(descriptor);
    size_t rows = descriptor->Height ? descriptor->Height : 1;
    size_t layers = descriptor->Depth ? descriptor->Depth : 1;
    size_t width = descriptor->Width;
    if (!element || !width || width > 1u << 28 || rows > 1u << 18 || layers > 1u << 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (descriptor->Flags & ~(unsigned)KNOWN_FLAGS)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool cube = descriptor->Flags & CUDA_ARRAY3D_CUBEMAP;
    if (cube && (width != descriptor->Height || layers % 6))
        return CUDA_ERROR_INVALID_VALUE;
    array->magic = SIM_ARRAY_MAGIC;
    array->descriptor = *descriptor;
    array->pitch = width * element;
    array->slice = array->pitch * rows;
    array->layers = layers;
    array->size = array->slice * layers;
    return CUDA_SUCCESS;
}

CUresult sim_array_resolve(CUarray handle, struct sim_array **array)
{
    *array = (struct sim_array *)handle;
    if (!handle || (*array)->magic != SIM_ARRAY_MAGIC || !(*array)->whole->allocation)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

/* Take `size` bytes from the card for `whole`. */
static CUresult store(struct sim_context *context, struct sim_array *whole, uint64_t size)
{
    struct sim_allocation *made;
    sim_memory_lock();
    CUresult result = sim_buffer_create(context, SIM_USE_ARRAY, SIM_MEMORY_BUFFER, size, false, &made);
    if (!result) {
        made->owner = whole;
        whole->allocation = made;
        whole->base = made->base;
        whole->device = context->device;
        whole->whole = whole;
    }
    sim_memory_unlock();
    return result;
}

static CUresult unstore(struct sim_array *whole)
{
    CUresult result = CUDA_SUCCESS;
    sim_memory_lock();
    if (whole->allocation)
        sim_buffer_destroy(whole->allocation);
    else
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_memory_unlock();
    whole->magic = 0;
    free(whole);
    return result;
}

/* ---- arrays ---- */

static CUresult create(const char *function, CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    if (!result && (!handle || !descriptor))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    struct sim_array *array = calloc(1, sizeof *array);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = describe(descriptor, array);
    if (!result)
        result = store(context, array, array->size);
    if (result)
        free(array);
    else
        *handle = (CUarray)array;
    return result;
}

static CUDA_ARRAY3D_DESCRIPTOR widen(const CUDA_ARRAY_DESCRIPTOR *flat)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width,
                                     .Height = flat->Height,
                                     .Format = flat->Format,
                                     .NumChannels = flat->NumChannels};
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    if (!pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = widen(pAllocateArray);
    return create(__func__, pHandle, &descriptor);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    return create(__func__, pHandle, pAllocateArray);
}

static CUresult describe_array(const char *function, CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct sim_array *array;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_array_resolve(handle, &array);
    if (!result)
        *descriptor = array->descriptor;
    return result;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    return pArrayDescriptor ? describe_array(__func__, hArray, pArrayDescriptor) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUresult result = pArrayDescriptor ? describe_array(__func__, hArray, &full) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){full.Width, full.Height, full.Format, full.NumChannels};
    return result;
}

CUresult cuArrayDestroy(CUarray hArray)
{
    struct sim_context *context;
    struct sim_array *array = (struct sim_array *)hArray;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!array || array->magic != SIM_ARRAY_MAGIC || (array->whole != array)))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sim_context_drain(context);
    return result ? result : unstore(array);
}

/* ---- mipmapped arrays ---- */

static size_t halved(size_t extent, unsigned level)
{
    size_t half = extent >> level;
    return extent && !half ? 1 : half;
}

static unsigned possible_levels(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    size_t largest = descriptor->Width > descriptor->Height ? descriptor->Width : descriptor->Height;
    if (!(descriptor->Flags & CUDA_ARRAY3D_LAYERED) && descriptor->Depth > largest)
        largest = descriptor->Depth;
    unsigned levels = 1;
    while (largest >> levels)
        levels++;
    return levels;
}

static CUresult describe_levels(struct mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                uint64_t *size)
{
    bool layered = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    *size = 0;
    for (unsigned i = 0; i < mipmap->count; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
        level.Width = halved(descriptor->Width, i);
        level.Height = halved(descriptor->Height, i);
        level.Depth = layered ? descriptor->Depth : halved(descriptor->Depth, i);
        CUresult result = describe(&level, &mipmap->levels[i]);
        if (result)
            return result;
        mipmap->levels[i].base = *size; /* from the storage's start, until that is known */
        *size += (mipmap->levels[i].size + SIM_UNIT - 1) / SIM_UNIT * SIM_UNIT;
    }
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
    uint64_t size;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!pHandle || !pMipmappedArrayDesc || !numMipmapLevels || numMipmapLevels > MAX_LEVELS))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    unsigned most = possible_levels(pMipmappedArrayDesc);
    unsigned count = numMipmapLevels < most ? numMipmapLevels : most;
    struct mipmap *mipmap = calloc(1, sizeof *mipmap + count * sizeof mipmap->levels[0]);
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mipmap->whole.magic = SIM_MIPMAP_MAGIC;
    mipmap->count = count;
    result = describe_levels(mipmap, pMipmappedArrayDesc, &size);
    if (!result)
        result = store(context, &mipmap->whole, size);
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
        result = sim_context_drain(context);
    return result ? result : unstore(&mipmap->whole);
}
