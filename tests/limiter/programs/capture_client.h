/*
 * What capture_client.c captures, launches and prints with: two streams, a kernel, and what each call answered.
 */
#ifndef CAPTURE_CLIENT_H
#define CAPTURE_CLIENT_H

#include <pthread.h>
#include <unistd.h>

#include "gpu.h"
#include "spin.h"

#define SIZE ((size_t)3 << 20)
#define LARGE ((size_t)160 << 20)

static CUfunction function;
static CUcontext context;
static CUstream one, two;
static CUstreamCaptureMode mode;

static void tell(CUresult result) { printf(" %d", (int)result); }

static CUresult spin(CUstream stream, unsigned long long ns)
{
    void *parameters[] = {&ns};
    return GPU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static void spins(CUstream stream, int count)
{
    for (int i = 0; i < count; i++)
        tell(spin(stream, 50000));
}

/* More than a batch, so that the limiter has one open in each stream. */
static void warm_up(void)
{
    for (int i = 0; i < 30; i++) {
        REQUIRE(!spin(one, 20000));
        REQUIRE(!spin(two, 20000));
    }
}

static void begin(CUstream stream) { tell(GPU(cuStreamBeginCapture_v2)(stream, mode)); }

static CUgraph end(CUstream stream)
{
    CUgraph graph = NULL;
    size_t nodes = 0;
    tell(GPU(cuStreamEndCapture)(stream, &graph));
    if (graph)
        REQUIRE(!GPU(cuGraphGetNodes)(graph, NULL, &nodes));
    printf(" [%zu]", nodes);
    return graph;
}

/* Launches what was captured, and waits. */
static CUgraphExec replay(CUgraph graph, int times)
{
    CUgraphExec ready = NULL;
    if (!graph)
        return NULL;
    tell(GPU(cuGraphInstantiateWithFlags)(&ready, graph, 0));
    for (int i = 0; i < times; i++)
        tell(GPU(cuGraphLaunch)(ready, one));
    tell(GPU(cuStreamSynchronize)(one));
    return ready;
}

static void *set_up_thread(void *work)
{
    REQUIRE(!GPU(cuCtxSetCurrent)(context));
    ((void (*)(void))work)();
    return NULL;
}

static void in_another_thread(void (*work)(void))
{
    pthread_t thread;
    REQUIRE(!pthread_create(&thread, NULL, set_up_thread, (void *)work));
    REQUIRE(!pthread_join(thread, NULL));
}

static CUevent new_event(void)
{
    CUevent event;
    REQUIRE(!GPU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void temporary(CUstream stream)
{
    CUdeviceptr pointer = 0;
    tell(GPU(cuMemAllocAsync)(&pointer, SIZE, stream));
    tell(spin(stream, 20000));
    tell(GPU(cuMemsetD8Async)(pointer, 1, SIZE, stream));
    tell(GPU(cuMemFreeAsync)(pointer, stream));
}

#endif
