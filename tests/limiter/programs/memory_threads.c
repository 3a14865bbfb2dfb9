/*
 * Threads that allocate and free in every way at once, past the limit now and then. When all is freed, the
 * program waits, so that its books can be compared with what the card says.
 *
 *   memory_threads THREADS ROUNDS
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define HELD 16

static CUcontext context;
static int rounds;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static CUresult allocate(uint64_t random, CUdeviceptr *pointer)
{
    size_t pitch;
    switch (random % 5) {
    case 0:
        return cuMemAlloc(pointer, random / 5 % 4096 + 1);
    case 1:
        return cuMemAlloc(pointer, (random / 5 % 40 + 1) << 20);
    case 2:
        return cuMemAllocPitch(pointer, &pitch, random / 5 % 9000 + 1, 1000, 4);
    case 3:
        return cuMemAllocManaged(pointer, random / 5 % 3000000 + 1, CU_MEM_ATTACH_GLOBAL);
    default:
        return cuMemAllocAsync(pointer, random / 5 % 50000000 + 1, NULL);
    }
}

static void release(uint64_t random, CUdeviceptr *pointer)
{
    CUresult result = random % 2 ? cuMemFree(*pointer) : cuMemFreeAsync(*pointer, NULL);
    if (*pointer && result != CUDA_SUCCESS && cuMemFree(*pointer) != CUDA_SUCCESS)
        abort();
    *pointer = 0;
}

static void *work(void *seed)
{
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    CUdeviceptr held[HELD] = {0};
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
        abort();
    for (int round = 0; round < rounds; round++) {
        CUdeviceptr *place = &held[next_random(&random) % HELD];
        if (*place) {
            release(next_random(&random), place);
            continue;
        }
        CUresult result = allocate(next_random(&random) >> 8, place);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
            abort();
        if (result != CUDA_SUCCESS)
            *place = 0;
    }
    for (int i = 0; i < HELD; i++)
        if (held[i])
            release(1, &held[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0;
    pthread_t threads[64];
    if (count < 1 || count > 64 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    rounds = atoi(argv[2]);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        return 1;
    puts("waiting");
    fflush(stdout);
    getchar();
    return 0;
}
