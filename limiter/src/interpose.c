/*
 * How programs come to our hooks: dlsym, dlvsym, dlopen and cuGetProcAddress.
 *
 * Names are never mapped to hooks; pointers are. The real function is asked with the caller's own arguments, and
 * the pointer it returns is looked up in a table of the driver's real entry points. So the version and the stream
 * variant are the driver's choice, and a pointer that we do not know is handed on untouched.
 *
 * The linker's own functions look at their return address (RTLD_NEXT, RUNPATH, the caller's scope), so what is
 * not ours leaves by a tail jump (arch.h) and sees the program as its caller. RTLD_DEEPBIND would hide our dlsym
 * from the library being opened: where there is a slice, the flag is taken off. The price is that such a library
 * binds to the program's symbols first, as every other library does. dlmopen is not covered: a new namespace
 * has none of us in it.
 */
#define _GNU_SOURCE
#include "arch.h"
#include "internal.h"
#include "real.h"
#include "slice.h"

#include <errno.h>

#define TABLE 512 /* power of two, more than twice the number of hooks */

static _Atomic uint16_t table[TABLE]; /* symbol + 1; the real pointer is in weir_reals or here */
static void *_Atomic entered[WEIR_SYMBOLS];

_Static_assert(WEIR_SYMBOLS * 2 < TABLE, "grow TABLE");

static size_t place_of(const void *real)
{
    return (size_t)((uintptr_t)real * UINT64_C(0x9e3779b97f4a7c15) >> 32) % TABLE;
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

/* Cheap, for every dlsym of every program, and safe in the first: curl and cublas are not in the list. */
static bool is_hooked(const char *name, bool *nvml)
{
#define IS(symbol, prototype, ...) || weir_same_name(name, #symbol)
    if (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') {
        *nvml = false;
        return false WEIR_CUDA_HOOKS(IS);
    }
    if (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l') {
        *nvml = true;
        return false WEIR_NVML_HOOKS(IS);
    }
    return false;
}

/* Where to go on: the answer, or (answer NULL) the linker's function to jump to. */
static struct weir_way pass_on(void *function)
{
    return (struct weir_way){.next = function};
}

static bool ours(void *handle, const char *name, bool *nvml)
{
    return name && handle != RTLD_NEXT && is_hooked(name, nvml) && weir_present();
}

/* Our own exported hook, found through RTLD_DEFAULT, is no sign that there is a driver. */
static bool is_own_hook(const void *found)
{
    for (enum weir_symbol_id id = 0; id < WEIR_SYMBOLS; id++)
        if (found == weir_replacements[id])
            return true;
    return false;
}

static struct weir_way answer(void *found, bool loaded)
{
    if (loaded)
        return (struct weir_way){.answer = hook_for(found)};
    return (struct weir_way){.answer = is_own_hook(found) ? NULL : found};
}

struct weir_way weir_way_of_dlsym(void *handle, const char *name)
{
    int saved = errno;
    bool nvml;
    weir_find_linker();
    struct weir_way way = pass_on((void *)weir_linker.dlsym);
    if (ours(handle, name, &nvml)) {
        bool loaded = weir_load_loaded(nvml); /* first, so that dlerror() speaks of the program's own call */
        way = answer(weir_linker.dlsym(handle, name), loaded);
    }
    errno = saved;
    return way;
}

struct weir_way weir_way_of_dlvsym(void *handle, const char *name, const char *version)
{
    int saved = errno;
    bool nvml;
    weir_find_linker();
    struct weir_way way = pass_on((void *)weir_linker.dlvsym);
    if (ours(handle, name, &nvml)) {
        bool loaded = weir_load_loaded(nvml); /* first, so that dlerror() speaks of the program's own call */
        way = answer(weir_linker.dlvsym(handle, name, version), loaded);
    }
    errno = saved;
    return way;
}

struct weir_dlopen_way weir_way_of_dlopen(int flags)
{
    int saved = errno;
    weir_find_linker();
    struct weir_dlopen_way way = {.next = (void *)weir_linker.dlopen, .flags = flags};
    if ((flags & RTLD_DEEPBIND) && weir_present())
        way.flags &= ~RTLD_DEEPBIND;
    errno = saved;
    return way;
}

WEIR_ARCH_LOOKUP(dlsym, weir_way_of_dlsym)
WEIR_ARCH_LOOKUP(dlvsym, weir_way_of_dlvsym)
WEIR_ARCH_DLOPEN(dlopen, weir_way_of_dlopen)

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
