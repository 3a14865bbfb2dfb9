/*
 * The record of every allocation of this process, by address, and the lock that guards all memory files.
 *
 * An allocation that belongs to a context ends with it; pools, mappings and registered host memory outlive
 * contexts. What it does not do: entry points, or physical memory (extent.c, vmm.c).
 */
#include <pthread.h>
#include <stdlib.h>

#include "image.h"
#include "memory.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_ranges allocations;
static uint64_t last_id;

void sim_memory_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_memory_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct sim_allocation *sim_allocation_add(const struct sim_allocation *fields)
{
    struct sim_allocation *allocation = malloc(sizeof *allocation);
    if (!allocation)
        return NULL;
    *allocation = *fields;
    allocation->id = ++last_id;
    if (sim_ranges_insert(&allocations, allocation->base, allocation->size, allocation))
        return allocation;
    free(allocation);
    return NULL;
}

void sim_allocation_remove(struct sim_allocation *allocation)
{
    sim_ranges_remove(&allocations, allocation->base);
    free(allocation);
}

struct sim_allocation *sim_allocation_find(uint64_t address)
{
    struct sim_range *range = sim_ranges_find(&allocations, address);
    return range ? range->object : NULL;
}

struct sim_allocation *sim_allocation_at(uint64_t base)
{
    struct sim_allocation *allocation = sim_allocation_find(base);
    return allocation && allocation->base == base ? allocation : NULL;
}

bool sim_allocation_none_in(uint64_t base, uint64_t size)
{
    return sim_ranges_gap(&allocations, base, base + size, size, 1) == base;
}

static CUresult add_extent(struct sim_allocation *fields, struct sim_allocation **made)
{
    fields->base = fields->extent.base;
    fields->size = fields->extent.size;
    fields->context = fields->extent.context;
    fields->device = fields->context->device;
    *made = sim_allocation_add(fields);
    if (*made)
        return CUDA_SUCCESS;
    sim_extent_give(&fields->extent);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_buffer_create(struct sim_context *context, enum sim_use use, enum sim_memory_kind kind,
                           uint64_t size, enum sim_shelf shelf, struct sim_allocation **made)
{
    struct sim_allocation fields = {.use = use};
    CUresult result = sim_extent_take(context, kind, size, shelf, &fields.extent);
    return result ? result : add_extent(&fields, made);
}

CUresult sim_storage_create(struct sim_context *context, struct sim_image *image, struct sim_allocation **made)
{
    struct sim_allocation fields = {.use = SIM_USE_GLOBAL, .owner = image};
    CUresult result = sim_extent_take_storage(context, image->stored, image->storage_charge, &fields.extent);
    return result ? result : add_extent(&fields, made);
}

void sim_buffer_destroy(struct sim_allocation *allocation)
{
    struct sim_extent extent = allocation->extent;
    sim_allocation_remove(allocation);
    sim_extent_give(&extent);
}

static void end_with_context(struct sim_allocation *allocation)
{
    switch (allocation->use) {
    case SIM_USE_ARRAY:
        ((struct sim_array *)allocation->owner)->allocation = NULL;
        sim_buffer_destroy(allocation);
        break;
    case SIM_USE_GLOBAL:
        ((struct sim_image *)allocation->owner)->storage = NULL;
        sim_buffer_destroy(allocation);
        break;
    case SIM_USE_DEVICE:
    case SIM_USE_MANAGED:
        sim_buffer_destroy(allocation);
        break;
    case SIM_USE_HOST:
        sim_host_destroy(allocation);
        break;
    default: /* the others have no context */
        break;
    }
}

void sim_memory_forget_context(struct sim_context *context)
{
    sim_memory_lock();
    for (size_t i = allocations.count; i-- > 0;) {
        struct sim_allocation *allocation = allocations.at[i].object;
        if (allocation->context == context)
            end_with_context(allocation);
    }
    sim_pools_release_unused(context->device);
    sim_memory_unlock();
}
