/*
 * How programs come to our hooks: dlsym, dlvsym, dlopen and cuGetProcAddress.
 *
 * Names are never mapped to hooks; pointers are. The real function is asked with the caller's own arguments, and
 * the pointer it returns is looked up in a table of the driver's real entry points. So the version and the stream
 * variant are the driver's choice, and a pointer that we do not know is handed on untouched.
 *
 * The linker's own functions look at their return address (RTLD_NEXT, RUNPATH, the caller's scope), so what is
 * not ours leaves by a tail jump (arch.h) and sees the program as its caller. Three ways round us are closed here,
 * all only where there is a slice:
 *
 *   RTLD_NEXT      is answered with a hook where it would lead to the driver.
 *   RTLD_DEEPBIND  would hide our dlsym from the library being opened: the flag is taken off. The price is that
 *                  such a library binds to the program's symbols first, as every other library does.
 *   dlmopen        makes a namespace that we are not in: we are loaded into it first (spaces.c).
 *
 * A program that reads the symbol tables by itself, as we do, is not stopped by any of this.
 */
#define _GNU_SOURCE
#include "arch.h"
#include "hash.h"
#include "internal.h"
#include "real.h"
#include "slice.h"
#include "spaces.h"
#include "symbols.h"

#include <errno.h>

#define TABLE 512 /* power of two, more than twice the number of hooks */

static _Atomic uint16_t table[TABLE]; /* symbol + 1; the real pointer is in weir_reals or here */
static void *_Atomic entered[WEIR_SYMBOLS];

_Static_assert(WEIR_SYMBOLS * 2 < TABLE, "grow TABLE");

static size_t place_of(const void *real)
{
    return (size_t)(weir_hash((uintptr_t)real) >> 32) % TABLE;
}

void weir_remember(enum weir_symbol_id id, void *real)
{
    atomic_store(&entered[id], real);
    for (size_t i = place_of(real);; i = (i + 1) % TABLE) {
        uint16_t there = 0;
        if (atomic_compare_exchange_strong(&table[i], &there, (uint16_t)(id + 1)))
            return;
        if (atomic_load(&entered[there - 1]) == real)
            return; /* two names of one function, or another thread was here first */
    }
}

static void *hook_for(void *real)
{
    for (size_t i = place_of(real); real; i = (i + 1) % TABLE) {
        uint16_t there = atomic_load_explicit(&table[i], memory_order_acquire);
        if (!there)
            return real;
        if (atomic_load_explicit(&entered[there - 1], memory_order_relaxed) == real)
            return weir_replacements[there - 1];
    }
    return real;
}

/* Where to go on: the answer, or (answer NULL) the linker's function to jump to. */
static struct weir_way pass_on(void *function)
{
    return (struct weir_way){.next = function};
}

