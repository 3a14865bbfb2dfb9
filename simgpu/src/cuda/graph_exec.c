/*
 * Executable graphs: instantiated, launched, destroyed.
 *
 * A launch puts the nodes' operations into the stream one after the other; the bytes of copies and memsets move
 * while it does so, in that order, and memory nodes take and give at that moment. Two launches of one
 * executable never overlap. What it does not do: launches from the device.
 */
#include <stdlib.h>

#include "exec.h"
#include "memop.h"
#include "objects.h"

#define KNOWN_FLAGS                                                                                                    \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                            \
     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

CUresult sim_exec_resolve(CUgraphExec handle, struct sim_exec **exec)
{
    *exec = (struct sim_exec *)handle;
    return handle && (*exec)->magic == SIM_EXEC_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void free_exec(struct sim_exec *exec)
{
    if (exec->graph)
        sim_graph_free(exec->graph);
    free(exec->order);
    exec->magic = 0;
    free(exec);
}

static CUresult instantiate(const char *function, CUgraphExec *handle, CUgraph graph_handle, cuuint64_t flags)
{
    struct sim_graph *graph;
    CUresult result = sim_enter_unsafe(function);
    if (!result)
        result = sim_graph_resolve(graph_handle, &graph);
    if (result || !handle || (flags & ~(cuuint64_t)KNOWN_FLAGS))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_exec *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->magic = SIM_EXEC_MAGIC;
    exec->flags = flags;
    exec->graph = sim_graph_copy(graph);
    exec->order = malloc((graph->count + 1) * sizeof(struct sim_node *));
    if (!exec->graph || !exec->order)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!sim_graph_sort(exec->graph, exec->order))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        result = sim_graph_memory_upload(exec->order, graph->count);
    if (result) {
        free_exec(exec);
        return result;
    }
    exec->graph->embedded = true;
    *handle = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return instantiate(__func__, exec, graph, flags);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
                                       size_t size)
{
    if (error)
        *error = NULL;
    if (log && size)
        *log = '\0';
    return instantiate(__func__, exec, graph, 0);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
                                    size_t size)
{
    return cuGraphInstantiate_v2(exec, graph, error, log, size);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(__func__, exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return cuGraphInstantiateWithParams(exec, graph, params);
}

static CUresult enter_exec(const char *function, CUgraphExec handle, struct sim_exec **exec)
{
    CUresult result = sim_enter(function);
    return result ? result : sim_exec_resolve(handle, exec);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle)
{
    struct sim_exec *exec;
    CUresult result = enter_exec(__func__, handle, &exec);
    if (!result)
        result = sim_capture_forbids();
    if (!result)
        free_exec(exec);
    return result;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    struct sim_exec *exec;
    CUresult result = enter_exec(__func__, handle, &exec);
    if (result || !flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

/* ---- launching ---- */

static CUresult launch_event(struct sim_stream *stream, const struct sim_node *node)
{
    uint64_t now = sim_submit_begin(stream);
    if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
        node->event->capture = 0;
        sim_event_record(node->event->event, stream->channel, now);
    } else {
        sim_event_wait(node->event->event, stream->channel, now);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult launch_host(struct sim_stream *stream, const struct sim_node *node)
{
    if (sim_host_start())
        return CUDA_ERROR_OPERATING_SYSTEM;
    uint64_t now = sim_submit_begin(stream);
    sim_host_push(stream->channel, node->host.fn, node->host.userData, now);
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult launch_nodes(struct sim_exec *exec, struct sim_stream *stream, struct sim_node **order, size_t count);

/* A child's nodes in their own order: sorted at each launch, for its edges may have been changed through it. */
static CUresult launch_child(struct sim_exec *exec, struct sim_stream *stream, struct sim_graph *child)
{
    struct sim_node **order = malloc((child->count + 1) * sizeof(struct sim_node *));
    CUresult result = order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && !sim_graph_sort(child, order))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = launch_nodes(exec, stream, order, child->count);
    free(order);
    return result;
}

static CUresult launch_node(struct sim_exec *exec, struct sim_stream *stream, struct sim_node *node)
{
    struct sim_op op = {.type = SIM_OP_COPY};
    CUresult result = CUDA_SUCCESS;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        op.type = SIM_OP_KERNEL;
        op.duration = node->kernel.duration;
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        result = sim_memory_copy(&node->copying.params, &op.duration);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        result = sim_memory_set(&node->setting.params, &op.duration);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        return launch_host(stream, node);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sim_memops_submit(stream, &node->memops);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return launch_child(exec, stream, node->child);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return launch_event(stream, node);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        if (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
            sim_graph_memory_unmap(node->alloc.dptr); /* what the last launch left; nothing when it left nothing */
        return sim_graph_memory_map(&node->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return sim_graph_memory_unmap(node->free);
    default:
        return CUDA_SUCCESS;
    }
    return result ? result : sim_submit(stream, &op, NULL);
}

static CUresult launch_nodes(struct sim_exec *exec, struct sim_stream *stream, struct sim_node **order,
                             size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++)
        if (!order[i]->disabled)
            result = launch_node(exec, stream, order[i]);
    return result;
}

static void wait_for_last_launch(struct sim_exec *exec, struct sim_stream *stream)
{
    uint64_t now = sim_submit_begin(stream);
    struct sim_op op = {.type = SIM_OP_WAIT_CHANNEL,
                        .target = exec->last.channel,
                        .generation = exec->last.generation,
                        .sequence = exec->last.position};
    if (exec->last.position && exec->last.channel != stream->channel && !sim_ticket_done(exec->last))
        sim_channel_push(stream->channel, &op, now);
    sim_unlock();
}

/* For a launch or an upload, which an H200 refuses to capture. */
static CUresult enter_both(const char *function, CUgraphExec handle, CUstream stream_handle, struct sim_exec **exec,
                           struct sim_stream **stream)
{
    CUresult result = sim_enter_stream(function, stream_handle, stream);
    if (!result)
        result = sim_exec_resolve(handle, exec);
    return result ? result : sim_capture_forbids_own(*stream);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    struct sim_stream *stream;
    struct sim_exec *exec;
    CUresult result = enter_both(__func__, handle, stream_handle, &exec, &stream);
    if (result)
        return result;
    wait_for_last_launch(exec, stream);
    result = launch_nodes(exec, stream, exec->order, exec->graph->count);
    sim_lock();
    exec->last = sim_channel_last(stream->channel);
    sim_unlock();
    return result;
}

CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return cuGraphLaunch(exec, sim_per_thread(stream));
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream_handle)
{
    struct sim_stream *stream;
    struct sim_exec *exec;
    CUresult result = enter_both(__func__, handle, stream_handle, &exec, &stream);
    return result ? result : sim_graph_memory_upload(exec->order, exec->graph->count);
}

CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    return cuGraphUpload(exec, sim_per_thread(stream));
}
