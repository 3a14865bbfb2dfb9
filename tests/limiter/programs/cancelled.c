/*
 * Threads that have been asked to end (pthread_cancel) before they make a call, which then meets every point of
 * cancellation that the limiter puts into it. The driver is one that does nothing, so it has none. Each must come back
 * from its call, and what it did must be whole: the main thread does the same after it.
 *
 *   cancelled CALL...    "allocate", "launch" or "look", each in a thread of its own; prints how often one came back
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "gpu.h"

static int came_back;

static void call(const char *name)
{
    CUdeviceptr pointer;
    size_t room, total;
    if (strcmp(name, "allocate") == 0 && GPU(cuMemAlloc_v2)(&pointer, 2 << 20) == CUDA_SUCCESS)
        GPU(cuMemFree_v2)(pointer);
    else if (strcmp(name, "launch") == 0)
        GPU(cuLaunchKernel)((CUfunction)64, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    else if (strcmp(name, "look") == 0)
        GPU(cuMemGetInfo_v2)(&room, &total);
}

static void *calls(void *name)
{
    pthread_cancel(pthread_self());
    call(name);
    came_back++;
    pthread_testcancel();
    return NULL; /* it was not told to end any more */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *ended = NULL;
    for (int i = 1; i < argc; i++) {
        REQUIRE(pthread_create(&thread, NULL, calls, argv[i]) == 0);
        REQUIRE(pthread_join(thread, &ended) == 0 && ended == PTHREAD_CANCELED);
        call(argv[i]);
    }
    printf("%d\n", came_back);
    return 0;
}
