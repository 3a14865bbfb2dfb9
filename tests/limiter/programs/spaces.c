/*
 * Opens and closes a plugin in namespaces of its own, more often than the linker has room for; then allocates
 * 100 MiB at a time with a driver in the last of them, and prints how often that went well.
 *
 *   spaces LIB
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

#define FIND(symbol) ((__typeof__(&symbol))look_up(#symbol))

int main(int argc, char **argv)
{
    void *plugin = NULL;
    for (int i = 0; i < 40; i++) {
        if (plugin)
            dlclose(plugin);
        plugin = dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW);
        if (!plugin) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    void *(*look_up)(const char *) = (void *(*)(const char *))dlsym(plugin, "look_up");
    CUcontext context;
    CUdeviceptr pointer;
    int count = 0;
    if (FIND(cuInit)(0) || FIND(cuDevicePrimaryCtxRetain)(&context, 0) || FIND(cuCtxSetCurrent)(context))
        return 2;
    while (count < 100 && FIND(cuMemAlloc_v2)(&pointer, 100u << 20) == CUDA_SUCCESS)
        count++;
    printf("%d\n", count);
    return 0;
}
