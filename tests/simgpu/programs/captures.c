/*
 * Stream capture: what becomes of calls, and which are refused.
 *
 * What is refused and how is the table of the CUDA documentation: by the capture's mode, by the thread's, and by
 * what the call would make depend on what.
 */
#include "client.h"

#include <pthread.h>
#include <stdbool.h>

#define HEAD_START (200 * MS)

static CUstream stream;

static void begin(CUstreamCaptureMode mode)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, mode));
}

static size_t nodes_of(CUgraph graph)
{
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static long launch_time(CUgraph graph)
{
    CUgraphExec exec;
    CUevent from = new_event(), to = new_event();
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(from, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(to, stream));
    return between(from, to);
}

static void is_spoilt(void)
{
    CUgraph graph = (CUgraph)1;
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EQUAL(spin(stream, MS), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    REQUIRE(graph == NULL);
    OK(spin(stream, MS)); /* and everything is as before */
    OK(cuStreamSynchronize(stream));
}

/* ---- what becomes of calls ---- */

static _Atomic int calls;

static void count_call(void *unused)
{
    (void)unused;
    calls++;
}

static void captured_work_runs_when_the_graph_is_launched(void)
{
    CUgraph graph;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, 2 * MS));
    OK(cuLaunchHostFunc(stream, count_call, NULL));
    OK(spin(stream, 3 * MS));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamQuery(stream)); /* nothing was queued */
    EQUAL(nodes_of(graph), 3);
    EQUAL(calls, 0);
    REQUIRE(launch_time(graph) >= 5000);
    EQUAL(calls, 1);
}

static void copies_and_allocations_are_captured_too(void)
{
    CUgraph graph;
    CUdeviceptr fixed, inside;
    CUgraphExec exec;
    char bytes[64] = {0}, back[64] = {0};
    start();
    OK(cuMemAlloc(&fixed, 64));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemcpyHtoDAsync(fixed, bytes, 64, stream));
    OK(cuMemsetD8Async(fixed, 3, 32, stream));
    OK(cuMemAllocAsync(&inside, 1 << 20, stream));
    OK(cuMemcpyDtoDAsync(inside, fixed, 64, stream));
    OK(cuMemcpyDtoHAsync(back, inside, 64, stream));
    OK(cuMemFreeAsync(inside, stream));
    OK(cuStreamEndCapture(stream, &graph));
    EQUAL(nodes_of(graph), 6);
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round < 4; round++) {
        memset(bytes, round, sizeof(bytes));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        EQUAL(back[0], 3);
        EQUAL(back[63], round);
    }
}

static void a_capture_spreads_by_events_and_must_be_joined(void)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork = new_event(), join = new_event();
    OK(spin(stream, MS));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(second, fork, 0));
    OK(cuStreamIsCapturing(second, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(spin(second, 2 * MS));
    OK(cuEventRecord(join, second));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(spin(stream, 3 * MS));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamIsCapturing(second, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_NONE);
    size_t edges = 0;
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
    EQUAL(edges, 3);
    EQUAL(launch_time(graph), 6000);

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(second, fork, 0));
    OK(spin(second, MS));
    EQUAL(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(second, fork, 0));
    OK(spin(second, MS));
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    REQUIRE(graph == NULL);
}

static void a_graph_launched_into_a_capture_becomes_its_child(void)
{
    CUgraph inner, outer;
    CUgraphExec exec;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, 2 * MS));
    OK(cuStreamEndCapture(stream, &inner));
    OK(cuGraphInstantiate(&exec, inner, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGraphLaunch(exec, stream));
    OK(spin(stream, MS));
    OK(cuStreamEndCapture(stream, &outer));
    OK(cuGraphExecDestroy(exec));
    EQUAL(nodes_of(outer), 2);
    EQUAL(launch_time(outer), 3000);
}

