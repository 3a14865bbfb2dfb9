/*
 * The shortest program with a GPU: opens the driver, makes a context, allocates once, and ends. Without an argument
 * it does not even open the driver.
 *
 *   first_use [gpu]
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*retain_function)(void **, int);
typedef int (*alloc_function)(uint64_t *, size_t);

int main(int argc, char **argv)
{
    (void)argv;
    if (argc < 2)
        return 0;
    void *context;
    uint64_t pointer;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    retain_function retain = driver ? (retain_function)dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    alloc_function allocate = driver ? (alloc_function)dlsym(driver, "cuMemAlloc_v2") : NULL;
    return !retain || !allocate || retain(&context, 0) || allocate(&pointer, 1 << 20);
}
