/*
 * What this process holds on the devices: a lock-free map from a pointer or handle to what was charged for it.
 *
 * Names are unique by the driver's own rule (it cannot give out a pointer that is in use), provided an entry is
 * taken out *before* the driver's free and put in *after* its allocation. Entries never move; the map grows by
 * whole levels and never shrinks. It is private to the process and forgotten in a fork child.
 */
#ifndef WEIR_OBJECTS_H
#define WEIR_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum weir_tag {            /* what a name is; part of the key */
    WEIR_TAG_POINTER = 1,  /* of cuMemAlloc and its kin */
    WEIR_TAG_POOL_POINTER, /* stream-ordered; link: the pool */
    WEIR_TAG_HANDLE,       /* cuMemCreate's; link: the physical memory's number */
    WEIR_TAG_PHYSICAL,     /* by number: memory that handles and mappings share, this process's or a sibling's */
    WEIR_TAG_MAPPING,      /* by address; link: the physical memory's number */
    WEIR_TAG_CONTEXT,      /* created by the program; refs: its users (contexts.c) */
    WEIR_TAG_ARRAY,        /* or mipmapped array; link: a small one's place (packs.h) */
    WEIR_TAG_MODULE,
    WEIR_TAG_LIBRARY,      /* of no context */
    WEIR_TAG_GREEN,        /* a green context; link: its ordinal */
    WEIR_TAG_PART,         /* the CUcontext of one; context: the primary one */
    WEIR_TAG_LIMIT,        /* by context and limit; size: of its first value */
    WEIR_TAG_SHARE,        /* of a physical memory's number: that it was shown to others (physical.c) */
    WEIR_TAG_IMPORT,       /* a buffer opened by its handle; link: the lock of a guest (ipc.c) */
    WEIR_TAG_EXTERNAL,     /* another API's memory */
    WEIR_TAG_TILE,         /* of an array, `context`; link: the number of what is mapped there (tiles.c) */
    WEIR_TAG_GRAPH         /* an executable graph; size: of its nodes, link: their cards, refs: see graphs.c */
};

struct weir_object {
    union {
        uint64_t size;         /* bytes as asked for, or the length of a mapping */
        uint64_t lent;         /* SHARE: bytes */
        uint64_t label_length; /* PHYSICAL of a sibling, … */
    };
    union {
        uint64_t charged; /* bytes the ledger holds for it */
        int64_t probe;    /* SHARE: a descriptor that sees its label; -1: none can be had */
    };
    union {
        uint64_t link;
        uint64_t probed_file; /* SHARE: on which its label is */
        uint64_t label_start; /* … the label that it came with */
        uint64_t pointer;     /* PHYSICAL of a buffer */
    };
    union {
        void *context; /* in which it was made: goes when that goes */
        void *lock;    /* SHARE: by which its handle is found; PHYSICAL of a sibling: of its guest; or NULL */
    };
    union {
        _Atomic uint32_t refs;
        _Atomic uint32_t number; /* POINTER: under which it is shared, or 0 */
    };
    int16_t device; /* the slice's index, or negative: charged to nobody */
    union {
        uint16_t kind;     /* enum weir_kind */
        uint16_t is_bytes; /* SHARE: its handle is no descriptor, so it keeps nothing */
    };
};

/* False: no memory to remember it. */
bool weir_object_put(enum weir_tag tag, uint64_t name, const struct weir_object *object);
/* Removes it and gives its value; of several who try, one succeeds. */
bool weir_object_take(enum weir_tag tag, uint64_t name, struct weir_object *object);
/* The live entry, for its refs and constant fields; NULL: unknown. */
struct weir_object *weir_object_find(enum weir_tag tag, uint64_t name);
/*
 * Every pointer, array, module and limit made in a context: sets them apart, so that no name finds them and nothing
 * of a later context with the same handle is taken for them; puts them back; or takes them out and passes them on.
 */
typedef void weir_gone(enum weir_tag tag, uint64_t name, const struct weir_object *object);
void weir_objects_condemn(void *context);
void weir_objects_spare(void *context);
void weir_objects_of_context(void *context, weir_gone *gone);

/*
 * The driver packs small allocations into blocks of 2 MiB. One counter for each block of the address space.
 * hold: true if the block was not held before. drop: true if it is not held any more.
 */
bool weir_block_hold(uint64_t pointer);
bool weir_block_drop(uint64_t pointer);

#endif
