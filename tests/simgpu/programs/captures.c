/*
 * Stream capture: what becomes of captured calls.
 *
 * What it does not do: break rules (capture_rules.c).
 */
#include "graph.h"

static void begin_capture(CUstreamCaptureMode mode)
{
    begin();
    OK(cuStreamBeginCapture(stream, mode));
}

static size_t nodes_of(CUgraph graph)
{
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

/* ---- what becomes of calls ---- */

static void captured_work_runs_when_the_graph_is_launched(void)
{
    CUgraph graph;
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, 2 * MS));
    OK(cuLaunchHostFunc(stream, count_call, (void *)1));
    OK(spin(stream, 3 * MS));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamQuery(stream)); /* nothing was queued */
    EQUAL(nodes_of(graph), 3);
    EQUAL(calls, 0);
    REQUIRE(launch_time(instantiate(graph)) >= 5000);
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
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
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
    EQUAL(launch_time(instantiate(graph)), 6000);

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

static void a_capture_can_be_looked_at_and_steered(void)
{
    CUgraph graph, seen;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *tail;
    const CUgraphEdgeData *data;
    CUgraphNode empty;
    size_t count;
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
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

CASES(CASE(captured_work_runs_when_the_graph_is_launched) CASE(copies_and_allocations_are_captured_too)
      CASE(a_capture_spreads_by_events_and_must_be_joined)
      CASE(a_capture_can_be_looked_at_and_steered) CASE(a_capture_can_go_into_a_graph_that_exists))
