/*
 * Nodes of a graph that wait for words in memory or write them.
 *
 * A node's operations are its own copy. On an executable graph what they wait for or write may be changed, how
 * many there are and of which types may not. What it does not do: queue them (memop.c).
 */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "memop.h"

CUresult sim_node_set_memops(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    CUresult result = sim_memops_check(params);
    if (result)
        return result;
    size_t size = params->count * sizeof(*params->paramArray);
    CUstreamBatchMemOpParams *copy = malloc(size), *before = node->memops.paramArray;
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, params->paramArray, size);
    node->memops = *params;
    node->memops.paramArray = copy;
    free(before);
    return CUDA_SUCCESS;
}

CUresult sim_exec_set_memops(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    if (params->count != node->memops.count || params->ctx != node->memops.ctx || !params->paramArray)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < params->count; i++)
        if (params->paramArray[i].operation != node->memops.paramArray[i].operation)
            return CUDA_ERROR_INVALID_VALUE;
    return sim_node_set_memops(node, params);
}

CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                          size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct sim_context *context;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_context_resolve(params->ctx, &context);
    if (result)
        return result;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memops = *params};
    return sim_graph_add_call(__func__, added, graph, dependencies, count, &like);
}

SIM_GET_PARAMS(cuGraphBatchMemOpNodeGetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, memops)

CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(CUgraphNode handle, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result = sim_node_typed(__func__, handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, &node);
    return result ? result : sim_node_set_memops(node, params);
}

CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode original,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result =
        sim_exec_target(__func__, exec, original, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, &node);
    return result ? result : sim_exec_set_memops(node, params);
}
