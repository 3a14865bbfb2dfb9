/*
 * What the pool files share: a pool is a list of chunks of card memory, a chunk a chain of segments.
 *
 * The segments of a chunk lie side by side and cover it. A freed one stays pending until its stream has
 * reached the free; until then only work of the same stream may take it again. Guarded by the memory lock.
 */
#ifndef SIMGPU_POOL_H
#define SIMGPU_POOL_H

#include "memory.h"

struct sim_segment {
    uint64_t base, size;
    bool used;
    bool pending;             /* free, but not yet for every stream … */
    struct sim_ticket freed;  /* … until this is done */
    struct sim_chunk *chunk;
    struct sim_segment *next; /* that begins where this one ends */
};

struct sim_chunk {
    uint64_t base, size;
    int fd; /* of a shareable pool: where its bytes are; -1 */
    struct sim_pool *pool;
    struct sim_segment *segments;
    struct sim_chunk *next;
};

struct sim_pool {
    uint32_t magic;
    uint32_t device; /* SIM_NONE: host memory, which charges no card */
    bool is_default; /* nobody destroys it */
    bool destroyed;  /* goes with its last allocation */
    bool shareable;  /* between processes */
    bool imported;   /* from one: nothing is allocated from it */
    uint64_t most;   /* bytes it may reserve; 0: no limit of its own */
    int reuse[3];    /* the CU_MEMPOOL_ATTR_REUSE_… flags, kept and not acted upon */
    uint64_t threshold;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    CUmemAccess_flags access[SIM_DEVICES]; /* of other cards, by ordinal */
    struct sim_chunk *chunks;
    struct sim_pool *next;
};

extern struct sim_pool *sim_pools; /* all of them */

/* With the lock held. `channel`: whose pending segments may be taken too. */
CUresult sim_pool_take(struct sim_pool *pool, uint64_t size, uint32_t channel, struct sim_segment **taken);
/* A free that is still to be reached, which may make room; its ticket. */
bool sim_pool_pending(const struct sim_pool *pool, struct sim_ticket *ticket);
void sim_pool_refresh(struct sim_pool *pool); /* note which frees were reached, join what is free */
/* Give unused chunks back, as long as the pool keeps `least` bytes. True if there were any. */
bool sim_pool_trim(struct sim_pool *pool, uint64_t least);
void sim_pool_destroy_if_unused(struct sim_pool *pool);

/* With the lock held; NULL: the host is out of memory. `most` as above. */
struct sim_pool *sim_pool_make(uint32_t device, uint64_t most);
/* The file of a shareable pool's new chunk, mapped there; -1: it has none. */
int sim_pool_chunk_file(const struct sim_pool *pool, uint64_t base, uint64_t size);

CUresult sim_pool_resolve(CUmemoryPool handle, struct sim_pool **pool);
/* The pool that cuMemAllocAsync takes from on a card. */
CUresult sim_pool_current(uint32_t device, struct sim_pool **pool);

#endif
