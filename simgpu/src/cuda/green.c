/*
 * Green contexts: a part of a card's multiprocessors, in the card's primary context, which each of them keeps.
 *
 * Parts are of eight multiprocessors, as on an H200. What it does not do: confine kernels to a part, or make a
 * context of its own of one; the context that stands for it is the primary one.
 */
#include <stdlib.h>

#include "driver.h"

#define PART 8

struct green { /* a CUgreenCtx, and (ordinal -1) a CUdevResourceDesc */
    CUdevice ordinal;
    CUcontext primary;
    unsigned multiprocessors;
};

static CUdevResource resource_of(unsigned multiprocessors)
{
    return (CUdevResource){
        .type = CU_DEV_RESOURCE_TYPE_SM,
        .sm = {.smCount = multiprocessors, .minSmPartitionSize = PART, .smCoscheduledAlignment = PART}};
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice ordinal, CUdevResource *resource, CUdevResourceType type)
{
    uint32_t device;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    if (result || !resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *resource = resource_of(sim_hardware->multiprocessors);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *parts, unsigned int *count, const CUdevResource *input,
                                             CUdevResource *remaining, unsigned int flags, unsigned int least)
{
    CUresult result = sim_enter(__func__);
    if (result || !count || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    unsigned each = least ? (least + PART - 1) / PART * PART : PART, most = input->sm.smCount / each;
    *count = parts && *count < most ? *count : most;
    for (unsigned i = 0; parts && i < *count; i++)
        parts[i] = resource_of(each);
    if (remaining)
        *remaining = resource_of(input->sm.smCount - *count * each);
    return *count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources,
                                           unsigned int count)
{
    CUresult result = sim_enter(__func__);
    if (result || !description || !resources || count != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct green *made = calloc(1, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct green){.ordinal = -1, .multiprocessors = resources->sm.smCount};
    *description = (CUdevResourceDesc)made;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *handle, CUdevResourceDesc description, CUdevice ordinal,
                                  unsigned int flags)
{
    CUresult result = sim_enter(__func__);
    if (result || !handle || !description || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct green *green = calloc(1, sizeof *green);
    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *green = *(struct green *)description;
    green->ordinal = ordinal;
    result = cuDevicePrimaryCtxRetain(&green->primary, ordinal);
    if (result)
        free(green);
    else
        *handle = (CUgreenCtx)green;
    return result;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx handle)
{
    struct green *green = (struct green *)handle;
    CUresult result = sim_enter(__func__);
    if (result || !green)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = cuDevicePrimaryCtxRelease_v2(green->ordinal);
    free(green);
    return result;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx handle)
{
    CUresult result = sim_enter(__func__);
    if (result || !context || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *context = ((struct green *)handle)->primary;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource, CUdevResourceType type)
{
    CUresult result = sim_enter(__func__);
    if (result || !handle || !resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *resource = resource_of(((struct green *)handle)->multiprocessors);
    return CUDA_SUCCESS;
}
