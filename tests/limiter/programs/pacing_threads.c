/*
 * Many launches from several threads or from both sides of a fork; prints how many succeeded.
 *
 *   pacing_threads MODE THREADS LAUNCHES
 *     own       each thread has a stream of its own
 *     shared    all launch into one stream
 *     default   all launch into the legacy default stream
 *     thread    each launches into its per-thread default stream
 *     contexts  each has a context of its own and launches into its legacy default stream
 *     away      each into a stream of a context of its own, which is not current then
 *     brief     each into a new stream for every ten launches, which it does not wait for
 *     many      each into 40 streams in turn, and now and then a kernel of another size, to be measured anew
 *     fork      a child that was forked before the first use launches beside its parent, in own streams
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static void *driver;

#define TEXT(name) #name
#define SYMBOL(name) TEXT(name) /* cuda.h maps names to versions */
#define REAL(name) ((__typeof__(&name))dlsym(driver, SYMBOL(name)))
#define CALL(name, ...) check(REAL(name)(__VA_ARGS__), TEXT(name))

static void check(CUresult result, const char *name)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", name, (int)result);
    exit(1);
}

static struct {
    CUcontext context;
    CUfunction function;
    CUstream shared;
    __typeof__(&cuLaunchKernel) launch;
    const char *mode;
    long launches;
} world;

static CUfunction load(void)
{
    CUmodule module;
    CUfunction function;
    CALL(cuModuleLoadData, &module, spin_ptx);
    CALL(cuModuleGetFunction, &function, module, "weir_spin");
    return function;
}

static void set_up(void)
{
    CUdevice device;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &world.context, device);
    CALL(cuCtxSetCurrent, world.context);
    world.function = load();
    CALL(cuStreamCreate, &world.shared, CU_STREAM_NON_BLOCKING);
    world.launch = REAL(cuLaunchKernel);
}

#define MANY 40

static bool mode(const char *name) { return strcmp(world.mode, name) == 0; }

static void *work(void *number)
{
    CUstream stream = mode("default") || mode("contexts") ? NULL : mode("thread") ? CU_STREAM_PER_THREAD : world.shared;
    unsigned long long ns = 5000;
    void *parameters[] = {&ns};
    CUfunction function = world.function;
    CUcontext own;
    CUstream many[MANY];
    CALL(cuCtxSetCurrent, world.context);
    for (int i = 0; mode("many") && i < MANY; i++)
        CALL(cuStreamCreate, &many[i], CU_STREAM_NON_BLOCKING);
    if (mode("contexts") || mode("away")) {
        CALL(cuCtxCreate, &own, NULL, 0, 0);
        function = load();
    }
    if (mode("own") || mode("away") || mode("fork"))
        CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (mode("away"))
        CALL(cuCtxSetCurrent, world.context);
    for (long i = 0; i < world.launches; i++) {
        if (mode("brief") && i % 10 == 0) {
            if (i)
                CALL(cuStreamDestroy, stream);
            CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        }
        unsigned blocks = 1;
        if (mode("many")) {
            stream = many[i % MANY];
            blocks = (4 + (unsigned)(uintptr_t)number % 4) << (i / 100 % 28);
        }
        if (world.launch(function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) != CUDA_SUCCESS)
            exit(1);
    }
    CALL(cuStreamSynchronize, stream);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    world.mode = argv[1];
    long threads = atol(argv[2]);
    world.launches = atol(argv[3]);
    pid_t child = mode("fork") ? fork() : -1;
    set_up();
    pthread_t all[64];
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, work, (void *)(uintptr_t)i);
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    CALL(cuCtxSynchronize);
    int status = 0;
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
        return 1;
    if (child != 0)
        printf("%ld\n", threads * world.launches * (child > 0 ? 2 : 1));
    return 0;
}
