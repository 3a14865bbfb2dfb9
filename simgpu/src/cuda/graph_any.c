/*
 * Nodes of any type through one struct: the newer calls, which newer runtimes use for all of them.
 *
 * Each type goes to its own older call, so there is one meaning for both ways. What it does not do: types that
 * are not simulated (external semaphores, conditional nodes) are refused.
 */
#include <string.h>

#include "exec.h"

static CUDA_KERNEL_NODE_PARAMS kernel_of(const CUgraphNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS kernel; /* the third version has the fields of the second */
    _Static_assert(sizeof(kernel) == sizeof(params->kernel), "the versions differ");
    memcpy(&kernel, &params->kernel, sizeof(kernel));
    return kernel;
}

static CUDA_MEMSET_NODE_PARAMS set_of(const CUgraphNodeParams *params)
{
    const CUDA_MEMSET_NODE_PARAMS_v2 *m = &params->memset;
    return (CUDA_MEMSET_NODE_PARAMS){m->dst, m->pitch, m->value, m->elementSize, m->width, m->height};
}

static CUDA_HOST_NODE_PARAMS host_of(const CUgraphNodeParams *params)
{
    return (CUDA_HOST_NODE_PARAMS){params->host.fn, params->host.userData};
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS memops_of(const CUgraphNodeParams *params)
{
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *m = &params->memOp;
    return (CUDA_BATCH_MEM_OP_NODE_PARAMS){m->ctx, m->count, m->paramArray, m->flags};
}

static CUresult add_allocation(CUgraphNode *added, CUgraph graph, const CUgraphNode *after, size_t count,
                               CUgraphNodeParams *params)
{
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    _Static_assert(sizeof(allocation) == sizeof(params->alloc), "the versions differ");
    memcpy(&allocation, &params->alloc, sizeof(allocation));
    CUresult result = cuGraphAddMemAllocNode(added, graph, after, count, &allocation);
    params->alloc.dptr = allocation.dptr;
    return result;
}

static CUresult add(CUgraphNode *added, CUgraph graph, const CUgraphNode *after, size_t count,
                    CUgraphNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(params);
    CUDA_MEMSET_NODE_PARAMS set = set_of(params);
    CUDA_HOST_NODE_PARAMS host = host_of(params);
    CUDA_BATCH_MEM_OP_NODE_PARAMS memops = memops_of(params);
    CUresult result;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(added, graph, after, count, &kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(added, graph, after, count, &params->memcpy.copyParams, params->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphAddMemsetNode(added, graph, after, count, &set, params->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphAddHostNode(added, graph, after, count, &host);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphAddBatchMemOpNode(added, graph, after, count, &memops);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        result = cuGraphAddChildGraphNode(added, graph, after, count, params->graph.graph);
        return result ? result : cuGraphChildGraphNodeGetGraph(*added, &params->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return cuGraphAddEmptyNode(added, graph, after, count);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphAddEventWaitNode(added, graph, after, count, params->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphAddEventRecordNode(added, graph, after, count, params->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_allocation(added, graph, after, count, params);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(added, graph, after, count, params->free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    CUresult result = sim_enter(__func__);
    (void)data;
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return add(added, graph, dependencies, count, params);
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(added, graph, dependencies, NULL, count, params);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    CUresult result = sim_enter(__func__);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(params);
    CUDA_MEMSET_NODE_PARAMS set = set_of(params);
    CUDA_HOST_NODE_PARAMS host = host_of(params);
    CUDA_BATCH_MEM_OP_NODE_PARAMS memops = memops_of(params);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(node, &kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(node, &params->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeSetParams(node, &set);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(node, &host);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphBatchMemOpNodeSetParams(node, &memops);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeSetEvent(node, params->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeSetEvent(node, params->eventRecord.event);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    CUresult result = sim_enter(__func__);
    if (result || !params)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(params);
    CUDA_MEMSET_NODE_PARAMS set = set_of(params);
    CUDA_HOST_NODE_PARAMS host = host_of(params);
    CUDA_BATCH_MEM_OP_NODE_PARAMS memops = memops_of(params);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphExecMemcpyNodeSetParams(exec, node, &params->memcpy.copyParams, params->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphExecMemsetNodeSetParams(exec, node, &set, params->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphExecHostNodeSetParams(exec, node, &host);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphExecBatchMemOpNodeSetParams(exec, node, &memops);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphExecEventWaitNodeSetEvent(exec, node, params->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphExecEventRecordNodeSetEvent(exec, node, params->eventRecord.event);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
