/*
 * See spaces.h. The linker has room for 16 namespaces, and our handle would keep each one for ever. So before a new
 * one is made, those in which nothing is left but what we brought are given back. A thread's earlier ones are ready
 * for that at once; another thread may be about to load its library into the one that it has just made.
 */
#define _GNU_SOURCE
#include "spaces.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "glibc.h"
#include "real.h"
#include "slice.h"
#include "symbols.h"

#define SPACES 16
#define LOADING_NS UINT64_C(60000000000) /* no library takes longer to be loaded */

#define BUSY ((void *)&spaces) /* somebody has it in hand */

static struct space {
    void *_Atomic handle; /* or BUSY */
    const char **maker; /* the thread, as the address of a variable of its own */
    uint64_t made;
    unsigned brought; /* objects in it when we alone were there */
} spaces[SPACES];

static _Atomic bool made_any;

static const char *own_path(void)
{
    for (const struct link_map *object = weir_loaded_objects(); object; object = object->l_next)
        if (object->l_addr == (ElfW(Addr))(uintptr_t)__ehdr_start)
            return object->l_name;
    return NULL; /* we are in such a namespace ourselves, and it is left alone */
}

static unsigned objects_beside(void *handle)
{
    const struct link_map *object = NULL;
    unsigned count = 0;
    if (weir_linker.dlinfo(handle, RTLD_DI_LINKMAP, &object) != 0)
        return 0;
    while (object->l_prev)
        object = object->l_prev;
    for (; object; object = object->l_next)
        count++;
    return count;
}

static bool is_empty(const struct space *space, void *handle)
{
    bool settled = space->maker == &weir_entered || weir_coarse_now() - space->made > LOADING_NS;
    return settled && objects_beside(handle) == space->brought;
}

/* Whoever takes the handle out of its place may close it; nobody else sees it meanwhile. */
static void give_back_empty(void)
{
    for (int i = 0; i < SPACES; i++) {
        void *handle = atomic_exchange(&spaces[i].handle, BUSY);
        if (handle && handle != BUSY && is_empty(&spaces[i], handle)) {
            weir_linker.dlclose(handle);
            handle = NULL;
        }
        if (handle != BUSY)
            atomic_store(&spaces[i].handle, handle);
    }
}

static void keep(void *handle)
{
    for (int i = 0; i < SPACES; i++) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&spaces[i].handle, &none, BUSY))
            continue;
        spaces[i].maker = &weir_entered;
        spaces[i].made = weir_coarse_now();
        spaces[i].brought = objects_beside(handle);
        atomic_store(&spaces[i].handle, handle);
        return;
    }
}

void *weir_space_hook(void *handle, const char *name)
{
    Lmid_t asked, id;
    if (!atomic_load(&made_any) || weir_linker.dlinfo(handle, RTLD_DI_LMID, &asked) != 0)
        return NULL;
    for (int i = 0; i < SPACES; i++) {
        void *own = atomic_load(&spaces[i].handle);
        if (own && own != BUSY && weir_linker.dlinfo(own, RTLD_DI_LMID, &id) == 0 && id == asked)
            return weir_linker.dlsym(own, name);
    }
    return NULL;
}

intptr_t weir_new_space(void)
{
    Lmid_t id = LM_ID_NEWLM;
    const char *path = own_path();
    give_back_empty();
    void *handle = path ? weir_linker.dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : NULL;
    if (handle && weir_linker.dlinfo(handle, RTLD_DI_LMID, &id) == 0)
        keep(handle);
    atomic_store(&made_any, true);
    return id;
}
