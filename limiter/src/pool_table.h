/*
 * The records behind pools.h: only pools.c, which charges, and pool_table.c know them.
 */
#ifndef WEIR_POOL_TABLE_H
#define WEIR_POOL_TABLE_H

#include "pools.h"

#define WEIR_POOLS 1024 /* of one process at once */

struct weir_pool {
    _Atomic uint64_t handle; /* 0: free */
    _Atomic uint64_t held;   /* units of 512 bytes, then the counter of changes */
    _Atomic uint32_t pointers;
    _Atomic uint32_t under_way; /* allocations between their charge and their settling */
    _Atomic uint32_t moves; /* of graphs' memory from one to another */
    _Atomic uint32_t askers; /* threads that ask the driver about it unbidden */
    _Atomic bool destroyed; /* until the record is another's: nothing is asked about it meanwhile */
    _Atomic bool buried;
    int device;
};

extern struct weir_pool weir_pools[WEIR_POOLS];

/* Records in use lie below; some of them are free. */
uint32_t weir_pool_count(void);
/*
 * Around what is asked of the driver about a pool that the calling thread was not told of: false if there is none, or
 * it is being destroyed. Whoever destroys it waits for those who ask.
 */
bool weir_pool_ask(struct weir_pool *pool);
void weir_pool_asked(struct weir_pool *pool);
void weir_pool_await_askers(struct weir_pool *pool);
/* What it has reserved, as the driver says; false: it does not. */
bool weir_pool_reserved(const struct weir_pool *pool, uint64_t *value);
/* Gives its unused memory back to the card. */
void weir_pool_trim(struct weir_pool *pool);

#endif
