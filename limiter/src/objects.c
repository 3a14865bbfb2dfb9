/*
 * The map of objects.h. A key hashes to one bucket of eight entries in each level; an entry is free (key 0),
 * busy (being written or taken), or live. To find a key, the one bucket of every level is looked through, so a
 * removed entry needs no tombstone. A level that has no room is followed by one of twice the size.
 */
#define _GNU_SOURCE
#include "objects.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "hash.h"
#include "internal.h"

#define BUCKET 8
#define FIRST_BITS 9 /* buckets of the first level: 512 */
#define LEVELS 16    /* 512 · 2^15 buckets in the last: 268 million entries in all */
#define FREE 0
#define TAG_BITS 5
#define CONDEMNED (UINT64_C(1) << 63) /* beyond any name; no key that is looked for has it */
#define BUSY (UINT64_C(1) << TAG_BITS) /* tag 0, so no key */

struct entry {
    _Atomic uint64_t key;
    struct weir_object object;
};

static struct entry first[BUCKET << FIRST_BITS];
static struct entry *_Atomic levels[LEVELS] = {first};

static uint64_t key_of(enum weir_tag tag, uint64_t name)
{
    return name << TAG_BITS | tag; /* pointers have at most 57 bits, and handles are pointers or small numbers */
}

static enum weir_tag tag_of(uint64_t key)
{
    return (enum weir_tag)(key & ((1 << TAG_BITS) - 1));
}

static size_t level_size(int level)
{
    return ((size_t)BUCKET << (FIRST_BITS + level)) * sizeof(struct entry);
}

static struct entry *bucket_of(struct entry *entries, int level, uint64_t key)
{
    return entries + BUCKET * (weir_hash(key) >> (64 - FIRST_BITS - level));
}

/* The level's entries; made if `grow`. Whoever loses the race to make it takes the winner's. */
static struct entry *level_at(int level, bool grow)
{
    struct entry *entries = atomic_load_explicit(&levels[level], memory_order_acquire);
    if (entries || !grow)
        return entries;
    int saved = errno;
    void *fresh = mmap(NULL, level_size(level), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (fresh == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&levels[level], &entries, fresh))
        return fresh;
    munmap(fresh, level_size(level));
    return entries;
}

static struct entry *claim_entry(uint64_t key)
{
    struct entry *entries;
    for (int level = 0; level < LEVELS && (entries = level_at(level, true)); level++) {
        struct entry *bucket = bucket_of(entries, level, key);
        for (int i = 0; i < BUCKET; i++) {
            uint64_t seen = FREE;
            if (atomic_load_explicit(&bucket[i].key, memory_order_relaxed) == FREE &&
                atomic_compare_exchange_strong(&bucket[i].key, &seen, BUSY))
                return &bucket[i];
        }
    }
    return NULL;
}

static struct entry *find_entry(uint64_t key)
{
    struct entry *entries;
    for (int level = 0; level < LEVELS && (entries = level_at(level, false)); level++) {
        struct entry *bucket = bucket_of(entries, level, key);
        for (int i = 0; i < BUCKET; i++)
            if (atomic_load_explicit(&bucket[i].key, memory_order_acquire) == key)
                return &bucket[i];
    }
    return NULL;
}

static void copy(struct weir_object *to, const struct weir_object *from)
{
    to->size = from->size;
    to->charged = from->charged;
    to->link = from->link;
    to->context = from->context;
    to->device = from->device;
    to->kind = from->kind;
    atomic_store_explicit(&to->refs, atomic_load_explicit(&from->refs, memory_order_relaxed),
                          memory_order_relaxed);
}

static bool take_entry(struct entry *entry, uint64_t key, struct weir_object *object)
{
    if (!atomic_compare_exchange_strong(&entry->key, &key, BUSY))
        return false;
    copy(object, &entry->object);
    atomic_store_explicit(&entry->key, FREE, memory_order_release);
    return true;
}

bool weir_object_put(enum weir_tag tag, uint64_t name, const struct weir_object *object)
{
    uint64_t key = key_of(tag, name);
    struct entry *entry = claim_entry(key);
    if (!entry)
        return false;
    copy(&entry->object, object);
    atomic_store_explicit(&entry->key, key, memory_order_release);
    return true;
}

bool weir_object_take(enum weir_tag tag, uint64_t name, struct weir_object *object)
{
    uint64_t key = key_of(tag, name);
    struct entry *entry = find_entry(key);
    return entry && take_entry(entry, key, object);
}

struct weir_object *weir_object_find(enum weir_tag tag, uint64_t name)
{
    struct entry *entry = find_entry(key_of(tag, name));
    return entry ? &entry->object : NULL;
}

static bool ends_with_context(uint64_t key)
{
    enum weir_tag tag = tag_of(key);
    return tag == WEIR_TAG_POINTER || tag == WEIR_TAG_POOL_POINTER || tag == WEIR_TAG_ARRAY ||
           tag == WEIR_TAG_MODULE || tag == WEIR_TAG_LIMIT || tag == WEIR_TAG_IMPORT ||
           tag == WEIR_TAG_TILE;
}

/* Calls for every entry of the context that is condemned, or is not. */
static void visit(void *context, uint64_t condemned, void (*act)(struct entry *, uint64_t, void *), void *argument)
{
    struct entry *entries;
    for (int level = 0; level < LEVELS && (entries = level_at(level, false)); level++) {
        size_t count = (size_t)BUCKET << (FIRST_BITS + level);
        for (size_t i = 0; i < count; i++) {
            uint64_t key = atomic_load_explicit(&entries[i].key, memory_order_acquire);
            if ((key & CONDEMNED) == condemned && ends_with_context(key) && entries[i].object.context == context)
                act(&entries[i], key, argument);
        }
    }
}

static void rename_entry(struct entry *entry, uint64_t key, void *unused)
{
    (void)unused;
    atomic_compare_exchange_strong(&entry->key, &key, key ^ CONDEMNED);
}

void weir_objects_condemn(void *context)
{
    visit(context, 0, rename_entry, NULL);
}

void weir_objects_spare(void *context)
{
    visit(context, CONDEMNED, rename_entry, NULL);
}

static void end_entry(struct entry *entry, uint64_t key, void *argument)
{
    weir_gone *gone = *(weir_gone **)argument;
    struct weir_object object;
    if (take_entry(entry, key, &object))
        gone(tag_of(key), (key & ~CONDEMNED) >> TAG_BITS, &object);
}

void weir_objects_of_context(void *context, weir_gone *gone)
{
    visit(context, CONDEMNED, end_entry, &gone);
}

void weir_objects_forget(void)
{
    for (size_t i = 0; i < (size_t)BUCKET << FIRST_BITS; i++)
        if (atomic_load_explicit(&first[i].key, memory_order_relaxed) != FREE)
            atomic_store(&first[i].key, FREE);
    for (int level = 1; level < LEVELS; level++) {
        void *entries = atomic_exchange(&levels[level], NULL);
        if (entries)
            munmap(entries, level_size(level));
    }
}
