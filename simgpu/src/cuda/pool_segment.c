/*
 * Memory of pools: cutting it up, joining it, and taking it from and giving it back to the card.
 *
 * A pool grows by whole multiples of model.pool_step_bytes. A chunk can go back when nothing in it is used or
 * pending. What it does not do: make a stream wait for another's free to use its memory again; it grows, and
 * only when it cannot, the caller waits.
 */
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"

static void raise_to(uint64_t *high, uint64_t value)
{
    if (*high < value)
        *high = value;
}

/* ---- chunks ---- */

static uint64_t growth(const struct sim_pool *pool, uint64_t size)
{
    uint64_t step = sim_round_up(size, sim_hardware->pool_step_bytes);
    if (pool->most && pool->reserved + step > pool->most)
        return sim_round_up(size, SIM_GRANULARITY);
    return step;
}

static void uncharge(const struct sim_pool *pool, uint64_t size)
{
    if (pool->device != SIM_NONE)
        sim_memory_give(pool->device, SIM_MEMORY_BUFFER, size);
}

static CUresult grow(struct sim_pool *pool, uint64_t size, struct sim_segment **whole)
{
    size = growth(pool, size);
    if (pool->most && pool->reserved + size > pool->most)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pool->device != SIM_NONE && sim_card_take(pool->device, SIM_MEMORY_BUFFER, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_chunk *chunk = calloc(1, sizeof *chunk);
    struct sim_segment *segment = calloc(1, sizeof *segment);
    uint64_t base = chunk && segment ? sim_arena_take(size, SIM_GRANULARITY, false) : 0;
    if (!base) {
        free(chunk);
        free(segment);
        uncharge(pool, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *segment = (struct sim_segment){.base = base, .size = size, .chunk = chunk};
    int fd = sim_pool_chunk_file(pool, base, size);
    *chunk = (struct sim_chunk){base, size, fd, pool, segment, pool->chunks};
    pool->chunks = chunk;
    pool->reserved += size;
    raise_to(&pool->reserved_high, pool->reserved);
    *whole = segment;
    return CUDA_SUCCESS;
}

static bool unused(const struct sim_chunk *chunk)
{
    return !chunk->segments->next && !chunk->segments->used && !chunk->segments->pending;
}

static void shrink(struct sim_chunk **link)
{
    struct sim_chunk *chunk = *link;
    *link = chunk->next;
    chunk->pool->reserved -= chunk->size;
    sim_arena_give(chunk->base);
    if (chunk->fd >= 0)
        close(chunk->fd);
    uncharge(chunk->pool, chunk->size);
    free(chunk->segments);
    free(chunk);
}

bool sim_pool_trim(struct sim_pool *pool, uint64_t least)
{
    bool any = false;
    for (struct sim_chunk **link = &pool->chunks; *link;) {
        if (unused(*link) && pool->reserved - (*link)->size >= least) {
            shrink(link);
            any = true;
        } else {
            link = &(*link)->next;
        }
    }
    return any;
}

/* ---- segments ---- */

static bool can_join(const struct sim_segment *one, const struct sim_segment *next)
{
    return next && !one->used && !next->used && !one->pending && !next->pending;
}

static void join_chunk(struct sim_chunk *chunk)
{
    for (struct sim_segment *segment = chunk->segments; segment;) {
        struct sim_segment *next = segment->next;
        if (!can_join(segment, next)) {
            segment = next;
            continue;
        }
        segment->size += next->size;
        segment->next = next->next;
        free(next);
    }
}

void sim_pool_refresh(struct sim_pool *pool)
{
    sim_lock();
    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_segment *segment = chunk->segments; segment; segment = segment->next)
            segment->pending = segment->pending && !sim_ticket_done(segment->freed);
    sim_unlock();
    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        join_chunk(chunk);
}

static struct sim_segment *first_fit(const struct sim_pool *pool, uint64_t size, uint32_t channel)
{
    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_segment *segment = chunk->segments; segment; segment = segment->next)
            if (!segment->used && segment->size >= size && (!segment->pending || segment->freed.channel == channel))
                return segment;
    return NULL;
}

bool sim_pool_pending(const struct sim_pool *pool, struct sim_ticket *ticket)
{
    for (struct sim_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct sim_segment *segment = chunk->segments; segment; segment = segment->next)
            if (!segment->used && segment->pending) {
                *ticket = segment->freed;
                return true;
            }
    return false;
}

/* Cut off what is not needed; the rest inherits what the segment waits for. */
static CUresult cut(struct sim_segment *segment, uint64_t size)
{
    if (segment->size == size)
        return CUDA_SUCCESS;
    struct sim_segment *rest = malloc(sizeof *rest);
    if (!rest)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *rest = *segment;
    rest->base += size;
    rest->size -= size;
    segment->size = size;
    segment->next = rest;
    return CUDA_SUCCESS;
}

CUresult sim_pool_take(struct sim_pool *pool, uint64_t size, uint32_t channel, struct sim_segment **taken)
{
    CUresult result = CUDA_SUCCESS;
    if (pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > sim_hardware->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size = sim_round_up(size, SIM_UNIT);
    sim_pool_refresh(pool);
    struct sim_segment *segment = first_fit(pool, size, channel);
    if (!segment)
        result = grow(pool, size, &segment);
    if (!result)
        result = cut(segment, size);
    if (result)
        return result;
    segment->used = true;
    segment->pending = false;
    pool->used += size;
    raise_to(&pool->used_high, pool->used);
    *taken = segment;
    return CUDA_SUCCESS;
}

void sim_pool_free(struct sim_allocation *allocation, struct sim_ticket ticket)
{
    struct sim_segment *segment = allocation->owner;
    struct sim_pool *pool = segment->chunk->pool;
    segment->used = false;
    segment->pending = ticket.channel != SIM_NONE;
    segment->freed = ticket;
    pool->used -= segment->size;
    sim_allocation_remove(allocation);
    sim_pool_destroy_if_unused(pool);
}
