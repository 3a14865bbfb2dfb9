/*
 * Graphs that wait for words in memory and write them: captured, built by hand, changed.
 */
#define _GNU_SOURCE /* gettid */
#include "words.h"

static CUstream stream;

static void begin(void)
{
    start_with_words();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
}

static CUstreamBatchMemOpParams wait_until(uint64_t value)
{
    return (CUstreamBatchMemOpParams){
        .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = word(0), .value64 = value}};
}

static CUstreamBatchMemOpParams write_value(uint64_t value)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = word(1), .value64 = value}};
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* Launched, the graph is held until word 0 is `value`, and not sooner; then it writes `written` to word 1. */
static void held_until(CUgraphExec exec, uint64_t value, uint64_t written)
{
    words[0] = value - 1;
    words[1] = 0;
    OK(cuGraphLaunch(exec, stream));
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EQUAL(words[1], 0);
    words[0] = value;
    OK(cuStreamSynchronize(stream));
    EQUAL(words[1], written);
}

static void captured_calls_become_nodes(void)
{
    CUgraph graph;
    CUgraphNode nodes[3];
    size_t count = 3;
    CUgraphNodeType type;
    begin();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWaitValue64(stream, word(0), 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(spin(stream, 1000));
    OK(cuStreamWriteValue64(stream, word(1), 6, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, nodes, &count));
    EQUAL(count, 3);
    OK(cuGraphNodeGetType(nodes[0], &type));
    EQUAL(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    held_until(exec, 5, 6);
    held_until(exec, 5, 6);
}

static void nodes_own_and_give_their_operations(void)
{
    CUgraph graph, clone;
    CUgraphNode node;
    begin();
    CUstreamBatchMemOpParams batch[] = {wait_until(2), write_value(3)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = context, .count = 2, .paramArray = batch}, got;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    memset(batch, 0xff, sizeof batch);
    OK(cuGraphBatchMemOpNodeGetParams(node, &got));
    EQUAL(got.count, 2);
    EQUAL(got.paramArray[0].waitValue.value64, 2);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphDestroy(graph));
    held_until(instantiate(clone), 2, 3);
}

static void an_executable_takes_new_words_but_no_new_operations(void)
{
    CUgraph graph;
    CUgraphNode node;
    begin();
    CUstreamBatchMemOpParams batch[] = {wait_until(2), write_value(3)}, fewer[] = {wait_until(4)},
                             swapped[] = {write_value(3), wait_until(2)}, newer[] = {wait_until(8), write_value(9)};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                .memOp = {.ctx = context, .count = 2, .paramArray = batch}};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CUgraphExec exec = instantiate(graph);
    params.memOp.paramArray = swapped;
    EQUAL(cuGraphExecNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    params.memOp.paramArray = fewer;
    params.memOp.count = 1;
    EQUAL(cuGraphExecNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    held_until(exec, 2, 3);
    params.memOp.paramArray = newer;
    params.memOp.count = 2;
    OK(cuGraphExecNodeSetParams(exec, node, &params));
    held_until(exec, 8, 9);
    held_until(instantiate(graph), 2, 3);
}

CASES(CASE(captured_calls_become_nodes) CASE(nodes_own_and_give_their_operations)
      CASE(an_executable_takes_new_words_but_no_new_operations))
