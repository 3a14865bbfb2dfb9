/*
 * The dynamic linker's own dlsym, dlvsym and dlopen. We export functions of these names, so the real ones are
 * read from the symbol tables of libc (or libdl, where they lived before glibc 2.34) as they lie in memory.
 *
 * This runs at the first dlsym of the process, which may be a sanitizer's or an allocator's while it sets itself
 * up. So it calls nothing that anybody could have replaced, not even strcmp: it follows the linker's list of
 * loaded objects by itself. libc is early in that list and never leaves it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>

#include "real.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* where this library is mapped */

struct weir_linker weir_linker;

/* The linker relocates the pointers of a dynamic section in place, except where that is read-only. */
static const void *absolute(const struct link_map *object, ElfW(Addr) pointer)
{
    return (const void *)(pointer < object->l_addr ? pointer + object->l_addr : pointer);
}

/* The number of symbols: a GNU hash table only tells the last one of each chain. */
static size_t symbol_count(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(hash + 4) + bloom);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static void *find_in(const struct link_map *object, const char *name)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    size_t count = 0;
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        const void *pointer = absolute(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            symbols = pointer;
        else if (entry->d_tag == DT_STRTAB)
            strings = pointer;
        else if (entry->d_tag == DT_GNU_HASH)
            count = symbol_count(pointer);
        else if (entry->d_tag == DT_HASH && !count)
            count = ((const uint32_t *)pointer)[1];
    }
    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];
        bool function = (symbol->st_info & 0xf) == STT_FUNC && symbol->st_shndx != SHN_UNDEF;
        if (function && weir_same_name(strings + symbol->st_name, name))
            return (void *)(object->l_addr + symbol->st_value);
    }
    return NULL;
}

static bool is_libc(const struct link_map *object)
{
    const char *base = object->l_name;
    for (const char *c = base; *c; c++)
        if (*c == '/')
            base = c + 1;
    return weir_same_name(base, "libc.so.6") || weir_same_name(base, "libdl.so.2");
}

/* In libc or libdl; failing that, where a libc has another name, in any object but this. */
static void *find(const char *name)
{
    void *found = NULL;
    for (int anywhere = 0; anywhere < 2 && !found; anywhere++)
        for (const struct link_map *object = _r_debug.r_map; object && !found; object = object->l_next)
            if (anywhere ? object->l_addr != (ElfW(Addr))(uintptr_t)__ehdr_start : is_libc(object))
                found = find_in(object, name);
    return found;
}

void weir_find_linker(void)
{
    if (atomic_load_explicit(&weir_linker.ready, memory_order_acquire))
        return;
    weir_linker.dlopen = (__typeof__(weir_linker.dlopen))find("dlopen");
    weir_linker.dlvsym = (__typeof__(weir_linker.dlvsym))find("dlvsym");
    weir_linker.dlsym = (__typeof__(weir_linker.dlsym))find("dlsym");
    atomic_store_explicit(&weir_linker.ready, true, memory_order_release);
}
