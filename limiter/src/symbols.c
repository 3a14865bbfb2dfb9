/*
 * See symbols.h. The dynamic section of an object is read as it lies in memory: symbol table, strings, and the
 * hash table that the linker itself would use. Objects are listed by dl_iterate_phdr, in the order of loading.
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <stdint.h>
#include <string.h>

#include "real.h"

struct dynamic {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash; /* of the older kind, whose second word is the number of symbols */
};

/* The linker relocates the pointers of a dynamic section in place, except where that is read-only. */
static const void *absolute(ElfW(Addr) base, ElfW(Addr) pointer)
{
    return (const void *)(pointer < base ? pointer + base : pointer);
}

static struct dynamic read_dynamic(ElfW(Addr) base, const ElfW(Dyn) *entry)
{
    struct dynamic tables = {.symbols = NULL};
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            tables.symbols = absolute(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            tables.strings = absolute(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_GNU_HASH)
            tables.gnu_hash = absolute(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_HASH)
            tables.hash = absolute(base, entry->d_un.d_ptr);
    }
    return tables;
}

static bool is_it(const struct dynamic *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && symbol->st_info >> 4 != STB_LOCAL &&
           weir_same_name(tables->strings + symbol->st_name, name);
}

/* Header: buckets, first symbol hashed, words of the bloom filter, its shift. A chain's last hash is odd. */
static uint32_t find_hashed(const struct dynamic *tables, const char *name)
{
    const uint32_t *header = tables->gnu_hash;
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(header + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + header[2]), *chain = buckets + header[0];
    unsigned bits = 8 * sizeof *bloom;
    ElfW(Addr) word = bloom[hash / bits % header[2]];
    if (!header[0] || !(word >> hash % bits & word >> (hash >> header[3]) % bits & 1))
        return 0;
    for (uint32_t index = buckets[hash % header[0]]; index >= header[1]; index++) {
        uint32_t here = chain[index - header[1]];
        if ((here | 1) == (hash | 1) && is_it(tables, index, name))
            return index;
        if (here & 1)
            break;
    }
    return 0;
}

void *weir_symbol_in(ElfW(Addr) base, const ElfW(Dyn) *dynamic, const char *name)
{
    struct dynamic tables = read_dynamic(base, dynamic);
    uint32_t index = 0;
    if (!tables.symbols || !tables.strings)
        return NULL;
    if (tables.gnu_hash)
        index = find_hashed(&tables, name);
    else
        for (uint32_t i = 1; tables.hash && i < tables.hash[1] && !index; i++)
            index = is_it(&tables, i, name) ? i : 0;
    return index ? (void *)(base + tables.symbols[index].st_value) : NULL;
}

/* ---- the loaded objects ---- */

struct search {
    const void *address;      /* lies in the object that is looked for, or in the one to begin after */
    const char *const *names;
    const char *name;
    char *path;
    size_t size;
    void *found;
    bool reached;
};

static bool contains(const struct dl_phdr_info *object, const void *address)
{
    ElfW(Addr) offset = (ElfW(Addr))address - object->dlpi_addr;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && offset - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

static void *defined(const struct dl_phdr_info *object, const char *name)
{
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return weir_symbol_in(object->dlpi_addr,
                                  (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr), name);
    return NULL;
}

static bool defines_all(const struct dl_phdr_info *object, const char *const names[])
{
    for (; *names; names++)
        if (!defined(object, *names))
            return false;
    return true;
}

static int find_next(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    if (search->reached && !contains(object, __ehdr_start))
        search->found = defined(object, search->name);
    search->reached |= contains(object, search->address);
    return search->found != NULL;
}

static int find_around(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    if (!contains(object, search->address))
        return 0;
    search->reached = defines_all(object, search->names);
    return 1;
}

static int find_all(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    size_t length = strlen(object->dlpi_name);
    if (contains(object, __ehdr_start) || length >= search->size || !defines_all(object, search->names))
        return 0;
    memcpy(search->path, object->dlpi_name, length + 1);
    search->reached = true;
    return 1;
}

void *weir_next_definition(const void *caller, const char *name)
{
    struct search search = {.address = caller, .name = name};
    dl_iterate_phdr(find_next, &search);
    return search.found;
}

bool weir_object_defines(const void *address, const char *const names[])
{
    struct search search = {.address = address, .names = names};
    dl_iterate_phdr(find_around, &search);
    return search.reached;
}

bool weir_find_object(const char *const names[], char *path, size_t size)
{
    struct search search = {.names = names, .path = path, .size = size};
    dl_iterate_phdr(find_all, &search);
    return search.reached;
}
