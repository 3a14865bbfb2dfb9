/*
 * Managed memory once it is allocated: prefetching and advice.
 *
 * All of it counts as the card's from the start and stays there, as measured; so a prefetch takes the time
 * of the copy on the stream and moves nothing, and advice is remembered (managed_range.c tells it) and has
 * no effect. What it does not do: page faults, migration.
 */
#include "memory.h"

struct sim_allocation *sim_managed_find(CUdeviceptr pointer, size_t count)
{
    struct sim_allocation *allocation = sim_allocation_find(pointer);
    bool right = allocation && allocation->use == SIM_USE_MANAGED && count &&
                 count <= allocation->base + allocation->size - pointer;
    return right ? allocation : NULL;
}

static const CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID};

static CUresult remember_prefetch(CUdeviceptr pointer, size_t count, const CUmemLocation *to)
{
    sim_memory_lock();
    struct sim_allocation *allocation = sim_managed_find(pointer, count);
    if (allocation)
        allocation->hints.prefetched = count == allocation->size ? *to : nowhere;
    sim_memory_unlock();
    return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The first versions name a place by an ordinal, the host by CU_DEVICE_CPU. */
static CUmemLocation location_of(CUdevice ordinal)
{
    bool host = ordinal == CU_DEVICE_CPU;
    return (CUmemLocation){.type = host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = host ? 0 : ordinal};
}

struct prefetch {
    CUdeviceptr pointer;
    size_t count;
    CUmemLocation to;
};

static CUresult prefetch(const char *function, const struct prefetch *range, CUstream handle, bool per_thread)
{
    struct sim_context *context;
    struct sim_stream *stream;
    uint32_t device;
    CUresult result = sim_enter_context(function, &context);
    if (!result)
        result = sim_place_of(&range->to, &device);
    if (!result)
        result = sim_stream_resolve(handle, per_thread, &stream);
    if (!result && sim_stream_capturing(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!result)
        result = remember_prefetch(range->pointer, range->count, &range->to);
    if (result)
        return result;
    double seconds = (double)range->count / (double)sim_hardware->host_bandwidth;
    return sim_submit_copy(stream, sim_hardware->copy_ns + (uint64_t)(seconds * 1e9), NULL);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return prefetch(__func__, &(struct prefetch){devPtr, count, location_of(dstDevice)}, hStream, false);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return prefetch(__func__, &(struct prefetch){devPtr, count, location_of(dstDevice)}, hStream, true);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(__func__, &(struct prefetch){devPtr, count, location}, hStream, false);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(__func__, &(struct prefetch){devPtr, count, location}, hStream, true);
}

static uint32_t bit_of(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? UINT32_C(1) << location->id : 0;
}

static void remember(struct sim_hints *hints, CUmem_advise advice, const CUmemLocation *location, bool whole)
{
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        hints->read_mostly = whole && advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        hints->preferred = whole ? *location : nowhere;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        hints->preferred = nowhere;
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        hints->accessed_by |= whole ? bit_of(location) : 0;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        hints->accessed_by &= ~bit_of(location);
        break;
    }
}

static CUresult advise(const char *function, CUdeviceptr pointer, size_t count, CUmem_advise advice,
                       const CUmemLocation *location)
{
    uint32_t device;
    CUresult result = sim_enter(function);
    bool placed = advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    if (!result && (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && placed)
        result = sim_place_of(location, &device);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_managed_find(pointer, count);
    if (allocation)
        remember(&allocation->hints, advice, location, count == allocation->size);
    sim_memory_unlock();
    return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    CUmemLocation location = location_of(device);
    return advise(__func__, devPtr, count, advice, &location);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    return advise(__func__, devPtr, count, advice, &location);
}
