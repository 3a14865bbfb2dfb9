/*
 * A signal handler that allocates and frees by itself, every MICROSECONDS, while the program does the same. With
 * "jump" it leaves whatever it interrupted by siglongjmp, every third time. The driver is one without locks, for
 * real ones are no more safe in a handler than malloc is: what may wait or be left half-done here is the limiter.
 *
 *   handlers return|jump TIMES MICROSECONDS    ends when it has come so often in the middle of a call; prints how
 *                                              often it left that, and at the end the buffers that are charged to
 *                                              it and those that the driver says it has
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "gpu.h"

static sigjmp_buf out;
static volatile sig_atomic_t calling, interrupted, runs, jumps, left;
static __typeof__(&cuMemAlloc_v2) allocate;
static __typeof__(&cuMemFree_v2) give_back;

static void use(void)
{
    CUdeviceptr pointer;
    if (allocate(&pointer, 2 << 20) == CUDA_SUCCESS)
        give_back(pointer);
}

static void handle(int signal)
{
    (void)signal;
    interrupted += calling;
    use();
    if (jumps && ++runs % 3 == 0) {
        left += calling;
        siglongjmp(out, 1);
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 4);
    struct timeval period = {.tv_usec = atoi(argv[3])};
    struct itimerval often = {.it_interval = period, .it_value = period};
    int times = atoi(argv[2]);
    jumps = strcmp(argv[1], "jump") == 0;
    allocate = GPU(cuMemAlloc_v2);
    give_back = GPU(cuMemFree_v2);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = handle}, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    sigsetjmp(out, 1);
    while (interrupted < times) {
        calling = 1;
        for (int i = 0; i < 1000; i++)
            use();
        calling = 0;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 0}}, NULL);
    CUdeviceptr pointer;
    size_t room, total;
    REQUIRE(allocate(&pointer, 2 << 20) == CUDA_SUCCESS && give_back(pointer) == CUDA_SUCCESS);
    REQUIRE(allocate(&pointer, (size_t)8 << 30) == CUDA_ERROR_OUT_OF_MEMORY); /* it is limited still */
    REQUIRE(GPU(cuMemGetInfo_v2)(&room, &total) == CUDA_SUCCESS);
    const _Atomic long *buffers = gpu_find("null_buffers");
    printf("%d %zu %ld\n", (int)left, (total - room) >> 21, *buffers);
    return 0;
}
