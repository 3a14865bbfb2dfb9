/*
 * Stream-ordered allocation, charged by what each pool has reserved (pools.h).
 *
 * How far a pool will grow is the driver's secret until the call returns. So an upper bound is charged before
 * it, and afterwards the pool's own record is moved to the reserved bytes the driver reports, and the rest of
 * the bound is given back. The record is one word: the bytes, and a counter of changes. Whoever moves it reads
 * the driver's figure between loading the word and replacing it, so a figure that is older than somebody else's
 * change never gets in: too much may be charged until the next refresh, never too little.
 *
 * Memory of host pools, and of pools imported from other processes, is charged to nobody here.
 */
#include <errno.h>

#include "account.h"
#include "clock.h"
#include "memory.h"
#include "pool_table.h"
#include "streams.h"

#define GROWTH UINT64_C(0x2000000) /* 32 MiB: pools grow by whole multiples of it */
#define COUNTER_BITS 30
#define DRAIN_NS UINT64_C(10000000000) /* 10 s: longer than kernels are that a program means to wait for */
#define DRAIN_POLL_NS 50000

static _Atomic bool pending;        /* frees that the card may not have come to yet */

static uint64_t bytes_of(uint64_t held)
{
    return (held >> COUNTER_BITS) * WEIR_UNIT;
}

/* Moves the pool's record to `bytes`. `bound` is charged on top of the record; false: the record has changed. */
static bool record(struct weir_pool *pool, uint64_t seen, uint64_t bytes, uint64_t *bound)
{
    uint64_t held = bytes_of(seen);
    uint64_t next = bytes / WEIR_UNIT << COUNTER_BITS | ((seen + 1) & ((UINT64_C(1) << COUNTER_BITS) - 1));
    if (bytes > held + *bound) { /* charged before it shows, so the ledger is never behind the record */
        weir_charge_anyway(pool->device, WEIR_KIND_POOL, bytes - held - *bound);
        *bound = bytes - held;
    }
    if (!atomic_compare_exchange_strong(&pool->held, &seen, next))
        return false;
    weir_give_back(pool->device, WEIR_KIND_POOL, held + *bound - bytes);
    return true;
}

/*
 * Brings the record in line with the driver's figure. While `others` are between their charge and their own
 * settling, growth beyond `bound` is theirs and is charged already: it is left for them to record.
 */
static void settle(struct weir_pool *pool, uint64_t bound, uint32_t self)
{
    for (;;) {
        uint64_t seen = atomic_load(&pool->held);
        uint64_t most = bytes_of(seen) + bound;
        uint64_t reserved;
        bool told = weir_pool_reserved(pool, &reserved);
        bool others = atomic_load(&pool->under_way) > self; /* after the figure: later growth is not in it */
        if (atomic_load(&pool->held) != seen)
            continue;
        if (!told || (others && reserved > most))
            reserved = most;
        if (bound == 0 && reserved == bytes_of(seen))
            return;
        if (record(pool, seen, reserved, &bound))
            return;
    }
}

/* A destroyed pool's memory is gone with the last pointer into it; its record then falls to nothing. */
static void bury(struct weir_pool *pool)
{
    uint64_t bound = 0;
    if (atomic_exchange(&pool->buried, true))
        return;
    while (!record(pool, atomic_load(&pool->held), 0, &bound))
        ;
    atomic_store(&pool->handle, 0);
}

void weir_pool_update(struct weir_pool *pool)
{
    settle(pool, 0, 0);
}

void weir_pool_destroying(struct weir_pool *pool)
{
    settle(pool, 0, 0); /* the last time that it can be asked */
    atomic_store(&pool->destroyed, true);
    weir_pool_await_askers(pool);
}

void weir_pool_destroyed(struct weir_pool *pool, bool done)
{
    if (!done)
        atomic_store(&pool->destroyed, false);
    else if (atomic_load(&pool->pointers) == 0)
        bury(pool);
}

void weir_pool_pointer_freed(const struct weir_object *object)
{
    struct weir_pool *pool = &weir_pools[object->link];
    atomic_store(&pending, true);
    if (atomic_fetch_sub(&pool->pointers, 1) == 1 && atomic_load(&pool->destroyed))
        bury(pool);
}

