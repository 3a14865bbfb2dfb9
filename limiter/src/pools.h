/*
 * Memory pools: a pool holds card memory for itself, so what is charged is its reserved bytes as the driver
 * reports them, never the sum of the allocations in it. async.c has the hooks; this is the account behind them.
 */
#ifndef WEIR_POOLS_H
#define WEIR_POOLS_H

#include "hooks.h"
#include "objects.h"

struct weir_pool;

/*
 * The account of a pool, NULL: charged to nobody. intern makes one for a pool that is seen for the first time;
 * there is always room for the cards' own, and NULL for one `created` by the program when there is no more.
 */
struct weir_pool *weir_pool_find(CUmemoryPool handle);
struct weir_pool *weir_pool_intern(CUmemoryPool handle, int device, bool created);

/* Before an allocation in a stream: charges how far the pool may grow. False: refuse. May wait for the stream. */
bool weir_pool_reserve(struct weir_pool *pool, uint64_t size, CUstream stream, uint64_t *bound);
/* After it: charges what the pool really holds, gives back the rest of the bound, remembers the pointer. */
void weir_pool_settle(struct weir_pool *pool, CUresult result, uint64_t bound, const CUdeviceptr *pointer,
                      uint64_t size);
/* A pointer out of a pool has been freed. */
void weir_pool_pointer_freed(const struct weir_object *object);

/* The memory of graphs on a card, which is charged alike. NULL: charged to nobody. */
struct weir_pool *weir_pool_of_graphs(CUdevice ordinal);
/* After weir_pool_reserve and a launch that may take `size` of it: charges what the graphs really hold. */
void weir_pool_launched(struct weir_pool *pool, uint64_t size, uint64_t bound);
/* It was trimmed. */
void weir_pool_trimmed(struct weir_pool *pool);
/* Changes whenever a graph may have lost memory that it had. */
uint32_t weir_pool_moves(struct weir_pool *pool);

/* The pool may have grown or shrunk. */
void weir_pool_update(struct weir_pool *pool);
/* Around the driver's destroy: the handle may be given out anew at once. */
void weir_pool_destroying(struct weir_pool *pool);
void weir_pool_destroyed(struct weir_pool *pool, bool done);

/* Brings the ledger in line with what all pools hold. One load while nothing has been freed. */
void weir_pools_refresh(void);
/* The program has waited: for everything in the context, or for something. Then pools have shrunk. */
void weir_pools_waited(bool for_all);
/* Gives unused pool memory back to the card, then refreshes: the last resort before a refusal. */
void weir_pools_trim(void);

#endif