static void a_capture_can_be_looked_at_and_steered(void)
{
    CUgraph graph, seen;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *tail;
    const CUgraphEdgeData *data;
    CUgraphNode empty;
    size_t count;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, MS));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &seen, &tail, &data, &count));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EQUAL(count, 1);
    OK(cuGraphAddEmptyNode(&empty, seen, tail, count));
    OK(cuStreamUpdateCaptureDependencies(stream, &empty, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(spin(stream, MS));
    OK(cuStreamEndCapture(stream, &graph));
    REQUIRE(graph == seen);
    EQUAL(nodes_of(graph), 3);
    OK(cuGraphNodeGetDependentNodes(empty, NULL, NULL, &count));
    EQUAL(count, 1);
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void a_capture_can_go_into_a_graph_that_exists(void)
{
    CUgraph graph, same;
    CUgraphNode empty;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &empty, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(spin(stream, MS));
    OK(cuStreamEndCapture(stream, &same));
    REQUIRE(same == graph);
    EQUAL(nodes_of(graph), 2);
}

/* ---- what is refused ---- */

static void waiting_for_what_captures_spoils_it(void)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED); /* no mode allows this */
    EQUAL(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    is_spoilt();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    is_spoilt();
}

static void an_event_of_a_capture_cannot_be_queried(void)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    EQUAL(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    is_spoilt();
    OK(cuEventRecord(event, stream)); /* recorded outside, it is an event again */
    OK(cuEventSynchronize(event));
}

static void work_outside_must_not_be_waited_for_inside(void)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent outside = new_event();
    OK(cuEventRecord(outside, new_stream(CU_STREAM_NON_BLOCKING)));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQUAL(cuStreamWaitEvent(stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    is_spoilt();
}

static void the_legacy_stream_must_not_depend_on_a_capture(void)
{
    start();
    stream = new_stream(CU_STREAM_DEFAULT);
    EQUAL(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQUAL(spin(NULL, MS), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    is_spoilt();
    CUstream free_running = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(free_running, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(spin(NULL, MS)); /* that one has nothing to do with it */
}

struct attempt {
    CUstreamCaptureMode mode;
    CUresult result;
};

/* An unsafe call: the event has nothing to do with the capture. */
static void *query_in_mode(void *argument)
{
    struct attempt *attempt = argument;
    CUevent event;
    OK(cuCtxSetCurrent(context));
    OK(cuEventCreate(&event, 0));
    OK(cuThreadExchangeStreamCaptureMode(&attempt->mode));
    attempt->result = cuEventQuery(event);
    return NULL;
}

static CUresult query_in_another_thread(CUstreamCaptureMode mode)
{
    pthread_t thread;
    struct attempt attempt = {.mode = mode};
    OK(pthread_create(&thread, NULL, query_in_mode, &attempt));
    OK(pthread_join(thread, NULL));
    return attempt.result;
}

static CUresult query_in_this_thread(CUstreamCaptureMode mode)
{
    struct attempt attempt = {.mode = mode};
    query_in_mode(&attempt);
    OK(cuThreadExchangeStreamCaptureMode(&attempt.mode)); /* back to what it was */
    return attempt.result;
}

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static void unsafe_calls_are_refused_by_mode(void)
{
    static const struct {
        CUstreamCaptureMode capture, thread;
        bool here, elsewhere; /* refused in the capturing thread, in another */
    } table[] = {
        {GLOBAL, GLOBAL, true, true},    {GLOBAL, LOCAL, true, false},   {GLOBAL, RELAXED, false, false},
        {LOCAL, GLOBAL, true, false},    {LOCAL, LOCAL, true, false},    {LOCAL, RELAXED, false, false},
        {RELAXED, GLOBAL, false, false}, {RELAXED, LOCAL, false, false}, {RELAXED, RELAXED, false, false},
    };
    CUgraph graph;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CUresult spoilt = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        OK(cuStreamBeginCapture(stream, table[i].capture));
        EQUAL(query_in_this_thread(table[i].thread), table[i].here ? refused : 0);
        EQUAL(cuStreamEndCapture(stream, &graph), table[i].here ? spoilt : 0);
        OK(cuStreamBeginCapture(stream, table[i].capture));
        EQUAL(query_in_another_thread(table[i].thread), table[i].elsewhere ? refused : 0);
        EQUAL(cuStreamEndCapture(stream, &graph), table[i].elsewhere ? spoilt : 0);
    }
}

static void unsafe_calls_of_every_kind_are_refused(void)
{
    CUdeviceptr pointer;
    CUstream other;
    CUgraph graph;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    for (int i = 0; i < 5; i++) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CUresult result = i == 0   ? cuMemAlloc(&pointer, 1)
                          : i == 1 ? cuCtxSynchronize()
                          : i == 2 ? cuStreamSynchronize(other)
                          : i == 3 ? cuEventSynchronize(event)
                                   : cuMemcpy(0, 0, 1);
        REQUIRE(result != CUDA_SUCCESS);
        EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

static void *end_capture(void *result)
{
    CUgraph graph;
    OK(cuCtxSetCurrent(context));
    *(CUresult *)result = cuStreamEndCapture(stream, &graph);
    return NULL;
}

static void a_capture_ends_in_its_own_thread_unless_relaxed(void)
{
    pthread_t thread;
    CUresult result;
    CUgraph graph;
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    OK(pthread_create(&thread, NULL, end_capture, &result));
    OK(pthread_join(thread, NULL));
    EQUAL(result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(pthread_create(&thread, NULL, end_capture, &result));
    OK(pthread_join(thread, NULL));
    OK(result);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static void destroying_the_capturing_stream_ends_the_capture(void)
{
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, MS));
    OK(cuStreamDestroy(stream));
    OK(cuCtxSynchronize()); /* nothing captures any more */
}

CASES(CASE(captured_work_runs_when_the_graph_is_launched) CASE(copies_and_allocations_are_captured_too)
      CASE(a_capture_spreads_by_events_and_must_be_joined) CASE(a_graph_launched_into_a_capture_becomes_its_child)
      CASE(a_capture_can_be_looked_at_and_steered) CASE(a_capture_can_go_into_a_graph_that_exists)
      CASE(waiting_for_what_captures_spoils_it) CASE(an_event_of_a_capture_cannot_be_queried)
      CASE(work_outside_must_not_be_waited_for_inside) CASE(the_legacy_stream_must_not_depend_on_a_capture)
      CASE(unsafe_calls_are_refused_by_mode) CASE(unsafe_calls_of_every_kind_are_refused)
      CASE(a_capture_ends_in_its_own_thread_unless_relaxed) CASE(destroying_the_capturing_stream_ends_the_capture))