/* Every name of a driver begins so, and curl's and cublas's do not. */
static bool is_driver_name(const char *name, bool *nvml)
{
    *nvml = name[0] == 'n';
    return *nvml ? name[1] == 'v' && name[2] == 'm' && name[3] == 'l'
                 : name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static bool is_hooked(const char *name)
{
#define IS(symbol, prototype, ...) || weir_same_name(name, #symbol)
    return false WEIR_ALL_HOOKS(IS);
}

/* Our own exported hook, found through RTLD_DEFAULT, is no sign that there is a driver. */
static bool is_own_hook(const void *found)
{
    for (enum weir_symbol_id id = 0; id < WEIR_SYMBOLS; id++)
        if (found && found == weir_replacements[id])
            return true;
    return false;
}

/* As the linker says it of a name that is nowhere: libc has none of a driver's. */
static void *not_found(const char *name)
{
    void *libc = weir_linker.dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc ? weir_linker.dlsym(libc, name) : NULL;
}

static void *answer(void *found, const char *name, bool nvml, bool loaded)
{
    if (!loaded)
        return is_own_hook(found) ? not_found(name) : found;
    if (!found || is_own_hook(found))
        return found;
    void *hook = hook_for(found);
    return hook != found ? hook : hook_for(weir_only_driver(nvml, found, name));
}

/* RTLD_NEXT, which the linker answers by who asks. What lies between him and the driver stays his. */
static struct weir_way way_of_next(const char *name, const void *caller, bool nvml, bool loaded, void *function)
{
    void *next = weir_next_definition(caller, name);
    if (!next && loaded)
        next = weir_linker.dlsym(weir_driver(nvml), name); /* loaded before the one who asks */
    void *own = answer(next, name, nvml, loaded);
    if (next && own == next)
        return pass_on(function);
    return (struct weir_way){.answer = next ? own : not_found(name)};
}

/*
 * A name that is hooked is answered here, however it is asked for. Any other of a driver's is answered here too
 * when it is asked of one library (a copy of the driver may be that); who asks by scope is left to the linker.
 */
static bool is_ours(void *handle, const char *name, bool *nvml)
{
    return name && is_driver_name(name, nvml) &&
           (is_hooked(name) || (handle != RTLD_NEXT && handle != RTLD_DEFAULT)) && weir_present();
}

static struct weir_way way_of_lookup(const struct weir_arguments *arguments, const void *caller, bool versioned)
{
    int saved = errno;
    bool nvml;
    void *handle = (void *)arguments->first;
    const char *name = (const char *)arguments->second, *version = (const char *)arguments->third;
    weir_find_linker();
    struct weir_way way = pass_on(versioned ? (void *)weir_linker.dlvsym : (void *)weir_linker.dlsym);
    if (is_ours(handle, name, &nvml)) {
        bool loaded = weir_load_loaded(nvml); /* first, so that dlerror() speaks of the program's own call */
        if (handle == RTLD_NEXT) {
            way = way_of_next(name, caller, nvml, loaded, way.next);
        } else {
            void *found = versioned ? weir_linker.dlvsym(handle, name, version) : weir_linker.dlsym(handle, name);
            void *there = found && is_hooked(name) ? weir_space_hook(handle, name) : NULL;
            way = (struct weir_way){.answer = there ? there : answer(found, name, nvml, loaded)};
        }
    }
    errno = saved;
    return way;
}

struct weir_way weir_way_of_dlsym(struct weir_arguments *arguments, const void *caller)
{
    return way_of_lookup(arguments, caller, false);
}

struct weir_way weir_way_of_dlvsym(struct weir_arguments *arguments, const void *caller)
{
    return way_of_lookup(arguments, caller, true);
}

struct weir_way weir_way_of_dlopen(struct weir_arguments *arguments)
{
    int saved = errno;
    weir_find_linker();
    if ((arguments->second & RTLD_DEEPBIND) && weir_present())
        arguments->second &= ~(intptr_t)RTLD_DEEPBIND;
    errno = saved;
    return pass_on((void *)weir_linker.dlopen);
}

struct weir_way weir_way_of_dlmopen(struct weir_arguments *arguments)
{
    int saved = errno;
    weir_find_linker();
    if (weir_present()) {
        arguments->third &= ~(intptr_t)RTLD_DEEPBIND;
        if (arguments->first == LM_ID_NEWLM && arguments->second)
            arguments->first = weir_new_space();
    }
    errno = saved;
    return pass_on((void *)weir_linker.dlmopen);
}

WEIR_ARCH_FORWARD(dlsym, weir_way_of_dlsym)
WEIR_ARCH_FORWARD(dlvsym, weir_way_of_dlvsym)
WEIR_ARCH_FORWARD(dlopen, weir_way_of_dlopen)
WEIR_ARCH_FORWARD(dlmopen, weir_way_of_dlmopen)

static void replace(CUresult result, void **function)
{
    if (result == CUDA_SUCCESS && function && weir_present())
        *function = hook_for(*function);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    CUresult result = WEIR_REAL(cuGetProcAddress)(name, function, version, flags);
    replace(result, function);
    return result;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUresult result = WEIR_REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
    replace(result, function);
    return result;
}
