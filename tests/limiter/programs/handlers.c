/*
 * A signal handler that allocates and frees by itself, a hundred times a second, while the program does the same. With
 * "jump" it leaves whatever it interrupted by siglongjmp, every third time. The driver is one without locks, for
 * real ones are no more safe in a handler than malloc is: what may wait or be left half-done here is the limiter.
 *
 *   handlers return|jump TIMES     ends when it has come so often in the middle of a call
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "gpu.h"

static sigjmp_buf out;
static volatile sig_atomic_t calling, interrupted, runs, jumps;
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
    if (jumps && ++runs % 3 == 0)
        siglongjmp(out, 1);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    struct itimerval often = {.it_interval = {.tv_usec = 10000}, .it_value = {.tv_usec = 10000}};
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
    REQUIRE(allocate(&pointer, (size_t)8 << 30) == CUDA_ERROR_OUT_OF_MEMORY); /* it is limited still */
    return 0;
}
