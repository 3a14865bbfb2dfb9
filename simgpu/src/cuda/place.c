/*
 * Where memory may lie, and which of it a copy, a memset or an attribute may touch.
 *
 * An address in the arena belongs to an allocation or is refused: freed, never allocated, mapped without
 * access. Any other address is the program's own memory, which a wrong copy hits as it would on a real card.
 * What it does not do: move bytes.
 */
#include "memory.h"

static bool touchable(const struct sim_allocation *allocation)
{
    return allocation && allocation->use != SIM_USE_ARRAY && !allocation->denied;
}

/* Mappings side by side serve one access; other allocations end where they end. */
static bool covers(const struct sim_allocation *allocation, uint64_t end)
{
    uint64_t reached = allocation->base + allocation->size;
    while (reached < end) {
        const struct sim_allocation *next = sim_allocation_at(reached);
        if (allocation->use != SIM_USE_MAPPING || !touchable(next) || next->use != SIM_USE_MAPPING)
            return false;
        reached = next->base + next->size;
    }
    return true;
}

CUresult sim_place_check(uint64_t address, uint64_t bytes, uint32_t *device)
{
    CUresult result = CUDA_SUCCESS;
    *device = SIM_NONE;
    if (bytes > UINT64_MAX - address)
        return CUDA_ERROR_INVALID_VALUE;
    sim_memory_lock();
    const struct sim_allocation *allocation = sim_allocation_find(address);
    if (!allocation)
        result = sim_arena_contains(address) || !address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    else if (!touchable(allocation))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (allocation->use != SIM_USE_HOST && allocation->use != SIM_USE_REGISTERED) {
        *device = allocation->device;
        result = covers(allocation, address + bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_unlock();
    return result;
}

CUresult sim_place_of(const CUmemLocation *location, uint32_t *device)
{
    *device = SIM_NONE;
    switch ((int)location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_resolve(location->id, device);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
