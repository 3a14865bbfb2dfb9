/*
 * CUDA arrays: 1D, 2D, 3D, layered, cube maps.
 *
 * An array takes what its layout takes (array_layout.c), out of blocks that hold only arrays of texels as large as its
 * own. A deferred one holds nothing: it can be asked what it needs, and no more.
 * What it does not do: sparse arrays (sparse.c), memory mapped into deferred ones, textures.
 */
#include <stdlib.h>

#include "memory.h"
#include "sparse.h"
#include "unsimulated.h"

#define KNOWN_FLAGS                                                                                           \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |  \
     CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_DEFERRED_MAPPING)

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

bool sim_array_solid(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return descriptor->Depth && !(descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
}

/* Fills in sizes; INVALID_VALUE where it describes nothing. The largest extents keep the product in 64 bits. */
CUresult sim_array_describe(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, struct sim_array *array)
{
    size_t element = element_size(descriptor);
    size_t rows = descriptor->Height ? descriptor->Height : 1;
    size_t layers = descriptor->Depth ? descriptor->Depth : 1;
    size_t width = descriptor->Width;
    if (!element || !width || width > 1u << 28 || rows > 1u << 18 || layers > 1u << 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (descriptor->Flags & ~(unsigned)KNOWN_FLAGS)
        return SIM_UNSIMULATED("an array of video, or a sparse mipmapped one");
    bool cube = descriptor->Flags & CUDA_ARRAY3D_CUBEMAP;
    if (cube && (width != descriptor->Height || layers % 6))
        return CUDA_ERROR_INVALID_VALUE;
    array->magic = SIM_ARRAY_MAGIC;
    array->descriptor = *descriptor;
    array->row = width * element;
    array->layers = layers;
    sim_array_lay_out(array);
    return CUDA_SUCCESS;
}

CUresult sim_array_resolve(CUarray handle, struct sim_array **array)
{
    *array = (struct sim_array *)handle;
    if (!handle || (*array)->magic != SIM_ARRAY_MAGIC || !(*array)->whole->allocation)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static enum sim_shelf shelf_of(const struct sim_array *whole)
{
    return SIM_TEXELS + (enum sim_shelf)__builtin_ctzl(element_size(&whole->descriptor));
}

/* Take whole->size bytes from the card, if the array is not a deferred one. */
CUresult sim_array_store(struct sim_context *context, struct sim_array *whole)
{
    struct sim_allocation *made;
    whole->device = context->device;
    whole->whole = whole;
    if (whole->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)
        return CUDA_SUCCESS;
    sim_memory_lock();
    CUresult result =
        sim_buffer_create(context, SIM_USE_ARRAY, SIM_MEMORY_ARRAY, whole->size, shelf_of(whole), &made);
    if (!result) {
        made->owner = whole;
        whole->allocation = made;
        whole->base = made->base;
    }
    sim_memory_unlock();
    return result;
}

CUresult sim_array_unstore(struct sim_array *whole)
{
    CUresult result = CUDA_SUCCESS;
    sim_memory_lock();
    if (whole->allocation)
        sim_buffer_destroy(whole->allocation);
    else if (!(whole->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
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
    if (descriptor->Flags & CUDA_ARRAY3D_SPARSE)
        return sim_sparse_create(handle);
    struct sim_array *array = calloc(1, sizeof *array);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_array_describe(descriptor, array);
    if (!result)
        result = sim_array_store(context, array);
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
    if (!result && sim_sparse_is(hArray))
        return sim_sparse_destroy(hArray);
    if (!result && (!array || array->magic != SIM_ARRAY_MAGIC || (array->whole != array)))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sim_capture_forbids();
    if (!result)
        result = sim_context_drain(context);
    return result ? result : sim_array_unstore(array);
}
