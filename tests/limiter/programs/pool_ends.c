/*
 * A program that is linked against the driver: four threads make pools, take memory out of them and destroy them, and
 * fill the slice by contexts that leave memory in the card's own pool. So allocations are refused again and again, and
 * before each refusal all that pools have to spare is given back. Prints how many pools there were.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define POOLS 8000

static CUcontext context;

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, (int)result);
    exit(1);
}

static void use_pool(CUstream stream, int size)
{
    CUmemPoolProps where = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr pointer;
    check(cuMemPoolCreate(&pool, &where), "create");
    CUresult result = cuMemAllocFromPoolAsync(&pointer, (size_t)(size % 64 + 1) << 20, pool, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        check(cuMemPoolDestroy(pool), "destroy");
        return;
    }
    check(result, "allocate");
    if (size % 2)
        check(cuMemFreeAsync(pointer, stream), "free");
    else
        check(cuStreamSynchronize(stream), "synchronize");
    check(cuMemPoolDestroy(pool), "destroy");
    if (size % 2 == 0)
        check(cuMemFreeAsync(pointer, stream), "free");
    check(cuStreamSynchronize(stream), "synchronize");
}

/* What is taken in it out of the card's own pool stays there. */
static void use_context(void)
{
    CUcontext own;
    CUstream stream;
    CUdeviceptr pointer;
    CUresult result = cuCtxCreate(&own, NULL, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return;
    check(result, "context");
    check(cuStreamCreate(&stream, CU_STREAM_DEFAULT), "stream");
    cuMemAllocAsync(&pointer, 1 << 20, stream);
    check(cuCtxDestroy(own), "destroy context");
    check(cuCtxSetCurrent(context), "current");
}

static void *work(void *unused)
{
    CUstream stream;
    check(cuCtxSetCurrent(context), "current");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    for (int i = 1; i <= POOLS; i++)
        if (i % 2)
            use_pool(stream, i / 2);
        else
            use_context();
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    check(cuInit(0), "init");
    check(cuDevicePrimaryCtxRetain(&context, 0), "retain");
    check(cuCtxSetCurrent(context), "current");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", THREADS * POOLS / 2);
    return 0;
}
