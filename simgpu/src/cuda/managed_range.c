/*
 * What a program can ask of a range of managed memory: the advice it gave and where it was prefetched.
 *
 * An attribute is told with the size its type has; the list of cards that access a range fills what is given.
 * What it does not do: remember hints for parts of an allocation.
 */
#include "memory.h"

static int ordinal_of(const CUmemLocation *location)
{
    switch ((int)location->type) {
    case CU_MEM_LOCATION_TYPE_INVALID:
        return CU_DEVICE_INVALID;
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return location->id;
    default:
        return CU_DEVICE_CPU;
    }
}

static CUresult list_cards(uint32_t mask, int *ordinals, size_t size)
{
    size_t room = size / sizeof *ordinals;
    if (!room || size % sizeof *ordinals)
        return CUDA_ERROR_INVALID_VALUE;
    for (int ordinal = 0; ordinal < SIM_DEVICES && room; ordinal++)
        if (mask >> ordinal & 1) {
            *ordinals++ = ordinal;
            room--;
        }
    while (room--)
        *ordinals++ = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

/* All but the list are of 32 bits. */
static CUresult answer(const struct sim_hints *hints, CUmem_range_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *value = hints->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *value = ordinal_of(&hints->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *value = ordinal_of(&hints->prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *value = (int)hints->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *value = hints->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *value = (int)hints->prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *value = hints->prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

_Static_assert(sizeof(CUmemLocationType) == sizeof(int), "location types are told as 32 bits");

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                size_t count)
{
    CUresult result = sim_enter(__func__);
    bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if (!result && (!data || (!list && dataSize != sizeof(int))))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    const struct sim_allocation *allocation = sim_managed_find(devPtr, count);
    if (!allocation)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (list)
        result = list_cards(allocation->hints.accessed_by, data, dataSize);
    else
        result = answer(&allocation->hints, attribute, data);
    sim_memory_unlock();
    return result;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    CUresult result = data && dataSizes && attributes && numAttributes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numAttributes && !result; i++)
        result = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    return result;
}
