/*
 * What the memory files of the simulated libcuda share: addresses, allocations, and the rules of copies.
 *
 * A device pointer is an address in the arena, one huge mapping of the process that costs nothing until it
 * is touched; so copies move bytes, and any address in it that belongs to no allocation is refused. The card
 * is charged in the engine's ledger. Everything here is guarded by one lock of the process, taken before the
 * machine's and never held while waiting.
 *
 * What it does not do: streams and graphs (driver.h, graph.h). Functions that wait say so.
 */
#ifndef SIMGPU_MEMORY_H
#define SIMGPU_MEMORY_H

#include <sys/types.h>

#include "driver.h"
#include "graph.h"

#define SIM_UNIT 512u                              /* what small allocations and pools are cut into */
#define SIM_GRANULARITY (UINT64_C(2) << 20)        /* of physical memory that is mapped by hand */
#define SIM_PITCH 512u                             /* rows of a pitched allocation begin at multiples of it */

static inline uint64_t sim_round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

void sim_memory_lock(void);
void sim_memory_unlock(void);

/* ---- sorted address ranges (ranges.c) ---- */

struct sim_range {
    uint64_t base, size;
    void *object;
};

struct sim_ranges {
    struct sim_range *at;
    size_t count, capacity;
};

bool sim_ranges_insert(struct sim_ranges *ranges, uint64_t base, uint64_t size, void *object);
void sim_ranges_remove(struct sim_ranges *ranges, uint64_t base);
struct sim_range *sim_ranges_find(const struct sim_ranges *ranges, uint64_t address); /* that contains it */
/* First place in [from, to) where `size` bytes are free; 0 when there is none. */
uint64_t sim_ranges_gap(const struct sim_ranges *ranges, uint64_t from, uint64_t to, uint64_t size,
                        uint64_t align);

/* ---- addresses (arena.c) ---- */

uint64_t sim_arena_take(uint64_t size, uint64_t align, bool low); /* zeroed memory; 0: no room; low: below 4 GiB */
bool sim_arena_take_at(uint64_t address, uint64_t size);          /* exactly there, if it is free */
void sim_arena_give(uint64_t base);                               /* contents are dropped */
bool sim_arena_contains(uint64_t address);
int sim_arena_file(uint64_t size); /* of zeros, for sim_arena_map; -1: none could be made */
/* The one that a process has by this number, opened here; -1: it has closed it, or is gone. */
int sim_arena_file_of(pid_t process, int number, uint64_t inode, uint64_t size);
bool sim_arena_map(uint64_t address, uint64_t size, int fd, uint64_t offset); /* a file's bytes there */
void sim_arena_clear(uint64_t address, uint64_t size);            /* private zeros again */

/* ---- card memory in the driver's granularity (extent.c) ---- */

struct sim_block;
struct sim_image;

struct sim_extent { /* memory of a card: whole blocks of its own, or part of a shared one */
    uint64_t base;
    uint64_t size;           /* as asked */
    uint64_t charged;        /* whole blocks; 0: packed, or in what the context was charged for */
    struct sim_block *block; /* packed: where it lies */
    struct sim_context *context;
    enum sim_memory_kind kind;
    int shared_fd;           /* the file its bytes were moved to; -1: none, or the block's */
};

enum sim_shelf { /* what may lie in one block */
    SIM_ANYWHERE,
    SIM_LOW,   /* below 4 GiB */
    SIM_TEXELS /* and on: of arrays, by the log2 of a texel's bytes */
};

CUresult sim_extent_take(struct sim_context *context, enum sim_memory_kind kind, uint64_t size,
                         enum sim_shelf shelf, struct sim_extent *extent);
/* For an image's variables, which may lie in what the context was charged for: then `charged` is 0. */
CUresult sim_extent_take_storage(struct sim_context *context, uint64_t size, uint64_t charged,
                                 struct sim_extent *extent);
