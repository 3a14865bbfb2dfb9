/*
 * Times cuMemAlloc, cuMemFree and cuMemGetInfo with many allocations live: rounds of a thousand of each, the
 * quickest round of each counts. What is freed was allocated ten thousand allocations ago.
 *
 *   alloc_cost ROUNDS LIVE     prints nanoseconds for each allocation, each free and each query
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 1000
#define BYTES (2u << 20)

typedef int (*alloc_function)(uint64_t *, size_t);
typedef int (*free_function)(uint64_t);
typedef int (*info_function)(size_t *, size_t *);

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double each(double start)
{
    return (seconds() - start) / BATCH * 1e9;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100, live = argc > 2 ? atol(argv[2]) : 10000;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    alloc_function allocate = driver ? (alloc_function)dlsym(driver, "cuMemAlloc_v2") : NULL;
    free_function give_back = driver ? (free_function)dlsym(driver, "cuMemFree_v2") : NULL;
    info_function query = driver ? (info_function)dlsym(driver, "cuMemGetInfo_v2") : NULL;
    size_t left, total;
    long room = live + BATCH, oldest = 0, newest = 0;
    uint64_t *pointers = calloc((size_t)room, sizeof *pointers);
    if (!allocate || !give_back || !query || !pointers) {
        fprintf(stderr, "alloc_cost: no driver\n");
        return 1;
    }
    for (; newest < live; newest++)
        if (allocate(&pointers[newest], BYTES))
            return 2;
    double best_alloc = 1e9, best_free = 1e9, best_query = 1e9;
    for (long round = 0; round < rounds; round++) {
        int failed = 0;
        double start = seconds();
        for (int i = 0; i < BATCH; i++)
            failed |= allocate(&pointers[newest++ % room], BYTES);
        double cost = each(start);
        best_alloc = cost < best_alloc ? cost : best_alloc;
        start = seconds();
        for (int i = 0; i < BATCH; i++)
            failed |= give_back(pointers[oldest++ % room]);
        cost = each(start);
        best_free = cost < best_free ? cost : best_free;
        start = seconds();
        for (int i = 0; i < BATCH; i++)
            failed |= query(&left, &total);
        cost = each(start);
        best_query = cost < best_query ? cost : best_query;
        if (failed)
            return 2;
    }
    printf("%.2f %.2f %.2f\n", best_alloc, best_free, best_query);
    return 0;
}