static void refresh(void)
{
    for (uint32_t i = 0; i < weir_pool_count(); i++)
        if (weir_pool_ask(&weir_pools[i])) {
            settle(&weir_pools[i], 0, 0);
            weir_pool_asked(&weir_pools[i]);
        }
}

void weir_pools_refresh(void)
{
    if (atomic_load_explicit(&pending, memory_order_relaxed))
        refresh();
}

void weir_pools_waited(bool for_all)
{
    if (!atomic_load_explicit(&pending, memory_order_relaxed))
        return;
    if (for_all)
        atomic_store(&pending, false); /* before the look: a free that comes in between stays pending */
    refresh();
}

void weir_pools_trim(void)
{
    if (weir_pool_count() == 0)
        return;
    for (uint32_t i = 0; i < weir_pool_count(); i++)
        if (weir_pool_ask(&weir_pools[i])) {
            weir_pool_trim(&weir_pools[i]);
            weir_pool_asked(&weir_pools[i]);
        }
    refresh();
}

/* Waits, for so long at most, until the card has come to the frees that this stream holds. */
static bool drained(CUstream stream)
{
    uint64_t deadline = weir_coarse_now() + DRAIN_NS;
    int saved = errno;
    while (stream_busy(stream) && weir_coarse_now() < deadline)
        weir_sleep_until(weir_now() + DRAIN_POLL_NS);
    errno = saved;
    return weir_coarse_now() < deadline;
}

/*
 * Room inside the pool does not help: whether the driver will use it or grow the pool shows only when it has done
 * so. What does help is to wait for memory that was freed in stream order and to give it back to the card first.
 */
bool weir_pool_reserve(struct weir_pool *pool, uint64_t size, CUstream stream, uint64_t *bound)
{
    *bound = weir_round_up(size, GROWTH);
    atomic_fetch_add(&pool->under_way, 1);
    if (!size || weir_try_charge(pool->device, WEIR_KIND_POOL, *bound))
        return true;
    if (atomic_load(&pending) && drained(stream) && weir_try_charge(pool->device, WEIR_KIND_POOL, *bound))
        return true;
    atomic_fetch_sub(&pool->under_way, 1);
    weir_count_denied(pool->device, size);
    return false;
}

void weir_pool_settle(struct weir_pool *pool, CUresult result, uint64_t bound, const CUdeviceptr *pointer,
                      uint64_t size)
{
    settle(pool, bound, 1);
    atomic_fetch_sub(&pool->under_way, 1);
    weir_count_result(pool->device, result);
    if (result != CUDA_SUCCESS)
        return;
    struct weir_object object = {.size = size,
                                 .link = (uint64_t)(pool - weir_pools),
                                 .context = weir_current_context(),
                                 .device = (int16_t)pool->device,
                                 .kind = WEIR_KIND_POOL};
    atomic_fetch_add(&pool->pointers, 1);
    if (!weir_object_put(WEIR_TAG_POOL_POINTER, *pointer, &object)) {
        atomic_fetch_sub(&pool->pointers, 1);
        weir_count_error(pool->device);
    }
}

uint32_t weir_pool_moves(struct weir_pool *pool)
{
    return atomic_load(&pool->moves);
}

/* Where it grew by less than the graph needs, the rest may have been another's. */
void weir_pool_launched(struct weir_pool *pool, uint64_t size, uint64_t bound)
{
    uint64_t before = bytes_of(atomic_load(&pool->held));
    settle(pool, bound, 1);
    uint64_t grown = bytes_of(atomic_load(&pool->held)) - before;
    bool others = atomic_fetch_sub(&pool->under_way, 1) > 1;
    if (size && (others || grown < size || grown > bound))
        atomic_fetch_add(&pool->moves, 1);
    atomic_store(&pending, true);
}

void weir_pool_trimmed(struct weir_pool *pool)
{
    if (!pool)
        return;
    atomic_fetch_add(&pool->moves, 1);
    settle(pool, 0, 0);
}
