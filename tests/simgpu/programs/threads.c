/*
 * Many threads in one context: streams, events that all of them record and wait for, captures, host functions.
 *
 * Nothing is expected but that every call succeeds and every host function runs once.
 */
#include "client.h"

#include <pthread.h>

#define THREADS 6
#define ROUNDS 300

static _Atomic int calls;
static CUevent shared;
static CUstream common;

static void count_call(void *unused)
{
    (void)unused;
    calls++;
}

static void capture_and_launch(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(spin(stream, 1000));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, common));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void *work(void *unused)
{
    OK(cuCtxSetCurrent(context));
    for (int round = 0; round < ROUNDS; round++) {
        CUstream stream = new_stream(round % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        CUevent own = new_event();
        OK(spin(round % 3 ? stream : NULL, 1000));
        OK(cuEventRecord(shared, round % 5 ? stream : common));
        OK(cuStreamWaitEvent(common, shared, 0));
        OK(cuEventRecord(own, CU_STREAM_PER_THREAD));
        CUresult state = cuEventQuery(shared);
        REQUIRE(state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY);
        if (round % 10 == 0)
            OK(cuLaunchHostFunc(stream, count_call, NULL));
        if (round % 50 == 7) /* a stream that has nothing to do with the legacy one */
            capture_and_launch(stream);
        if (round % 20 == 0)
            OK(cuStreamSynchronize(stream));
        OK(cuEventDestroy(own));
        OK(cuStreamDestroy(stream));
    }
    return unused;
}

static void threads_share_a_context(void)
{
    pthread_t threads[THREADS];
    start();
    shared = new_event();
    common = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, work, NULL));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));
    OK(cuCtxSynchronize());
    EQUAL(calls, THREADS * ROUNDS / 10);
    OK(cuCtxDestroy(context));
}

CASES(CASE(threads_share_a_context))
