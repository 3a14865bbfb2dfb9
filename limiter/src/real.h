/*
 * The dynamic linker's own functions, and the table from real pointers to hooks that interpose.c asks.
 *
 * The table is filled when a driver library is first seen and only grows. It holds every variant that the driver
 * exports, so whatever pointer cuGetProcAddress chooses for a version and a stream flag is found in it.
 *
 * A process has one driver of each kind, the first that was seen. Two would each have their own contexts, and
 * hooks could not tell whose a call is; so the functions of a copy are never handed out, but the first one's.
 */
#ifndef WEIR_REAL_H
#define WEIR_REAL_H

#ifndef _GNU_SOURCE
#error "dlmopen is declared for _GNU_SOURCE only"
#endif
#include <dlfcn.h>

#include "hooks.h"

struct weir_linker {
    void *(*dlsym)(void *handle, const char *name);
    void *(*dlvsym)(void *handle, const char *name, const char *version);
    void *(*dlopen)(const char *file, int flags);
    void *(*dlmopen)(Lmid_t space, const char *file, int flags);
    int (*dlinfo)(void *handle, int request, void *answer);
    int (*dlclose)(void *handle);
    _Atomic bool ready;
};
extern struct weir_linker weir_linker;
extern void *const weir_replacements[WEIR_SYMBOLS]; /* NULL: called, not interposed */

/* strcmp for those who must not call anybody. */
static inline bool weir_same_name(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

void weir_find_linker(void);
/* Loads the real pointers of a library that the program has loaded already; false: it has not. */
bool weir_load_loaded(bool nvml);
/* Its handle; NULL: none is loaded yet. */
void *weir_driver(bool nvml);
/* What the one driver calls `name`, if `found` is another driver's function (a copy of it); else `found`. */
void *weir_only_driver(bool nvml, void *found, const char *name);
/* Enters a real pointer into the table of weir_hook_for(). */
void weir_remember(enum weir_symbol_id id, void *real);

#endif
