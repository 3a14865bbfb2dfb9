/*
 * A library whose lookups mean something only if the linker sees this library as the caller.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

int probe(void);
void *open_by_name(void);

int probe(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "probe");
    return next ? 1 + next() : -1;
}

void *open_by_name(void)
{
    void *volatile library = dlopen("libhidden.so", RTLD_NOW); /* not a tail call: that would hide us */
    return library;
}
