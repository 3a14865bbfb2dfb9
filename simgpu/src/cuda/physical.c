/*
 * cuMemCreate and its handles: physical memory on a card or on the host.
 *
 * Bytes survive being unmapped and mapped elsewhere, so they are in files: one common file for what stays in
 * the process, cut into ranges, and one file each for what may be exported (physical_share.c).
 * What it does not do: addresses (mapping.c).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "physical.h"

#define COMMON_SIZE (UINT64_C(1) << 44)

static int common_fd = -1;
static struct sim_ranges common;  /* which parts of the common file are taken */
static struct sim_ranges handles; /* id → struct sim_physical */
static CUmemGenericAllocationHandle last_id = 0x1000;

/* ---- where the bytes are ---- */

bool sim_physical_exportable(const struct sim_physical *physical)
{
    return physical->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

static bool place_in_common(struct sim_physical *physical)
{
    if (common_fd < 0)
        common_fd = sim_arena_file(COMMON_SIZE);
    /* from the first granule on: 0 would mean that there is no gap */
    physical->offset = sim_ranges_gap(&common, SIM_GRANULARITY, COMMON_SIZE, physical->size, SIM_GRANULARITY);
    physical->fd = common_fd;
    return common_fd >= 0 && physical->offset &&
           sim_ranges_insert(&common, physical->offset, physical->size, physical);
}

static void unplace(struct sim_physical *physical)
{
    if (sim_physical_exportable(physical)) {
        close(physical->fd);
        return;
    }
    fallocate(common_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical->offset,
              (off_t)physical->size);
    sim_ranges_remove(&common, physical->offset);
}

/* ---- handles ---- */

CUresult sim_physical_resolve(CUmemGenericAllocationHandle handle, struct sim_physical **physical)
{
    struct sim_range *range = sim_ranges_find(&handles, handle);
    *physical = range ? range->object : NULL;
    return *physical && (*physical)->handles ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct sim_physical *sim_physical_of_inode(uint64_t inode)
{
    for (size_t i = 0; i < handles.count; i++) {
        struct sim_physical *physical = handles.at[i].object;
        if (sim_physical_exportable(physical) && physical->inode == inode)
            return physical;
    }
    return NULL;
}

/* Charge this process, so that others may take the charge over if the memory can be exported. */
CUresult sim_physical_charge(struct sim_physical *physical)
{
    physical->share = (struct sim_share_ref){SIM_NONE, 0};
    if (physical->device == SIM_NONE)
        return CUDA_SUCCESS;
    CUresult result = sim_card_take(physical->device, SIM_MEMORY_BUFFER, physical->size);
    if (!result && sim_physical_exportable(physical))
        physical->share = sim_share_begin(physical->device, physical->size);
    return result;
}

void sim_physical_uncharge(const struct sim_physical *physical)
{
    if (physical->share.share != SIM_NONE)
        sim_share_leave(physical->share);
    else if (physical->device != SIM_NONE)
        sim_memory_give(physical->device, SIM_MEMORY_BUFFER, physical->size);
}

bool sim_physical_enlist(struct sim_physical *physical)
{
    physical->id = ++last_id;
    physical->handles = 1;
    return sim_ranges_insert(&handles, physical->id, 1, physical);
}

void sim_physical_drop_if_unused(struct sim_physical *physical)
{
    if (physical->handles || physical->mappings)
        return;
    sim_ranges_remove(&handles, physical->id);
    unplace(physical);
    sim_physical_uncharge(physical);
    free(physical);
}

static CUresult check_properties(const CUmemAllocationProp *prop, uint32_t *device)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_place_of(&prop->location, device);
}

/* With the lock held. */
static CUresult create(struct sim_physical *physical)
{
    CUresult result = sim_physical_charge(physical);
    if (result)
        return result;
    bool placed = sim_physical_exportable(physical) ? sim_physical_place_in_own_file(physical)
                                                    : place_in_common(physical);
    if (placed && sim_physical_enlist(physical))
        return CUDA_SUCCESS;
    if (placed)
        unplace(physical);
    sim_physical_uncharge(physical);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    uint32_t device;
    CUresult result = sim_enter(__func__);
    if (!result && (!handle || flags || !size || size % SIM_GRANULARITY))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_properties(prop, &device);
    if (!result && size > COMMON_SIZE / 2)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        return result;
    struct sim_physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *physical = (struct sim_physical){.size = size, .device = device, .properties = *prop};
    sim_memory_lock();
    result = create(physical);
    sim_memory_unlock();
    if (result)
        free(physical);
    else
        *handle = physical->id;
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical;
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    sim_memory_lock();
    result = sim_physical_resolve(handle, &physical);
    if (!result) {
        physical->handles--;
        sim_physical_drop_if_unused(physical);
    }
    sim_memory_unlock();
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical;
    CUresult result = sim_enter(__func__);
    if (!result && !prop)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    result = sim_physical_resolve(handle, &physical);
    if (!result)
        *prop = physical->properties;
    sim_memory_unlock();
    return result;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    uint32_t device;
    CUresult result = sim_enter(__func__);
    if (!result && (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_properties(prop, &device);
    if (!result)
        *granularity = SIM_GRANULARITY;
    return result;
}
