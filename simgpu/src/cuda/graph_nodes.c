/*
 * Nodes other than kernels: made, asked for and given new parameters, on a graph.
 *
 * The same changes on an executable graph are in graph_update.c. An allocation node gets its address when it is
 * made, which stays its own for the graph's life. Words are graph_memop.c's. What it does not do: nodes for
 * external semaphores and conditional nodes; those calls say that they are not simulated.
 */
#include <string.h>

#include "graph.h"

CUresult sim_graph_add_call(const char *function, CUgraphNode *added, CUgraph handle,
                            const CUgraphNode *dependencies, size_t count, const struct sim_node *like)
{
    struct sim_graph *graph;
    struct sim_node *node;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_graph_resolve(handle, &graph);
    if (result || !added || (count && !dependencies))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_add(graph, (struct sim_node *const *)dependencies, count, like, &node);
    if (!result)
        *added = (CUgraphNode)node;
    return result;
}

CUresult sim_node_typed(const char *function, CUgraphNode handle, CUgraphNodeType type, const void *params,
                        struct sim_node **node)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_node_resolve(handle, node);
    if (!result && (!params || (*node)->type != type))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    struct sim_node *node;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_node_resolve(handle, &node);
    if (result || !type)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                     size_t count)
{
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

/* ---- copies and memsets ---- */

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                      size_t count, const CUDA_MEMCPY3D *params, CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_context_resolve(handle, &context);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copying = {*params, context}};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

SIM_GET_PARAMS(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copying.params)
SIM_SET_PARAMS(cuGraphMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copying.params)

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                      size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_context_resolve(handle, &context);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .setting = {*params, context}};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

SIM_GET_PARAMS(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, setting.params)
SIM_SET_PARAMS(cuGraphMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, setting.params)

/* ---- host functions ---- */

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                    size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = *params};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

SIM_GET_PARAMS(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host)
SIM_SET_PARAMS(cuGraphHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host)

/* ---- child graphs ---- */

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                          size_t count, CUgraph handle)
{
    struct sim_graph *child;
    CUresult result = sim_graph_resolve(handle, &child);
    if (result || child->has_memory_nodes)
        return result ? result : CUDA_ERROR_NOT_SUPPORTED;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = child};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *child)
{
    struct sim_node *node;
    CUresult result = sim_node_typed(__func__, handle, CU_GRAPH_NODE_TYPE_GRAPH, child, &node);
    if (!result)
        *child = (CUgraph)node->child;
    return result;
}

/* ---- events ---- */

static CUresult add_event(const char *function, CUgraphNodeType type, CUgraphNode *added, CUgraph graph,
                          const CUgraphNode *dependencies, size_t count, CUevent event)
{
    struct sim_node like = {.type = type};
    CUresult result = sim_event_resolve(event, &like.event);
    return result ? result : sim_graph_add_call(function, added, graph, dependencies, count, &like);
}

static CUresult get_event(const char *function, CUgraphNodeType type, CUgraphNode handle, CUevent *event)
{
    struct sim_node *node;
    CUresult result = sim_node_typed(function, handle, type, event, &node);
    if (!result)
        *event = (CUevent)node->event;
    return result;
}

static CUresult set_event(const char *function, CUgraphNodeType type, CUgraphNode handle, CUevent event)
{
    struct sim_node *node;
    CUresult result = sim_node_typed(function, handle, type, event, &node);
    return result ? result : sim_event_resolve(event, &node->event);
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                           size_t count, CUevent event)
{
    return add_event(__func__, CU_GRAPH_NODE_TYPE_EVENT_RECORD, added, graph, dependencies, count, event);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                         size_t count, CUevent event)
{
    return add_event(__func__, CU_GRAPH_NODE_TYPE_WAIT_EVENT, added, graph, dependencies, count, event);
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(__func__, CU_GRAPH_NODE_TYPE_EVENT_RECORD, node, event);
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(__func__, CU_GRAPH_NODE_TYPE_WAIT_EVENT, node, event);
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(__func__, CU_GRAPH_NODE_TYPE_EVENT_RECORD, node, event);
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(__func__, CU_GRAPH_NODE_TYPE_WAIT_EVENT, node, event);
}

/* ---- memory ---- */

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                        size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_memory_reserve(context, params);
    if (result)
        return result;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *params};
    result = sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
    if (result)
        sim_graph_memory_release(params->dptr);
    return result;
}

SIM_GET_PARAMS(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                       size_t count, CUdeviceptr pointer)
{
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = pointer};
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

SIM_GET_PARAMS(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr, free)
