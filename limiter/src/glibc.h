/*
 * What the limiter needs of glibc and no other C library has. It is declared weak: a loader that misses a symbol of
 * a preloaded library ends the program (musl's does, with an error and status 127), and a program that cannot
 * load NVIDIA's driver, which needs glibc, must start as if we were not there. weir_on_glibc() is false there, and
 * the limiter then finds no slice. Everything else that it calls is in POSIX; a test holds that against musl.
 */
#ifndef WEIR_GLIBC_H
#define WEIR_GLIBC_H

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#pragma weak _r_debug

static inline bool weir_on_glibc(void)
{
    return &_r_debug != NULL;
}

/* The linker's list of what is loaded, in its order. */
static inline const struct link_map *weir_loaded_objects(void)
{
    return weir_on_glibc() ? _r_debug.r_map : NULL;
}

extern void *__dso_handle __attribute__((visibility("hidden"))); /* of this library: what it registers goes with it */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));

/* pthread_atfork(), which is linked into each library from glibc's static part and needs the above. */
static inline int weir_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return __register_atfork ? __register_atfork(prepare, parent, child, __dso_handle) : ENOSYS;
}

#endif
