/*
 * Addresses that a program manages itself: reserve, map physical memory there, grant access, unmap.
 *
 * A mapping is an allocation record of its own, without access until it is granted. What covers a mapping
 * only in part is refused: unmapping and granting take whole mappings, one or many side by side. What it
 * does not do: mappings of arrays, multicast.
 */
#include <stdlib.h>

#include "physical.h"

static struct sim_ranges reservations;

static bool granular(uint64_t value)
{
    return value && value % SIM_GRANULARITY == 0;
}

/* ---- reservations ---- */

static uint64_t reserve(uint64_t size, uint64_t alignment, uint64_t wish)
{
    if (alignment < SIM_GRANULARITY)
        alignment = SIM_GRANULARITY;
    uint64_t base = granular(wish) && wish % alignment == 0 && sim_arena_take_at(wish, size)
                        ? wish
                        : sim_arena_take(size, alignment, false);
    if (base && !sim_ranges_insert(&reservations, base, size, NULL)) {
        sim_arena_give(base);
        base = 0;
    }
    return base;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    CUresult result = sim_enter(__func__);
    if (!result && (!ptr || !granular(size) || alignment & (alignment - 1) || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    uint64_t base = reserve(size, alignment, addr);
    sim_memory_unlock();
    if (!base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_range *range = sim_ranges_find(&reservations, ptr);
    if (!range || range->base != ptr || range->size != size || !sim_allocation_none_in(ptr, size)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        sim_ranges_remove(&reservations, ptr);
        sim_arena_give(ptr);
    }
    sim_memory_unlock();
    return result;
}

/* ---- mappings ---- */

static bool mappable(uint64_t address, uint64_t size)
{
    struct sim_range *range = sim_ranges_find(&reservations, address);
    return range && size <= range->size && address - range->base <= range->size - size &&
           sim_allocation_none_in(address, size);
}

static CUresult map(uint64_t address, uint64_t size, struct sim_physical *physical)
{
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->physical = physical;
    struct sim_allocation fields = {.base = address,
                                    .size = size,
                                    .use = SIM_USE_MAPPING,
                                    .device = physical->device,
                                    .denied = true,
                                    .owner = mapping};
    struct sim_allocation *made = sim_allocation_add(&fields);
    if (made && sim_arena_map(address, size, physical->fd, physical->offset)) {
        physical->mappings++;
        return CUDA_SUCCESS;
    }
    if (made)
        sim_allocation_remove(made);
    free(mapping);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    struct sim_physical *physical;
    CUresult result = sim_enter(__func__);
    if (!result && (!granular(ptr) || !granular(size) || offset || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    result = sim_physical_resolve(handle, &physical);
    if (!result && (size > physical->size || !mappable(ptr, size)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = map(ptr, size, physical);
    sim_memory_unlock();
    return result;
}

static struct sim_allocation *mapping_at(uint64_t address)
{
    struct sim_allocation *allocation = sim_allocation_at(address);
    return allocation && allocation->use == SIM_USE_MAPPING ? allocation : NULL;
}

/* [base, base + size) is whole mappings, side by side. */
static bool whole_mappings(uint64_t base, uint64_t size)
{
    uint64_t at = base;
    while (at < base + size) {
        struct sim_allocation *allocation = mapping_at(at);
        if (!allocation)
            return false;
        at += allocation->size;
    }
    return size && at == base + size;
}

static uint64_t unmap(struct sim_allocation *allocation)
{
    struct sim_mapping *mapping = allocation->owner;
    uint64_t end = allocation->base + allocation->size;
    sim_arena_clear(allocation->base, allocation->size);
    sim_allocation_remove(allocation);
    mapping->physical->mappings--;
    sim_physical_drop_if_unused(mapping->physical);
    free(mapping);
    return end;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    sim_memory_lock();
    if (whole_mappings(ptr, size))
        for (uint64_t at = ptr; at < ptr + size;)
            at = unmap(mapping_at(at));
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_find((uint64_t)addr);
    if (!handle || !allocation || allocation->use != SIM_USE_MAPPING) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        struct sim_physical *physical = ((struct sim_mapping *)allocation->owner)->physical;
        physical->handles++;
        *handle = physical->id;
    }
    sim_memory_unlock();
    return result;
}

/* ---- access ---- */

static CUresult access_of(struct sim_mapping *mapping, const CUmemLocation *location, CUmemAccess_flags **access)
{
    uint32_t device;
    CUresult result = CUDA_SUCCESS;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        result = sim_device_resolve(location->id, &device);
        *access = result ? NULL : &mapping->access[device];
    } else if (location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
        *access = &mapping->host_access;
    } else {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

static CUresult check_grant(const CUmemAccessDesc *desc)
{
    struct sim_mapping unused;
    CUmemAccess_flags *access;
    bool known = desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                 desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return known ? access_of(&unused, &desc->location, &access) : CUDA_ERROR_INVALID_VALUE;
}

static void grant(struct sim_allocation *allocation, const CUmemAccessDesc *desc, size_t count)
{
    struct sim_mapping *mapping = allocation->owner;
    CUmemAccess_flags *access;
    for (size_t i = 0; i < count; i++)
        if (!access_of(mapping, &desc[i].location, &access))
            *access = desc[i].flags;
    allocation->denied = mapping->host_access == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (uint32_t d = 0; d < SIM_DEVICES; d++)
        if (mapping->access[d] != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            allocation->denied = false;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CUresult result = sim_enter(__func__);
    if (!result && (!desc || !count))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        result = check_grant(&desc[i]);
    if (result)
        return result;
    sim_memory_lock();
    if (whole_mappings(ptr, size))
        for (uint64_t at = ptr; at < ptr + size; at = mapping_at(at)->base + mapping_at(at)->size)
            grant(mapping_at(at), desc, count);
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CUmemAccess_flags *access;
    CUresult result = sim_enter(__func__);
    if (!result && (!flags || !location))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_find(ptr);
    if (!allocation || allocation->use != SIM_USE_MAPPING)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = access_of(allocation->owner, location, &access);
    if (!result)
        *flags = *access;
    sim_memory_unlock();
    return result;
}
