/*
 * Changing an executable graph: new parameters for its nodes, nodes switched off, or the whole from a graph of
 * the same shape.
 *
 * A node is named by its original in the graph. Nothing changes its type; nothing changes for launches that
 * were made before. What it does not do: change which kind of memory a copy node copies between; here every
 * kind is taken.
 */
#include <string.h>

#include "exec.h"

static struct sim_node *find(struct sim_graph *graph, const struct sim_node *original)
{
    for (struct sim_node *node = graph->first; node; node = node->next) {
        if (node->original == original)
            return node;
        struct sim_node *inside = node->type == CU_GRAPH_NODE_TYPE_GRAPH ? find(node->child, original) : NULL;
        if (inside)
            return inside;
    }
    return NULL;
}

CUresult sim_exec_target(const char *function, CUgraphExec handle, CUgraphNode original, CUgraphNodeType type,
                         const void *params, struct sim_node **node)
{
    struct sim_exec *exec;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_exec_resolve(handle, &exec);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *node = original ? find(exec->graph, (const struct sim_node *)original) : NULL;
    return *node && (*node)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode original,
                                                   const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_KERNEL, params, &node);
    return result ? result : sim_node_set_kernel(node, params);
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode original,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS whole = {0};
    if (params)
        memcpy(&whole, params, sizeof(*params));
    return cuGraphExecKernelNodeSetParams_v2(exec, original, params ? &whole : NULL);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode original,
                                                const CUDA_MEMCPY3D *params, CUcontext handle)
{
    struct sim_node *node;
    struct sim_context *context;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_MEMCPY, params, &node);
    if (!result)
        result = sim_context_resolve(handle, &context);
    if (!result)
        node->copying.params = *params;
    return result;
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode original,
                                                const CUDA_MEMSET_NODE_PARAMS *params, CUcontext handle)
{
    struct sim_node *node;
    struct sim_context *context;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_MEMSET, params, &node);
    if (!result)
        result = sim_context_resolve(handle, &context);
    if (!result)
        node->setting.params = *params;
    return result;
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode original,
                                              const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_HOST, params, &node);
    if (!result)
        node->host = *params;
    return result;
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode original, CUevent event)
{
    struct sim_node *node;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &node);
    return result ? result : sim_event_resolve(event, &node->event);
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode original, CUevent event)
{
    struct sim_node *node;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &node);
    return result ? result : sim_event_resolve(event, &node->event);
}

/* ---- switching nodes off ---- */

static CUresult switchable(const char *function, CUgraphExec handle, CUgraphNode original, const void *needed,
                           struct sim_node **node)
{
    struct sim_exec *exec;
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_exec_resolve(handle, &exec);
    if (result || !needed || !original)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *node = find(exec->graph, (const struct sim_node *)original);
    if (!*node || ((*node)->type != CU_GRAPH_NODE_TYPE_KERNEL && (*node)->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                   (*node)->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode original, unsigned int enabled)
{
    struct sim_node *node;
    CUresult result = switchable(__func__, exec, original, exec, &node);
    if (!result)
        node->disabled = !enabled;
    return result;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode original, unsigned int *enabled)
{
    struct sim_node *node;
    CUresult result = switchable(__func__, exec, original, enabled, &node);
    if (!result)
        *enabled = !node->disabled;
    return result;
}

/* ---- the whole from another graph ---- */

static CUgraphExecUpdateResult compare(struct sim_graph *to, const struct sim_graph *from,
                                       struct sim_node **culprit)
{
    *culprit = NULL;
    if (to->count != from->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    struct sim_node *node = to->first;
    for (struct sim_node *other = from->first; other; other = other->next, node = node->next) {
        *culprit = other;
        other->copy = node; /* who corresponds to whom, for the edges below */
        if (node->type != other->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (node->dependency_count != other->dependency_count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    for (struct sim_node *other = from->first; other; other = other->next)
        for (size_t i = 0; i < other->dependency_count; i++)
            if (other->copy->dependencies[i] != other->dependencies[i]->copy) {
                *culprit = other;
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
            }
    *culprit = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult update(struct sim_graph *to, const struct sim_graph *from, struct sim_node **culprit);

static CUgraphExecUpdateResult take(struct sim_node *node, const struct sim_node *from,
                                    struct sim_node **culprit)
{
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_node_set_kernel(node, &from->kernel.params) ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                                                               : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        node->copying = from->copying;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        node->setting = from->setting;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        node->host = from->host;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sim_exec_set_memops(node, &from->memops) ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                                                        : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        node->event = from->event;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return update(node->child, from->child, culprit);
    default:
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
}

static CUgraphExecUpdateResult update(struct sim_graph *to, const struct sim_graph *from,
                                      struct sim_node **culprit)
{
    CUgraphExecUpdateResult result = compare(to, from, culprit);
    struct sim_node *node = to->first;
    for (struct sim_node *other = from->first; other && !result; other = other->next, node = node->next) {
        result = take(node, other, culprit);
        if (result && !*culprit)
            *culprit = other;
    }
    return result;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                                      CUgraphExecUpdateResultInfo *info)
{
    struct sim_exec *exec;
    struct sim_graph *graph;
    struct sim_node *culprit = NULL;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_exec_resolve(handle, &exec);
    if (!result)
        result = sim_graph_resolve(graph_handle, &graph);
    if (result || !info)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    info->result = update(exec->graph, graph, &culprit);
    info->errorNode = (CUgraphNode)culprit;
    info->errorFromNode = NULL;
    return info->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
                                   CUgraphExecUpdateResult *outcome)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
    if (node)
        *node = info.errorNode;
    if (outcome)
        *outcome = result && !info.result ? CU_GRAPH_EXEC_UPDATE_ERROR : info.result;
    return result;
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode original, CUgraph handle)
{
    struct sim_node *node, *culprit;
    struct sim_graph *graph;
    CUresult result = sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_GRAPH, handle, &node);
    if (!result)
        result = sim_graph_resolve(handle, &graph);
    if (!result && update(node->child, graph, &culprit))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}
