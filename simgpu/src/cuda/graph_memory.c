/*
 * Memory of graphs' allocation nodes: each has its address for the node's life, and memory while it is
 * launched and not freed.
 *
 * Freed memory stays with the card's graph pool, for the next launch of any graph, until it is trimmed; so
 * what a card is charged is the pool's reserve, in whole 2 MiB. An upload fills the reserve and uses nothing of it, so
 * graphs that were only uploaded share it. What it does not do: nodes and launches
 * (graph.h has the contract).
 */
#include <stdlib.h>

#include "memory.h"

struct node_memory {
    uint64_t size; /* whole granules */
    uint32_t device;
    bool mapped;
    bool released; /* its graphs are gone: the address goes when the memory is freed */
};

struct graph_pool {
    uint64_t used, used_high;
    uint64_t reserved, reserved_high; /* charged to the card */
};

static struct sim_ranges nodes;
static struct graph_pool pools[SIM_DEVICES];

static void raise_to(uint64_t *high, uint64_t value)
{
    if (*high < value)
        *high = value;
}

static struct node_memory *find(CUdeviceptr pointer)
{
    struct sim_range *range = sim_ranges_find(&nodes, pointer);
    return range && range->base == pointer ? range->object : NULL;
}

static void forget(CUdeviceptr pointer, struct node_memory *memory)
{
    sim_ranges_remove(&nodes, pointer);
    sim_arena_give(pointer);
    free(memory);
}

CUresult sim_graph_memory_reserve(struct sim_context *context, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    uint32_t device = context->device;
    const CUmemPoolProps *props = &params->poolProps;
    if (!params->bytesize || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || sim_device_resolve(props->location.id, &device))
        return CUDA_ERROR_INVALID_VALUE;
    if (params->bytesize > sim_hardware->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct node_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->size = (params->bytesize + SIM_GRANULARITY - 1) / SIM_GRANULARITY * SIM_GRANULARITY;
    memory->device = device;
    sim_memory_lock();
    params->dptr = sim_arena_take(memory->size, SIM_GRANULARITY, false);
    bool kept = params->dptr && sim_ranges_insert(&nodes, params->dptr, memory->size, memory);
    if (!kept) {
        sim_arena_give(params->dptr);
        free(memory);
    }
    sim_memory_unlock();
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool sim_graph_memory_known(CUdeviceptr pointer)
{
    sim_memory_lock();
    bool known = find(pointer) != NULL;
    sim_memory_unlock();
    return known;
}

/* The card gives what the pool has not in reserve. */
static CUresult grow(uint32_t device, uint64_t size)
{
    struct graph_pool *pool = &pools[device];
    uint64_t spare = pool->reserved - pool->used;
    if (spare >= size)
        return CUDA_SUCCESS;
    CUresult result = sim_card_take(device, SIM_MEMORY_BUFFER, size - spare);
    if (!result)
        pool->reserved += size - spare;
    raise_to(&pool->reserved_high, pool->reserved);
    return result;
}

static CUresult use(uint32_t device, uint64_t size)
{
    struct graph_pool *pool = &pools[device];
    CUresult result = grow(device, size);
    if (result)
        return result;
    pool->used += size;
    raise_to(&pool->used_high, pool->used);
    return CUDA_SUCCESS;
}

CUresult sim_graph_memory_upload(struct sim_node *const *order, size_t count)
{
    uint64_t live[SIM_DEVICES] = {0}, most[SIM_DEVICES] = {0};
    CUresult result = CUDA_SUCCESS;
    sim_memory_lock();
    for (size_t i = 0; i < count; i++) {
        bool takes = order[i]->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        bool gives = order[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
        const struct node_memory *memory = takes ? find(order[i]->alloc.dptr) : gives ? find(order[i]->free) : NULL;
        if (memory && takes)
            raise_to(&most[memory->device], live[memory->device] += memory->size);
        else if (memory && live[memory->device] >= memory->size)
            live[memory->device] -= memory->size;
    }
    for (uint32_t device = 0; device < SIM_DEVICES && !result; device++)
        result = most[device] ? grow(device, most[device]) : CUDA_SUCCESS;
    sim_memory_unlock();
    return result;
}

CUresult sim_graph_memory_map(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    sim_memory_lock();
    struct node_memory *memory = find(params->dptr);
    CUresult result = memory && !memory->mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = use(memory->device, memory->size);
    if (!result) {
        struct sim_allocation fields = {
            .base = params->dptr, .size = params->bytesize, .use = SIM_USE_GRAPH, .device = memory->device};
        memory->mapped = sim_allocation_add(&fields);
        if (!memory->mapped) {
            pools[memory->device].used -= memory->size;
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_memory_unlock();
    return result;
}

void sim_graph_memory_drop(struct sim_allocation *allocation)
{
    uint64_t pointer = allocation->base;
    struct node_memory *memory = find(pointer);
    sim_allocation_remove(allocation);
    memory->mapped = false;
    pools[memory->device].used -= memory->size;
    if (memory->released)
        forget(pointer, memory);
}

CUresult sim_graph_memory_unmap(CUdeviceptr dptr)
{
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at(dptr);
    bool right = allocation && allocation->use == SIM_USE_GRAPH;
    if (right)
        sim_graph_memory_drop(allocation);
    sim_memory_unlock();
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void sim_graph_memory_release(CUdeviceptr dptr)
{
    sim_memory_lock();
    struct node_memory *memory = find(dptr);
    if (memory && memory->mapped)
        memory->released = true;
    else if (memory)
        forget(dptr, memory);
    sim_memory_unlock();
}

/* ---- entry points ---- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    uint32_t index;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_device_resolve(device, &index);
    if (result)
        return result;
    sim_memory_lock();
    struct graph_pool *pool = &pools[index];
    sim_memory_give(index, SIM_MEMORY_BUFFER, pool->reserved - pool->used);
    pool->reserved = pool->used;
    sim_memory_unlock();
    return CUDA_SUCCESS;
}

static uint64_t *counter(struct graph_pool *pool, CUgraphMem_attribute attribute)
{
    switch ((int)attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    default:
        return NULL;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    uint32_t index;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_device_resolve(device, &index);
    if (result)
        return result;
    sim_memory_lock();
    const uint64_t *asked = counter(&pools[index], attr);
    if (asked && value)
        *(cuuint64_t *)value = *asked;
    sim_memory_unlock();
    return asked && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only the watermarks can be set, only to 0, and then start from the present. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    uint32_t index;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_device_resolve(device, &index);
    if (!result && (!value || *(const cuuint64_t *)value))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct graph_pool *pool = &pools[index];
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = pool->reserved;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    return result;
}