void sim_extent_give(struct sim_extent *extent);
/* Put its bytes into a file, so that another process can map them: which, where they begin there, its size. */
CUresult sim_extent_share(struct sim_extent *extent, int *fd, uint64_t *offset, uint64_t *size);
/* Charge a card; before it says OUT_OF_MEMORY, what pools hold unused goes back to it. */
CUresult sim_card_take(uint32_t device, enum sim_memory_kind kind, uint64_t bytes);

/* ---- allocations (allocation.c) ---- */

enum sim_use {
    SIM_USE_DEVICE,     /* cuMemAlloc and relatives */
    SIM_USE_MANAGED,
    SIM_USE_ARRAY,      /* an array's storage: no program knows its address */
    SIM_USE_GLOBAL,     /* of the variables of a module or library */
    SIM_USE_POOL,       /* from a pool */
    SIM_USE_GRAPH,      /* of an allocation node, while it is mapped */
    SIM_USE_MAPPING,    /* physical memory mapped at a reserved address */
    SIM_USE_IMPORT,     /* another process's */
    SIM_USE_POOL_IMPORT, /* … out of a pool */
    SIM_USE_HOST,       /* page-locked, allocated by the driver */
    SIM_USE_REGISTERED, /* page-locked, the program's own */
};

struct sim_pool;

struct sim_hints { /* of managed memory; a hint for a part of it counts as none for the whole */
    CUmemLocation preferred, prefetched; /* CU_MEM_LOCATION_TYPE_INVALID: none */
    bool read_mostly;
    uint32_t accessed_by; /* mask of ordinals */
};

struct sim_allocation {
    uint64_t base, size;
    enum sim_use use;
    struct sim_context *context; /* whose end frees it; NULL: nobody's */
    uint32_t device;             /* SIM_NONE: host */
    uint64_t id;                 /* never used twice in a process */
    unsigned flags;              /* as given when it was made */
    bool denied;                 /* a mapping that no card has access to */
    bool sync_memops;
    struct sim_extent extent;    /* DEVICE, MANAGED, ARRAY */
    struct sim_hints hints;      /* MANAGED */
    void *owner;                 /* the pool's segment, the physical handle, the array, the import */
};

/* With the lock held. `fields` is copied; the ID is new. NULL: the host is out of memory. */
struct sim_allocation *sim_allocation_add(const struct sim_allocation *fields);
void sim_allocation_remove(struct sim_allocation *allocation); /* only the record */
struct sim_allocation *sim_allocation_find(uint64_t address);
struct sim_allocation *sim_allocation_at(uint64_t base); /* only if it begins there */
bool sim_allocation_none_in(uint64_t base, uint64_t size); /* [base, base + size) touches no allocation */

/* Take memory of a context's card and record it: what cuMemAlloc does. */
CUresult sim_buffer_create(struct sim_context *context, enum sim_use use, enum sim_memory_kind kind,
                           uint64_t size, enum sim_shelf shelf, struct sim_allocation **made);
/* … of the variables of an image, as it was planned. */
CUresult sim_storage_create(struct sim_context *context, struct sim_image *image, struct sim_allocation **made);
void sim_buffer_destroy(struct sim_allocation *allocation); /* either's */

void sim_host_destroy(struct sim_allocation *allocation); /* page-locked memory (host_memory.c) */

/* With the lock held: the managed allocation that holds all of the range; NULL: none. (managed.c) */
struct sim_allocation *sim_managed_find(CUdeviceptr pointer, size_t count);

/* ---- places (place.c): where memory may lie, and what a copy or an attribute may touch ---- */

CUresult sim_place_of(const CUmemLocation *location, uint32_t *device); /* device: SIM_NONE for the host */
/* Lock not held. Is [address, address + bytes) memory that the card may touch? device: SIM_NONE for host memory. */
CUresult sim_place_check(uint64_t address, uint64_t bytes, uint32_t *device);

/* ---- pools (pool.c, pool_segment.c) ---- */

