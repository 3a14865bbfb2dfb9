/* See packs.h. A place is found by looking through the table, next to the driver's call a trifle. */
#include "packs.h"

#include <stdatomic.h>

#include "account.h"
#include "internal.h"

#define CONTEXTS 64

/* The small arrays of a context: how many, of them larger than half a page, and the pages charged for all of them. */
struct pack {
    uint64_t arrays : 28, wide : 18, pages : 18;
};

union packed {
    struct pack pack;
    uint64_t word;
};

static struct {
    void *_Atomic context; /* NULL: free */
    _Atomic uint64_t word;
} packs[CONTEXTS + WEIR_MAX_DEVICES];

void weir_packs_forget(void)
{
    for (int place = 0; place < CONTEXTS + WEIR_MAX_DEVICES; place++) {
        atomic_store(&packs[place].context, NULL);
        atomic_store(&packs[place].word, 0);
    }
}

uint64_t weir_pack_of(void *context, int device)
{
    for (uint64_t place = 0; context && place < CONTEXTS; place++)
        if (atomic_load(&packs[place].context) == context)
            return place;
    for (uint64_t place = 0; context && place < CONTEXTS; place++) {
        void *seen = NULL;
        if (atomic_compare_exchange_strong(&packs[place].context, &seen, context) || seen == context)
            return place;
    }
    return CONTEXTS + (uint64_t)device;
}

static bool is_wide(uint64_t size)
{
    return size > WEIR_BLOCK / 2;
}

/* It did take a page if it is wide and each page has a wide one. */
bool weir_pack_add(uint64_t place, uint64_t size, bool fresh)
{
    union packed next, seen = {.word = atomic_load(&packs[place].word)};
    bool takes;
    do {
        next = seen;
        next.pack.arrays++;
        next.pack.wide += is_wide(size);
        takes = fresh || next.pack.wide > next.pack.pages;
        next.pack.pages += takes;
    } while (!atomic_compare_exchange_weak(&packs[place].word, &seen.word, next.word));
    return takes;
}

/* The others keep a page each at most, the wide ones no less, and the last takes all along. */
uint64_t weir_pack_remove(uint64_t place, uint64_t size, bool freed)
{
    union packed next, seen = {.word = atomic_load(&packs[place].word)};
    do {
        next = seen;
        next.pack.arrays--;
        next.pack.wide -= is_wide(size);
        if (next.pack.pages > next.pack.arrays)
            next.pack.pages = next.pack.arrays;
        else if (freed && next.pack.pages > next.pack.wide)
            next.pack.pages--;
    } while (!atomic_compare_exchange_weak(&packs[place].word, &seen.word, next.word));
    return seen.pack.pages - next.pack.pages;
}

void weir_pack_leave(void *context)
{
    for (int place = 0; place < CONTEXTS; place++)
        if (atomic_load(&packs[place].context) == context && !atomic_load(&packs[place].word))
            atomic_store(&packs[place].context, NULL);
}
