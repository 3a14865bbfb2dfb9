/* A program that is linked against the driver: eight threads whose first calls come at once; prints their results. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 8

static pthread_barrier_t start;

static void *call(void *result)
{
    CUcontext context;
    pthread_barrier_wait(&start);
    *(CUresult *)result = cuDevicePrimaryCtxRetain(&context, 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    CUresult results[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    if (cuInit(0))
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call, &results[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("%d\n", (int)results[i]);
    }
    return 0;
}
