/*
 * How many small allocations lie in each 2 MiB block of the address space (objects.h). A table of two stages has
 * exactly one place for every block, so two threads that meet in a block agree by construction; entries are never
 * removed. A leaf of 32 KiB covers 16 GiB of addresses and is made when the first block in it is held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "internal.h"
#include "objects.h"

#define BLOCK_BITS 21
#define LEAF_BITS 13
#define ROOT_BITS 14 /* 48 bits of address in all: as far as unified addressing goes */

typedef _Atomic uint32_t count;

static count *_Atomic leaves[1 << ROOT_BITS];

#define LEAF_SIZE (sizeof(count) << LEAF_BITS)

static count *counter(uint64_t pointer, bool grow)
{
    uint64_t block = pointer >> BLOCK_BITS;
    uint64_t root = block >> LEAF_BITS;
    if (root >> ROOT_BITS)
        return NULL;
    count *leaf = atomic_load_explicit(&leaves[root], memory_order_acquire);
    if (!leaf && grow) {
        int saved = errno;
        void *fresh = mmap(NULL, LEAF_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        errno = saved;
        if (fresh == MAP_FAILED)
            return NULL;
        if (atomic_compare_exchange_strong(&leaves[root], &leaf, fresh))
            leaf = fresh;
        else
            munmap(fresh, LEAF_SIZE);
    }
    return leaf ? &leaf[block & ((1 << LEAF_BITS) - 1)] : NULL;
}

/* A block that cannot be counted is charged in full for every allocation: too much, never too little. */
bool weir_block_hold(uint64_t pointer)
{
    count *held = counter(pointer, true);
    return !held || atomic_fetch_add(held, 1) == 0;
}

bool weir_block_drop(uint64_t pointer)
{
    count *held = counter(pointer, false);
    return !held || atomic_fetch_sub(held, 1) == 1;
}

void weir_blocks_forget(void)
{
    for (size_t root = 0; root < (size_t)1 << ROOT_BITS; root++) {
        void *leaf = atomic_load_explicit(&leaves[root], memory_order_relaxed);
        if (!leaf)
            continue; /* untouched pages of the root stay untouched */
        munmap(leaf, LEAF_SIZE);
        atomic_store(&leaves[root], NULL);
    }
}
