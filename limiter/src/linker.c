/*
 * The dynamic linker's own dlsym, dlvsym, dlopen and dlmopen. We export functions of these names, so the real ones
 * are read from the symbol tables of libc (or libdl, where they lived before glibc 2.34) as they lie in memory.
 *
 * This runs at the first dlsym of the process, which may be a sanitizer's or an allocator's while it sets itself
 * up. So it calls nothing that anybody could have replaced, not even strcmp: it follows the linker's list of
 * loaded objects by itself. libc is early in that list and never leaves it.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "real.h"
#include "symbols.h"

struct weir_linker weir_linker;

static bool is_this_library(const struct link_map *object)
{
    return object->l_addr == (ElfW(Addr))(uintptr_t)__ehdr_start;
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
static void *find_in_program(const char *name)
{
    void *found = NULL;
    for (int anywhere = 0; anywhere < 2 && !found; anywhere++)
        for (const struct link_map *object = weir_loaded_objects(); object && !found; object = object->l_next)
            if (anywhere ? !is_this_library(object) : is_libc(object))
                found = weir_symbol_in(object->l_addr, object->l_ld, name);
    return found;
}

/* A copy of this library in a namespace of its own (dlmopen) is not in the program's list. It uses that
 * namespace's libc, which was loaded with it and keeps what dlerror() says there. */
static bool in_program(void)
{
    const struct link_map *object = weir_loaded_objects();
    while (object && !is_this_library(object))
        object = object->l_next;
    return object != NULL;
}

static void *find(const char *name)
{
    return in_program() ? find_in_program(name) : weir_next_definition(__ehdr_start, name);
}

void weir_find_linker(void)
{
    if (atomic_load_explicit(&weir_linker.ready, memory_order_acquire))
        return;
    weir_linker.dlopen = (__typeof__(weir_linker.dlopen))find("dlopen");
    weir_linker.dlmopen = (__typeof__(weir_linker.dlmopen))find("dlmopen");
    weir_linker.dlinfo = (__typeof__(weir_linker.dlinfo))find("dlinfo");
    weir_linker.dlclose = (__typeof__(weir_linker.dlclose))find("dlclose");
    weir_linker.dlvsym = (__typeof__(weir_linker.dlvsym))find("dlvsym");
    weir_linker.dlsym = (__typeof__(weir_linker.dlsym))find("dlsym");
    atomic_store_explicit(&weir_linker.ready, true, memory_order_release);
}
