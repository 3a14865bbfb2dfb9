/*
 * Graphs: built, looked at, launched; memory nodes and user objects.
 *
 * What it does not do: change an executable (graph_updates.c).
 */
#include "graph.h"

/* ---- building and launching ---- */

static void a_graph_takes_as_long_as_its_nodes(void)
{
    begin();
    CUgraph graph = new_graph();
    add_spin(graph, add_spin(graph, NULL, 2 * MS), 3 * MS);
    add_spin(graph, NULL, MS);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphDestroy(graph)); /* the executable is a copy */
    EQUAL(launch_time(exec), 6000);
    EQUAL(launch_time(exec), 6000);
    OK(cuGraphExecDestroy(exec));
}

static void dependencies_may_point_at_nodes_added_later(void)
{
    begin();
    CUgraph graph = new_graph();
    CUgraphNode first = add_spin(graph, NULL, MS), second = add_spin(graph, NULL, MS);
    OK(cuGraphAddDependencies(graph, &second, &first, NULL, 1));
    instantiate(graph);
    CUgraphExec exec;
    OK(cuGraphAddDependencies(graph, &first, &second, NULL, 1));
    EQUAL(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE); /* a cycle */
    OK(cuGraphRemoveDependencies(graph, &second, &first, NULL, 1));
    instantiate(graph);
    EQUAL(cuGraphRemoveDependencies(graph, &second, &first, NULL, 1), CUDA_ERROR_INVALID_VALUE);
}

static void the_shape_of_a_graph_can_be_read(void)
{
    CUgraphNode nodes[4], from[4], to[4];
    CUgraphNodeType type;
    size_t count = 0;
    begin();
    CUgraph graph = new_graph();
    CUgraphNode a = add_spin(graph, NULL, 1), b = add_spin(graph, a, 1), c = add_spin(graph, b, 1);
    OK(cuGraphGetNodes(graph, NULL, &count));
    EQUAL(count, 3);
    count = 4;
    OK(cuGraphGetRootNodes(graph, nodes, &count));
    EQUAL(count, 1);
    REQUIRE(nodes[0] == a && nodes[1] == NULL);
    count = 4;
    OK(cuGraphGetEdges(graph, from, to, NULL, &count));
    EQUAL(count, 2);
    REQUIRE(from[1] == b && to[1] == c);
    count = 4;
    OK(cuGraphNodeGetDependentNodes(a, nodes, NULL, &count));
    REQUIRE(count == 1 && nodes[0] == b);
    OK(cuGraphNodeGetType(c, &type));
    EQUAL(type, CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphDestroyNode(b));
    count = 4;
    OK(cuGraphNodeGetDependencies(c, nodes, NULL, &count));
    EQUAL(count, 0);
}

static void clones_and_child_graphs_are_copies(void)
{
    CUgraph clone, inside;
    CUgraphNode child, found;
    begin();
    CUgraph graph = new_graph(), outer = new_graph();
    CUgraphNode node = add_spin(graph, NULL, 2 * MS);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, node, clone));
    REQUIRE(found != node);
    OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, graph));
    add_spin(graph, node, 5 * MS); /* of no effect on the copies */
    add_spin(outer, child, MS);
    OK(cuGraphChildGraphNodeGetGraph(child, &inside));
    EQUAL(cuGraphDestroy(inside), CUDA_ERROR_INVALID_VALUE);
    EQUAL(launch_time(instantiate(clone)), 2000);
    EQUAL(launch_time(instantiate(outer)), 3000);
    EQUAL(launch_time(instantiate(graph)), 7000);
}

/* ---- every type of node ---- */

static void copies_and_memsets_move_bytes_in_order(void)
{
    CUdeviceptr device;
    CUgraphNode set, copy, host;
    char result[64];
    begin();
    OK(cuMemAlloc(&device, 64));
    CUgraph graph = new_graph();
    CUDA_MEMSET_NODE_PARAMS setting = {.dst = device, .elementSize = 1, .width = 64, .height = 1, .value = 7};
    CUDA_MEMCPY3D copying = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = device,
                             .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = result, .WidthInBytes = 64, .Height = 1,
                             .Depth = 1};
    CUDA_HOST_NODE_PARAMS calling = {.fn = count_call, .userData = (void *)5};
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &setting, context));
    OK(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &copying, context));
    OK(cuGraphAddHostNode(&host, graph, &copy, 1, &calling));
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 64; i++)
        EQUAL(result[i], 7);
    EQUAL(calls, 5);
    setting.value = 9;
    OK(cuGraphExecMemsetNodeSetParams(exec, set, &setting, context));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(result[63], 9);
    EQUAL(calls, 10);
}

static void event_nodes_record_and_wait(void)
{
    CUgraphNode recording, waiting;
    begin();
    CUevent inside = new_event(), gate = new_event(), end = new_event(), head = new_event();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = new_graph();
    OK(cuGraphAddEventWaitNode(&waiting, graph, NULL, 0, gate));
    CUgraphNode node = add_spin(graph, waiting, 2 * MS);
    OK(cuGraphAddEventRecordNode(&recording, graph, &node, 1, inside));
    add_spin(graph, recording, 3 * MS);
    CUgraphExec exec = instantiate(graph);
    OK(spin(other, HEAD_START));
    OK(cuEventRecord(head, other));
    OK(spin(other, 4 * MS));
    OK(cuEventRecord(gate, other));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(end, stream));
    EQUAL(between(head, inside), 6000);
    EQUAL(between(inside, end), 3000);
}

/* ---- memory ---- */

static void memory_nodes_hold_memory_from_launch_to_free(void)
{
    size_t before, during, total;
    CUgraphNode allocation, freeing;
    begin();
    CUgraph graph = new_graph();
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
                                         .bytesize = 64 << 20};
    OK(cuMemGetInfo(&before, &total));
    OK(cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &params));
    REQUIRE(params.dptr != 0);
    CUgraphExec exec = instantiate(graph);
    OK(cuMemGetInfo(&during, &total));
    EQUAL(during, before);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo(&during, &total));
    EQUAL(before - during, 64 << 20);
    EQUAL(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE); /* it was not freed since */
    CUgraph later = new_graph();
    OK(cuGraphAddMemFreeNode(&freeing, later, NULL, 0, params.dptr));
    OK(cuGraphLaunch(instantiate(later), stream));
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceGraphMemTrim(0));
    OK(cuMemGetInfo(&during, &total));
    EQUAL(during, before);
    CUgraph clone;
    EQUAL(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- user objects ---- */

static void user_objects_live_as_long_as_their_last_reference(void)
{
    CUuserObject object;
    begin();
    CUgraph graph = new_graph();
    OK(cuUserObjectCreate(&object, (void *)1, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuUserObjectRetain(object, 2));
    OK(cuUserObjectRelease(object, 2));
    EQUAL(calls, 0);
    OK(cuGraphDestroy(graph));
    EQUAL(calls, 1);
}

CASES(CASE(a_graph_takes_as_long_as_its_nodes) CASE(dependencies_may_point_at_nodes_added_later)
      CASE(the_shape_of_a_graph_can_be_read) CASE(clones_and_child_graphs_are_copies)
      CASE(copies_and_memsets_move_bytes_in_order) CASE(event_nodes_record_and_wait)
      CASE(memory_nodes_hold_memory_from_launch_to_free)
      CASE(user_objects_live_as_long_as_their_last_reference))
