/*
 * The entry points that begin, end and describe a capture.
 *
 * A capture ends in the stream and, unless it is relaxed, in the thread it began in, with every other stream's
 * work joined back. What it does not do: edge data; there is one kind of edge here.
 */
#include <stdlib.h>

#include "capture.h"

static CUresult begin(const char *function, CUstream handle, CUstreamCaptureMode mode, struct sim_graph *given,
                      const CUgraphNode *nodes, size_t count)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(function, handle, &stream);
    if (result || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_graph *graph = given ? given : sim_graph_new();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_capture_open(stream, mode, graph, (struct sim_node *const *)nodes, count);
    if (!result)
        stream->capture->given = given != NULL;
    else if (!given)
        sim_graph_free(graph);
    return result;
}

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin(__func__, stream, mode, NULL, NULL, 0);
}

CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    return cuStreamBeginCapture_v2(sim_per_thread(stream), mode);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream)
{
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult CUDAAPI cuStreamBeginCapture_ptsz(CUstream stream)
{
    return cuStreamBeginCapture(sim_per_thread(stream));
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode *nodes,
                                             const CUgraphEdgeData *data, size_t count,
                                             CUstreamCaptureMode mode)
{
    struct sim_graph *graph;
    struct sim_node *node;
    (void)data;
    CUresult result = sim_graph_resolve(handle, &graph);
    for (size_t i = 0; i < count && !result; i++) {
        result = nodes ? sim_node_resolve(nodes[i], &node) : CUDA_ERROR_INVALID_VALUE;
        if (!result && node->graph != graph)
            result = CUDA_ERROR_INVALID_VALUE;
    }
    return result ? result : begin(__func__, stream, mode, graph, nodes, count);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                                  const CUgraphEdgeData *data, size_t count,
                                                  CUstreamCaptureMode mode)
{
    return cuStreamBeginCaptureToGraph(sim_per_thread(stream), graph, nodes, data, count, mode);
}

/* ---- ending ---- */

/* Mark everything that `nodes` come after, and themselves. Returns whether a mark was new. */
static bool mark(struct sim_node *const *nodes, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->visit) {
            nodes[i]->visit = 1;
            any = true;
        }
    return any;
}

/* Has the work of every other stream been joined into the origin? */
static bool joined(const struct sim_capture *capture)
{
    bool again = true;
    for (struct sim_node *node = capture->graph->first; node; node = node->next)
        node->visit = 0;
    mark(capture->origin->tail, capture->origin->tail_count);
    while (again) {
        again = false;
        for (struct sim_node *node = capture->graph->first; node; node = node->next)
            if (node->visit && mark(node->dependencies, node->dependency_count))
                again = true;
    }
    for (const struct sim_stream *member = capture->members; member; member = member->next_member)
        for (size_t i = 0; i < member->tail_count; i++)
            if (!member->tail[i]->visit)
                return false;
    return true;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !graph)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct sim_capture *capture = stream->capture;
    *graph = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return sim_capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !sim_capture_mine(capture))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->spoilt)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct sim_graph *made = capture->graph;
    bool given = capture->given;
    sim_capture_close(capture);
    if (!result)
        *graph = (CUgraph)made;
    else if (!given)
        sim_graph_free(made);
    return result;
}

CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return cuStreamEndCapture(sim_per_thread(stream), graph);
}

/* ---- describing ---- */

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !status)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_capture_hides_legacy(stream);
    if (!result)
        *status = status_of(stream);
    return result;
}

CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
    return cuStreamIsCapturing(sim_per_thread(stream), status);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                           CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !status)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_capture_hides_legacy(stream);
    if (result)
        return result;
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = (CUgraph)stream->capture->graph;
    if (nodes)
        *nodes = (const CUgraphNode *)stream->tail;
    if (count)
        *count = stream->tail_count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                                CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    return cuStreamGetCaptureInfo_v2(sim_per_thread(stream), status, id, graph, nodes, count);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                           CUgraph *graph, const CUgraphNode **nodes,
                                           const CUgraphEdgeData **data, size_t *count)
{
    CUresult result = cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
    if (!result && data)
        *data = NULL; /* every edge is the plain one */
    return result;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                                CUgraph *graph, const CUgraphNode **nodes,
                                                const CUgraphEdgeData **data, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(sim_per_thread(stream), status, id, graph, nodes, data, count);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo(sim_per_thread(stream), status, id);
}

/* ---- changing what comes next ---- */

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *nodes,
                                                      const CUgraphEdgeData *data, size_t count,
                                                      unsigned int flags)
{
    struct sim_stream *stream;
    struct sim_node *node;
    (void)data;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    for (size_t i = 0; i < count; i++)
        if (sim_node_resolve(nodes[i], &node) || node->graph != stream->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return sim_capture_set_tail(stream, (struct sim_node *const *)nodes, count);
    return sim_capture_extend_tail(stream, (struct sim_node *const *)nodes, count);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *nodes,
                                                           const CUgraphEdgeData *data, size_t count,
                                                           unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(sim_per_thread(stream), nodes, data, count, flags);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count,
                                                   unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *nodes, size_t count,
                                                        unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies(sim_per_thread(stream), nodes, count, flags);
}
