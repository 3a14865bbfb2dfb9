/*
 * How a copy or memset is called: on a stream, captured, or waited for.
 *
 * A synchronous copy that touches host memory first waits for what its stream holds and then for itself;
 * between two places of cards, and for memsets, the host goes on at once, as CUDA documents it. A captured
 * call becomes a node. What it does not do: move bytes (copy.c).
 */
#include "memory.h"

static CUresult begin(const struct sim_copy_call *call, struct sim_stream **stream)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(call->function, &context);
    if (!result)
        result = sim_stream_resolve(call->stream, call->per_thread, stream);
    if (result)
        return result;
    return call->synchronous ? sim_capture_forbids_own(*stream) : sim_capture_forbids_legacy_use(*stream);
}

static CUresult capture_copy(struct sim_stream *stream, const CUDA_MEMCPY3D *params)
{
    struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    node.copying.params = *params;
    node.copying.context = stream->context;
    return sim_capture_add(stream, &node, NULL);
}

static CUresult capture_set(struct sim_stream *stream, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    node.setting.params = *params;
    node.setting.context = stream->context;
    return sim_capture_add(stream, &node, NULL);
}

static CUresult submit(struct sim_stream *stream, uint64_t duration, bool waits)
{
    struct sim_ticket ticket;
    if (!duration)
        return CUDA_SUCCESS;
    CUresult result = sim_submit_copy(stream, duration, &ticket);
    if (!result && waits)
        sim_wait_ticket(ticket);
    return result;
}

CUresult sim_copy(const struct sim_copy_call *call, const CUDA_MEMCPY3D *params)
{
    struct sim_stream *stream;
    uint64_t duration;
    bool waits;
    CUresult result = begin(call, &stream);
    if (!result && sim_stream_capturing(stream))
        return capture_copy(stream, params); /* checked when it runs: a node may bring the memory */
    if (!result)
        result = sim_memory_copy_reach(params, &waits);
    if (result)
        return result;
    waits = waits && call->synchronous;
    if (waits)
        result = sim_stream_drain(stream);
    if (!result)
        result = sim_memory_copy(params, &duration);
    return result ? result : submit(stream, duration, waits);
}

CUresult sim_set(const struct sim_copy_call *call, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct sim_stream *stream;
    uint64_t duration;
    CUresult result = begin(call, &stream);
    if (result)
        return result;
    if (sim_stream_capturing(stream))
        return capture_set(stream, params);
    result = sim_memory_set(params, &duration);
    return result ? result : submit(stream, duration, false);
}
