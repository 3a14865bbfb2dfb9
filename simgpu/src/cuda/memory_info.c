/*
 * What a card has and has left, and where an allocation begins.
 *
 * Both output pointers of cuMemGetInfo and cuMemGetAddressRange may be NULL, as programs that want one of
 * the two pass it. The first versions answer in 32 bits and saturate. What it does not do: NVML's view.
 */
#include "memory.h"

static CUresult info(const char *function, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    if (!result)
        sim_memory_info(context->device, free_bytes, total_bytes);
    return result;
}

static unsigned in_32_bits(uint64_t value)
{
    return value < UINT32_MAX ? (unsigned)value : UINT32_MAX;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    uint64_t left, all;
    CUresult result = info(__func__, &left, &all);
    if (!result && free)
        *free = left;
    if (!result && total)
        *total = all;
    return result;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    uint64_t left, all;
    CUresult result = info(__func__, &left, &all);
    if (!result && free)
        *free = in_32_bits(left);
    if (!result && total)
        *total = in_32_bits(all);
    return result;
}

static CUresult total_memory(const char *function, CUdevice ordinal, uint64_t *total)
{
    uint32_t device;
    uint64_t left;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    if (!result)
        sim_memory_info(device, &left, total);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    uint64_t total;
    CUresult result = bytes ? total_memory(__func__, dev, &total) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *bytes = total;
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    uint64_t total;
    CUresult result = bytes ? total_memory(__func__, dev, &total) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *bytes = in_32_bits(total);
    return result;
}

static CUresult address_range(const char *function, CUdeviceptr pointer, uint64_t *base, uint64_t *size)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_find(pointer);
    if (allocation && allocation->device != SIM_NONE && allocation->use != SIM_USE_ARRAY) {
        *base = allocation->base;
        *size = allocation->size;
    } else {
        result = CUDA_ERROR_NOT_FOUND;
    }
    sim_memory_unlock();
    return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    uint64_t base, size;
    CUresult result = address_range(__func__, dptr, &base, &size);
    if (!result && pbase)
        *pbase = base;
    if (!result && psize)
        *psize = size;
    return result;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    uint64_t base, size;
    CUresult result = address_range(__func__, dptr, &base, &size);
    if (!result && pbase)
        *pbase = (CUdeviceptr_v1)base;
    if (!result && psize)
        *psize = in_32_bits(size);
    return result;
}
