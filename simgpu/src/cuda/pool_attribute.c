/*
 * What a program may ask of a pool and set: its watermarks, release threshold, reuse flags, and the access
 * other cards have.
 *
 * A watermark can be reset to 0 only, and then starts from the present. What it does not do: act on the
 * reuse flags, or refuse a card without access.
 */
#include "pool.h"

static uint64_t *counter(struct sim_pool *pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static int *flag(struct sim_pool *pool, CUmemPool_attribute attribute)
{
    bool known = attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                 attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    return known ? &pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] : NULL;
}

static CUresult get(struct sim_pool *pool, CUmemPool_attribute attribute, void *value)
{
    if (flag(pool, attribute))
        *(int *)value = *flag(pool, attribute);
    else if (counter(pool, attribute))
        *(cuuint64_t *)value = *counter(pool, attribute);
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult set(struct sim_pool *pool, CUmemPool_attribute attribute, const void *value)
{
    if (flag(pool, attribute)) {
        *flag(pool, attribute) = *(const int *)value != 0;
        return CUDA_SUCCESS;
    }
    cuuint64_t wanted = *(const cuuint64_t *)value;
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = wanted;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        pool->reserved_high = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        pool->used_high = pool->used;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return wanted ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult open_pool(const char *function, CUmemoryPool handle, const void *argument, struct sim_pool **pool)
{
    CUresult result = sim_enter_unsafe(function);
    if (!result && !argument)
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? result : sim_pool_resolve(handle, pool);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct sim_pool *asked;
    CUresult result = open_pool(__func__, pool, value, &asked);
    if (result)
        return result;
    sim_memory_lock();
    result = get(asked, attr, value);
    sim_memory_unlock();
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct sim_pool *asked;
    CUresult result = open_pool(__func__, pool, value, &asked);
    if (result)
        return result;
    sim_memory_lock();
    result = set(asked, attr, value);
    sim_memory_unlock();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    struct sim_pool *asked;
    CUresult result = open_pool(__func__, pool, "", &asked);
    if (result)
        return result;
    sim_memory_lock();
    sim_pool_refresh(asked);
    sim_pool_trim(asked, minBytesToKeep);
    sim_memory_unlock();
    return CUDA_SUCCESS;
}

static CUresult card(const CUmemLocation *location)
{
    uint32_t device;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_device_resolve(location->id, &device);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    struct sim_pool *asked;
    CUresult result = open_pool(__func__, pool, map, &asked);
    for (size_t i = 0; i < count && !result; i++)
        result = card(&map[i].location);
    if (result)
        return result;
    sim_memory_lock();
    for (size_t i = 0; i < count; i++)
        asked->access[map[i].location.id] = map[i].flags;
    sim_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    struct sim_pool *asked;
    CUresult result = open_pool(__func__, memPool, flags, &asked);
    if (!result)
        result = location ? card(location) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    bool own = asked->device != SIM_NONE && sim_device_ordinal(asked->device) == location->id;
    *flags = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : asked->access[location->id];
    sim_memory_unlock();
    return CUDA_SUCCESS;
}
