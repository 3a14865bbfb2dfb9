/*
 * Which pools there are, and what the driver is asked about one. The graphs' memory of a card is one of them: it has
 * no handle of the driver, so it has an odd one here, which no pool has. A pool of a card outside the slice has a
 * record too, so that every allocation from it is refused.
 */
#include "pool_table.h"

#include <errno.h>
#include <pthread.h>

#include "clock.h"
#include "internal.h"

#define PATIENCE WEIR_S /* for those who ask: their calls take microseconds */
#define SPARE 64 /* records kept for the cards' own pools, which nobody creates */

struct weir_pool weir_pools[WEIR_POOLS];
static _Atomic uint32_t used; /* high-water mark */
static pthread_mutex_t interning = PTHREAD_MUTEX_INITIALIZER;

void weir_pools_forget(void)
{
    for (uint32_t i = 0; i < atomic_load(&used); i++)
        weir_pools[i] = (struct weir_pool){0};
    atomic_store(&used, 0);
    pthread_mutex_init(&interning, NULL); /* another thread of the parent may have held it */
}

struct weir_pool *weir_pool_find(CUmemoryPool handle)
{
    uint32_t count = atomic_load_explicit(&used, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_load_explicit(&weir_pools[i].handle, memory_order_acquire) == (uintptr_t)handle &&
            !atomic_load_explicit(&weir_pools[i].destroyed, memory_order_relaxed))
            return &weir_pools[i];
    return NULL;
}

/* Only the first sight of a pool takes this lock. */
struct weir_pool *weir_pool_intern(CUmemoryPool handle, int device, bool created)
{
    struct weir_pool *pool = weir_pool_find(handle);
    uint32_t room = created ? WEIR_POOLS - SPARE : WEIR_POOLS;
    if (pool || device == WEIR_NO_DEVICE || !handle)
        return pool;
    pthread_mutex_lock(&interning);
    pool = weir_pool_find(handle);
    for (uint32_t i = 0; !pool && i < room; i++) {
        if (atomic_load(&weir_pools[i].handle))
            continue;
        pool = &weir_pools[i];
        pool->device = device;
        atomic_store(&pool->held, 0);
        atomic_store(&pool->pointers, 0);
        atomic_store(&pool->under_way, 0);
        atomic_store(&pool->moves, 0);
        atomic_store(&pool->destroyed, false);
        atomic_store(&pool->buried, false);
        atomic_store(&pool->handle, (uintptr_t)handle);
        if (i >= atomic_load(&used))
            atomic_store(&used, i + 1);
    }
    pthread_mutex_unlock(&interning);
    return pool;
}

static CUmemoryPool handle_of(const struct weir_pool *pool)
{
    return (CUmemoryPool)(uintptr_t)atomic_load(&pool->handle);
}

struct weir_pool *weir_pool_of_graphs(CUdevice ordinal)
{
    return weir_pool_intern((CUmemoryPool)(2 * (uintptr_t)ordinal + 1), weir_device_of(ordinal), false);
}

static bool is_of_graphs(const struct weir_pool *pool, CUdevice *ordinal)
{
    uintptr_t handle = atomic_load(&pool->handle);
    *ordinal = (CUdevice)(handle / 2);
    return handle & 1;
}

bool weir_pool_reserved(const struct weir_pool *pool, uint64_t *value)
{
    CUdevice ordinal;
    cuuint64_t bytes = 0;
    CUresult result =
        is_of_graphs(pool, &ordinal)
            ? WEIR_ASK(cuDeviceGetGraphMemAttribute, ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes)
            : WEIR_ASK(cuMemPoolGetAttribute, handle_of(pool), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    *value = bytes;
    return result == CUDA_SUCCESS;
}

void weir_pool_trim(struct weir_pool *pool)
{
    CUdevice ordinal;
    if (!is_of_graphs(pool, &ordinal))
        WEIR_ASK(cuMemPoolTrimTo, handle_of(pool), 0);
    else if (WEIR_ASK(cuDeviceGraphMemTrim, ordinal) == CUDA_SUCCESS)
        atomic_fetch_add(&pool->moves, 1);
}

uint32_t weir_pool_count(void)
{
    return atomic_load_explicit(&used, memory_order_acquire);
}

bool weir_pool_ask(struct weir_pool *pool)
{
    atomic_fetch_add(&pool->askers, 1);
    if (atomic_load(&pool->handle) && !atomic_load(&pool->destroyed))
        return true;
    weir_pool_asked(pool);
    return false;
}

void weir_pool_asked(struct weir_pool *pool)
{
    atomic_fetch_sub(&pool->askers, 1);
}

void weir_pool_await_askers(struct weir_pool *pool)
{
    int saved = errno;
    uint64_t now = weir_now(), patience = now + PATIENCE;
    for (; atomic_load(&pool->askers) && now < patience; now = weir_now())
        weir_sleep_until(now + 50 * WEIR_US);
    errno = saved;
}
