/*
 * Memory pools: each card's default one, those a program makes, and which of them is current.
 *
 * A pool outlives contexts. A destroyed one stays until its last allocation is freed. At a synchronisation
 * each pool gives back what is unused beyond its release threshold, 0 unless a program raises it. What it
 * does not do: pools of managed memory.
 */
#include <stdlib.h>

#include "pool.h"
#include "unsimulated.h"

struct sim_pool *sim_pools;
static struct sim_pool *default_pools[SIM_DEVICES], *current_pools[SIM_DEVICES];

struct sim_pool *sim_pool_make(uint32_t device, uint64_t most)
{
    struct sim_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->magic = SIM_POOL_MAGIC;
    pool->device = device;
    pool->most = most;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->next = sim_pools;
    sim_pools = pool;
    return pool;
}

/* With the lock held. */
static struct sim_pool *default_pool(uint32_t device)
{
    if (!default_pools[device] && (default_pools[device] = sim_pool_make(device, 0)))
        default_pools[device]->is_default = true;
    return default_pools[device];
}

CUresult sim_pool_current(uint32_t device, struct sim_pool **pool)
{
    *pool = current_pools[device] ? current_pools[device] : default_pool(device);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_pool_resolve(CUmemoryPool handle, struct sim_pool **pool)
{
    *pool = (struct sim_pool *)handle;
    if (!handle || (*pool)->magic != SIM_POOL_MAGIC || (*pool)->destroyed)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

void sim_pool_destroy_if_unused(struct sim_pool *pool)
{
    if (!pool->destroyed || pool->used)
        return;
    sim_pool_refresh(pool);
    sim_pool_trim(pool, 0);
    if (pool->chunks)
        return; /* a free is still under way; the next synchronisation comes by */
    struct sim_pool **link = &sim_pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    pool->magic = 0;
    free(pool);
}

CUmemoryPool sim_pool_of(const struct sim_allocation *allocation)
{
    if (allocation->use != SIM_USE_POOL)
        return NULL;
    return (CUmemoryPool)((struct sim_segment *)allocation->owner)->chunk->pool;
}

void sim_pools_synchronised(void)
{
    sim_memory_lock();
    for (struct sim_pool *pool = sim_pools, *next; pool; pool = next) {
        next = pool->next;
        if (pool->reserved > pool->threshold) {
            sim_pool_refresh(pool);
            sim_pool_trim(pool, pool->threshold);
        }
        sim_pool_destroy_if_unused(pool);
    }
    sim_memory_unlock();
}

bool sim_pools_release_unused(uint32_t device)
{
    bool any = false;
    for (struct sim_pool *pool = sim_pools; pool; pool = pool->next)
        if (pool->device == device) {
            sim_pool_refresh(pool);
            any |= sim_pool_trim(pool, 0);
        }
    return any;
}

/* ---- entry points ---- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    uint32_t device;
    CUresult result = sim_enter_unsafe(__func__);
    if (!result && (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        result = SIM_UNSIMULATED("cuMemPoolCreate with handles that are no file descriptors");
    if (!result)
        result = sim_place_of(&poolProps->location, &device);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_pool *made = sim_pool_make(device, poolProps->maxSize);
    if (made)
        made->shareable = poolProps->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    sim_memory_unlock();
    *pool = (CUmemoryPool)made;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct sim_pool *gone;
    CUresult result = sim_enter_unsafe(__func__);
    sim_memory_lock();
    if (!result)
        result = sim_pool_resolve(pool, &gone);
    if (!result && gone->is_default)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        if (gone->device != SIM_NONE && current_pools[gone->device] == gone)
            current_pools[gone->device] = NULL;
        gone->destroyed = true;
        sim_pool_destroy_if_unused(gone);
    }
    sim_memory_unlock();
    return result;
}

/* `chosen`: the current one, else the default one. */
static CUresult pool_of_device(const char *function, CUdevice ordinal, bool chosen, CUmemoryPool *pool)
{
    uint32_t device;
    struct sim_pool *found;
    CUresult result = sim_enter(function);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    if (result)
        return result;
    sim_memory_lock();
    if (chosen)
        sim_pool_current(device, &found);
    else
        found = default_pool(device);
    sim_memory_unlock();
    *pool = (CUmemoryPool)found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult choose(const char *function, CUdevice ordinal, CUmemoryPool handle)
{
    uint32_t device;
    struct sim_pool *pool;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    sim_memory_lock();
    if (!result)
        result = sim_pool_resolve(handle, &pool);
    if (!result && pool->device != device)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        current_pools[device] = pool;
    sim_memory_unlock();
    return result;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return pool_of_device(__func__, dev, false, pool_out);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return pool_of_device(__func__, dev, true, pool);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    return choose(__func__, dev, pool);
}

static bool on_device(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    return on_device(location, type) ? pool_of_device(__func__, location->id, false, pool_out)
                                     : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return on_device(location, type) ? pool_of_device(__func__, location->id, true, pool) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    return on_device(location, type) ? choose(__func__, location->id, pool) : CUDA_ERROR_NOT_SUPPORTED;
}
