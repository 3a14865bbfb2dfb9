/*
 * Times cuLaunchKernel as a program finds it: rounds of back-to-back launches, the quickest round counts.
 *
 *   launch_cost ROUNDS LAUNCHES [FUNCTIONS]     prints nanoseconds for each launch
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               void *, void **, void **);

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    long launches = argc > 2 ? atol(argv[2]) : 100000;
    uintptr_t functions = argc > 3 ? (uintptr_t)atol(argv[3]) : 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    launch_function launch = driver ? (launch_function)dlsym(driver, "cuLaunchKernel") : NULL;
    if (!launch) {
        fprintf(stderr, "launch_cost: %s\n", dlerror());
        return 1;
    }
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double start = seconds();
        for (long i = 0; i < launches; i++)
            launch((void *)(0x1000 + (uintptr_t)i % functions * 64), 1, 1, 1, 1, 1, 1, 0, (void *)0x5000,
                   NULL, NULL);
        double each = (seconds() - start) / (double)launches;
        best = each < best ? each : best;
    }
    printf("%.2f\n", best * 1e9);
    return 0;
}
