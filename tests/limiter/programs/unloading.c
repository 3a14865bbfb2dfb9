/*
 * Opens and closes the driver, and the limiter by its own name, again and again; then allocates 100 MiB at a time with
 * a function that it looked up before all that, and prints how often that went well.
 *
 *   unloading LIMITER
 */
#include "gpu.h"

int main(int argc, char **argv)
{
    CUdeviceptr pointer;
    int count = 0;
    gpu_open();
    __typeof__(&cuMemAlloc_v2) allocate = GPU(cuMemAlloc_v2);
    for (int i = 0; i < 20; i++) {
        void *limiter = dlopen(argv[argc - 1], RTLD_NOW);
        REQUIRE(limiter && dlclose(limiter) == 0);
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        while (dlclose(driver) == 0 && count++ < 10)
            ; /* more often than it was opened here */
        count = 0;
        REQUIRE(GPU(cuMemAlloc_v2) == allocate);
    }
    while (count < 100 && allocate(&pointer, 100u << 20) == CUDA_SUCCESS)
        count++;
    printf("%d\n", count);
    return 0;
}