/* With the lock held: give back all that is unused on a card. True if it was anything. */
bool sim_pools_release_unused(uint32_t device);
void sim_pool_free(struct sim_allocation *allocation, struct sim_ticket ticket);
void sim_pool_unimport(struct sim_allocation *allocation); /* pool_share.c */
CUmemoryPool sim_pool_of(const struct sim_allocation *allocation);

/* ---- graph memory (graph_memory.c): see graph.h ---- */

void sim_graph_memory_drop(struct sim_allocation *allocation); /* with the lock held: unmap it */

/* ---- arrays (array.c, array_layout.c, mipmap.c) ---- */

struct sim_array {
    uint32_t magic;
    uint32_t device;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    uint64_t base;
    uint64_t row;          /* bytes of the texels of one */
    uint64_t pitch, slice; /* bytes from row to row, from layer or plane to the next */
    uint64_t layers;       /* planes: depth, or layers */
    uint64_t stack;        /* bytes of a stack of GOBs */
    uint64_t size;         /* of all, padded */
    struct sim_array *whole;           /* itself, or the mipmapped array it is a level of */
    struct sim_allocation *allocation; /* the whole's storage; NULL once its context has ended */
};

enum { SIM_ARRAY_MAGIC = 0x41525231, SIM_MIPMAP_MAGIC, SIM_POOL_MAGIC, SIM_HANDLE_MAGIC };

CUresult sim_array_resolve(CUarray handle, struct sim_array **array);
bool sim_array_solid(const CUDA_ARRAY3D_DESCRIPTOR *descriptor); /* of three dimensions, not layered */
CUresult sim_array_describe(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, struct sim_array *array); /* fills in sizes */
void sim_array_lay_out(struct sim_array *array); /* pitch, slice, stack and size, of row and extents */
/* Where each level begins, how far its layers are apart, and the size of the whole. */
void sim_array_lay_out_levels(struct sim_array *whole, struct sim_array *levels, unsigned count);
/* Take from the card what `whole` needs, an array or a mipmapped one; give it back and free it. */
CUresult sim_array_store(struct sim_context *context, struct sim_array *whole);
CUresult sim_array_unstore(struct sim_array *whole);

/* ---- copies (copy.c, copy_call.c) ---- */

/* Could it be made, and is one side host memory? */
CUresult sim_memory_copy_reach(const CUDA_MEMCPY3D *params, bool *touches_host);

struct sim_copy_call { /* how a copy or memset was called */
    const char *function;
    CUstream stream;
    bool per_thread;  /* what a NULL stream means */
    bool synchronous; /* not one of the …Async entry points */
};

CUresult sim_copy(const struct sim_copy_call *call, const CUDA_MEMCPY3D *params);
CUresult sim_set(const struct sim_copy_call *call, const CUDA_MEMSET_NODE_PARAMS *params);

/*
 * Defines an entry point in both its stream variants: the parameters, the expression of the box or memset
 * they describe, and which of the two functions above does it.
 */
#define SIM_COPY_SYNC(name, act, parameters, described)                                                        \
    CUresult name parameters {                                                                      \
        return act(&(struct sim_copy_call){__func__, NULL, false, true}, described);                           \
    }                                                                                                          \
    CUresult name##_ptds parameters {                                                               \
        return act(&(struct sim_copy_call){__func__, NULL, true, true}, described);                            \
    }

#define SIM_UNPACK(...) __VA_ARGS__
#define SIM_COPY_ASYNC(name, act, parameters, described)                                                       \
    CUresult name(SIM_UNPACK parameters, CUstream hStream) {                                        \
        return act(&(struct sim_copy_call){__func__, hStream, false, false}, described);                       \
    }                                                                                                          \
    CUresult name##_ptsz(SIM_UNPACK parameters, CUstream hStream) {                                 \
        return act(&(struct sim_copy_call){__func__, hStream, true, false}, described);                        \
    }

#endif
