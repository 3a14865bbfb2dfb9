/*
 * Executable graphs that are changed: a node's parameters, nodes switched off, a graph of the same shape.
 *
 * Each change shows in how long the next launch takes.
 */
#include "graph.h"

static void nodes_of_any_type_go_through_one_struct(void)
{
    CUgraphNode kernel, empty, host;
    CUgraphExec exec;
    begin();
    uint64_t ns = 2 * MS;
    void *parameters[] = {&ns};
    CUgraph graph = new_graph();
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                .kernel = {.func = spin_kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                           .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = parameters}};
    CUgraphNodeParams nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUgraphNodeParams calling = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {count_call, (void *)1}};
    CUgraphNodeParams impossible = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    OK(cuGraphAddNode(&empty, graph, NULL, NULL, 0, &nothing));
    OK(cuGraphAddNode(&kernel, graph, &empty, NULL, 1, &params));
    EQUAL(cuGraphAddNode(&host, graph, NULL, NULL, 0, &impossible), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphInstantiate(&exec, graph, 0));
    EQUAL(launch_time(exec), 2000);
    ns = 5 * MS;
    OK(cuGraphExecNodeSetParams(exec, kernel, &params));
    EQUAL(launch_time(exec), 5000);
    OK(cuGraphNodeSetParams(kernel, &params));
    OK(cuGraphAddNode(&host, graph, &kernel, NULL, 1, &calling));
    REQUIRE(launch_time(instantiate(graph)) >= 5000);
    EQUAL(calls, 1);
}

/* ---- changing an executable ---- */

static void an_executables_kernel_can_be_changed_and_switched_off(void)
{
    begin();
    CUgraph graph = new_graph();
    CUgraphNode first = add_spin(graph, NULL, MS), second = add_spin(graph, first, 2 * MS);
    CUgraphExec exec = instantiate(graph);
    uint64_t ns = 8 * MS;
    void *parameters[] = {&ns};
    CUDA_KERNEL_NODE_PARAMS params = spin_params(parameters);
    unsigned enabled;
    OK(cuGraphExecKernelNodeSetParams(exec, second, &params));
    EQUAL(launch_time(exec), 9000);
    OK(cuGraphKernelNodeGetParams(first, &params)); /* and back, from the node's own copy */
    OK(cuGraphExecKernelNodeSetParams(exec, second, &params));
    EQUAL(launch_time(exec), 2000);
    OK(cuGraphNodeSetEnabled(exec, first, 0));
    OK(cuGraphNodeGetEnabled(exec, first, &enabled));
    EQUAL(enabled, 0);
    EQUAL(launch_time(exec), 1000);
    EQUAL(launch_time(instantiate(graph)), 3000); /* the graph itself never changed */
}

static void an_executable_takes_over_a_graph_of_the_same_shape(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode empty;
    begin();
    CUgraph graph = new_graph(), same = new_graph(), longer = new_graph(), other = new_graph();
    add_spin(graph, add_spin(graph, NULL, MS), MS);
    add_spin(same, add_spin(same, NULL, 4 * MS), MS);
    add_spin(longer, add_spin(longer, add_spin(longer, NULL, MS), MS), MS);
    OK(cuGraphAddEmptyNode(&empty, other, NULL, 0));
    add_spin(other, empty, MS);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphExecUpdate(exec, same, &info));
    EQUAL(launch_time(exec), 5000);
    EQUAL(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EQUAL(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    REQUIRE(info.errorNode == empty);
}

static void an_executable_never_runs_beside_itself(void)
{
    begin();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent head = new_event(), end = new_event();
    CUgraph graph = new_graph();
    add_spin(graph, NULL, 2 * MS);
    CUgraphExec exec = instantiate(graph);
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(head, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, other));
    OK(cuEventRecord(end, other));
    EQUAL(between(head, end), 4000);
}

CASES(CASE(nodes_of_any_type_go_through_one_struct)
      CASE(an_executables_kernel_can_be_changed_and_switched_off)
      CASE(an_executable_takes_over_a_graph_of_the_same_shape) CASE(an_executable_never_runs_beside_itself))
