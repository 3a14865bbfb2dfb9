/*
 * cuMemAlloc and its relatives, and cuMemFree for all that is freed by it.
 *
 * An allocation belongs to the current context; it may be freed from any. Freeing waits for the work of the
 * context, as the driver does. What it does not do: stream order (stream_memory.c).
 */
#include "memory.h"

static CUresult allocate(const char *function, enum sim_use use, enum sim_memory_kind kind, uint64_t size,
                         unsigned flags, CUdeviceptr *pointer)
{
    struct sim_context *context;
    struct sim_allocation *made;
    CUresult result = sim_enter_context(function, &context);
    if (!result && !pointer)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !size)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    sim_memory_lock();
    result = sim_buffer_create(context, use, kind, size, SIM_ANYWHERE, &made);
    if (!result) {
        made->flags = flags;
        *pointer = made->base;
    }
    sim_memory_unlock();
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    return allocate(__func__, SIM_USE_DEVICE, SIM_MEMORY_BUFFER, bytesize, 0, dptr);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    bool known = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
    size_t size, pitch = (WidthInBytes + SIM_PITCH - 1) / SIM_PITCH * SIM_PITCH;
    if (!pPitch || !known || pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate(__func__, SIM_USE_DEVICE, SIM_MEMORY_BUFFER, size, 0, dptr);
    if (!result)
        *pPitch = pitch;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(__func__, SIM_USE_MANAGED, SIM_MEMORY_MANAGED, bytesize, flags, dptr);
}

/* What cuMemFree frees begins at the pointer and is no mapping, import, array or host memory. */
static struct sim_allocation *freeable(CUdeviceptr pointer)
{
    struct sim_allocation *allocation = sim_allocation_at(pointer);
    bool right = allocation && (allocation->use == SIM_USE_DEVICE || allocation->use == SIM_USE_MANAGED ||
                                allocation->use == SIM_USE_POOL || allocation->use == SIM_USE_GRAPH ||
                                allocation->use == SIM_USE_POOL_IMPORT);
    return right ? allocation : NULL;
}

/* The context whose work is waited for before memory goes: the allocation's own, else its card's. */
static struct sim_context *context_to_drain(const struct sim_allocation *allocation)
{
    return allocation->context ? allocation->context : sim_context_of_device(allocation->device);
}

static CUresult release(CUdeviceptr pointer)
{
    CUresult result = CUDA_SUCCESS;
    sim_memory_lock();
    struct sim_allocation *allocation = freeable(pointer);
    if (!allocation)
        result = CUDA_ERROR_INVALID_VALUE; /* another thread was faster */
    else if (allocation->use == SIM_USE_POOL)
        sim_pool_free(allocation, (struct sim_ticket){.channel = SIM_NONE});
    else if (allocation->use == SIM_USE_POOL_IMPORT)
        sim_pool_unimport(allocation);
    else if (allocation->use == SIM_USE_GRAPH)
        sim_graph_memory_drop(allocation);
    else
        sim_buffer_destroy(allocation);
    sim_memory_unlock();
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && dptr)
        result = sim_capture_forbids();
    if (result || !dptr)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = freeable(dptr);
    context = allocation ? context_to_drain(allocation) : NULL;
    sim_memory_unlock();
    if (!allocation)
        return CUDA_ERROR_INVALID_VALUE;
    if (context)
        sim_context_drain(context);
    return release(dptr);
}
