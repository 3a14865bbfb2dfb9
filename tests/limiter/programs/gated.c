/*
 * Launches into a slot that is closed, and says what became of it.
 *
 *   gated sync|reset|exit   launches a kernel until it is known how long it takes, prints "ready", reads a byte,
 *                           launches it once more, and waits for it, resets its context, or ends. Prints, on
 *                           CLOCK_MONOTONIC, "RETURNED COMPLETE ENDED": when the call had returned, whether the
 *                           kernel was complete then, and when what came after it had.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "spin.h"

static unsigned long long ns = 100000;
static void *parameters[] = {&ns};

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    REQUIRE(argc == 2);
    gpu_open();
    REQUIRE(GPU(cuModuleLoadData)(&module, spin_ptx) == CUDA_SUCCESS);
    REQUIRE(GPU(cuModuleGetFunction)(&spin, module, "weir_spin") == CUDA_SUCCESS);
    REQUIRE(GPU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (int i = 0; i < 20; i++) {
        REQUIRE(GPU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == CUDA_SUCCESS);
        REQUIRE(GPU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    }
    char go;
    REQUIRE(write(STDOUT_FILENO, "ready\n", 6) == 6);
    REQUIRE(read(STDIN_FILENO, &go, 1) == 1);
    REQUIRE(GPU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == CUDA_SUCCESS);
    long long returned = now();
    int complete = GPU(cuStreamQuery)(stream) == CUDA_SUCCESS;
    if (strcmp(argv[1], "sync") == 0)
        REQUIRE(GPU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    if (strcmp(argv[1], "reset") == 0)
        REQUIRE(GPU(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    printf("%lld %d %lld\n", returned, complete, now());
    return 0;
}
