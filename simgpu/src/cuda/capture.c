/*
 * Stream capture: calls become nodes of a graph instead of work.
 *
 * A capture begins in one stream and spreads to others through events recorded in it; each stream of it keeps
 * the nodes its next one depends on. Calls that would be unsafe are refused by the mode of the capture and of
 * the calling thread, and spoil the capture: its end then reports that and gives no graph.
 * Invariant: everything here is changed with `captures_lock` held, except a stream's own tail.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"

static pthread_mutex_t captures_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_capture *captures;
static _Atomic unsigned capture_count; /* so that calls outside any capture pay one load */
static _Atomic uint64_t next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static _Thread_local char thread_mark; /* its address names the thread */

bool sim_stream_capturing(const struct sim_stream *stream)
{
    return stream->capture != NULL;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- what is refused ---- */

CUresult sim_capture_spoil(struct sim_capture *capture, CUresult why)
{
    capture->spoilt = true;
    return why;
}

/* Does this capture forbid unsafe calls in the calling thread? */
static bool forbids(const struct sim_capture *capture)
{
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == &thread_mark)
        return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (capture_count == 0)
        return result;
    pthread_mutex_lock(&captures_lock);
    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        if (forbids(capture))
            result = sim_capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&captures_lock);
    return result;
}

CUresult sim_capture_forbids_stream(struct sim_stream *stream)
{
    if (capture_count == 0)
        return CUDA_SUCCESS;
    if (stream->capture)
        return sim_capture_spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUresult result = sim_capture_forbids_legacy_use(stream);
    return result ? result : sim_capture_forbids();
}

CUresult sim_capture_forbids_legacy_use(struct sim_stream *stream)
{
    if (capture_count == 0 || stream != stream->context->legacy)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&captures_lock);
    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        for (struct sim_stream *member = capture->members; member; member = member->next_member)
            if (member->context == stream->context && !(member->flags & CU_STREAM_NON_BLOCKING))
                result = sim_capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    pthread_mutex_unlock(&captures_lock);
    return result;
}

CUresult sim_capture_forbids_legacy(struct sim_context *context)
{
    CUresult result = sim_capture_forbids_legacy_use(context->legacy);
    return result ? result : sim_capture_forbids();
}

static struct sim_capture *find(uint64_t id)
{
    struct sim_capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult sim_capture_forbids_event(const struct sim_recorder *recorder)
{
    if (recorder->capture) {
        pthread_mutex_lock(&captures_lock);
        struct sim_capture *capture = find(recorder->capture);
        if (capture)
            capture->spoilt = true;
        pthread_mutex_unlock(&captures_lock);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return sim_capture_forbids();
}

/* ---- members and their tails ---- */

CUresult sim_capture_set_tail(struct sim_stream *stream, struct sim_node *const *nodes, size_t count)
{
    struct sim_node **tail = malloc((count + 1) * sizeof(struct sim_node *));
    if (!tail)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (count)
        memcpy(tail, nodes, count * sizeof(struct sim_node *));
    free(stream->tail);
    stream->tail = tail;
    stream->tail_count = count;
    return CUDA_SUCCESS;
}

CUresult sim_capture_extend_tail(struct sim_stream *stream, struct sim_node *const *nodes, size_t count)
{
    struct sim_node **tail = realloc(stream->tail, (stream->tail_count + count + 1) * sizeof(struct sim_node *));
    if (!tail)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->tail = tail;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < stream->tail_count; j++)
            known |= tail[j] == nodes[i];
        if (!known)
            tail[stream->tail_count++] = nodes[i];
    }
    return CUDA_SUCCESS;
}

static CUresult join(struct sim_stream *stream, struct sim_capture *capture, struct sim_node *const *nodes,
                     size_t count)
{
    CUresult result = sim_capture_set_tail(stream, nodes, count);
    if (result)
        return result;
    pthread_mutex_lock(&captures_lock);
    stream->capture = capture;
    stream->next_member = capture->members;
    capture->members = stream;
    pthread_mutex_unlock(&captures_lock);
    return CUDA_SUCCESS;
}

CUresult sim_capture_add(struct sim_stream *stream, const struct sim_node *like, struct sim_node **added)
{
    struct sim_capture *capture = stream->capture;
    struct sim_node *node;
    if (capture->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUresult result = sim_graph_add(capture->graph, stream->tail, stream->tail_count, like, &node);
    if (!result)
        result = sim_capture_set_tail(stream, &node, 1);
    if (!result && added)
        *added = node;
    return result ? sim_capture_spoil(capture, result) : CUDA_SUCCESS;
}

/* ---- events ---- */

CUresult sim_capture_record(struct sim_stream *stream, struct sim_recorder *recorder, bool external)
{
    if (external) {
        struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event = recorder};
        return sim_capture_add(stream, &node, NULL);
    }
    if (stream->capture->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    size_t size = stream->tail_count * sizeof(struct sim_node *);
    struct sim_node **nodes = malloc(size + sizeof(struct sim_node *));
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(nodes, stream->tail, size);
    free(recorder->captured);
    recorder->captured = nodes;
    recorder->captured_count = stream->tail_count;
    recorder->capture = stream->capture->id;
    return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_recorder *recorder, bool external)
{
    struct sim_capture *own = stream->capture;
    if (own && own->spoilt)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (own && external) {
        struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event = recorder};
        return sim_capture_add(stream, &node, NULL);
    }
    if (own && !recorder->capture)
        return sim_capture_spoil(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    pthread_mutex_lock(&captures_lock);
    struct sim_capture *other = find(recorder->capture);
    pthread_mutex_unlock(&captures_lock);
    if (!other)
        return own ? sim_capture_spoil(own, CUDA_ERROR_CAPTURED_EVENT) : CUDA_ERROR_CAPTURED_EVENT;
    if (own && own != other)
        return sim_capture_spoil(own, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    if (!own && stream == stream->context->legacy)
        return sim_capture_spoil(other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!own)
        return join(stream, other, recorder->captured, recorder->captured_count);
    return sim_capture_extend_tail(stream, recorder->captured, recorder->captured_count);
}

/* ---- beginning and ending ---- */

CUresult sim_capture_open(struct sim_stream *stream, CUstreamCaptureMode mode, struct sim_graph *graph,
                          struct sim_node *const *tail, size_t count)
{
    struct sim_capture *capture = calloc(1, sizeof(*capture));
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *capture = (struct sim_capture){
        .id = next_id++, .mode = mode, .thread = &thread_mark, .origin = stream, .graph = graph};
    CUresult result = join(stream, capture, tail, count);
    if (result) {
        free(capture);
        return result;
    }
    pthread_mutex_lock(&captures_lock);
    capture->next = captures;
    captures = capture;
    capture_count++;
    pthread_mutex_unlock(&captures_lock);
    return CUDA_SUCCESS;
}

bool sim_capture_mine(const struct sim_capture *capture)
{
    return capture->thread == &thread_mark;
}

void sim_capture_close(struct sim_capture *capture)
{
    pthread_mutex_lock(&captures_lock);
    for (struct sim_stream *member = capture->members; member; member = member->next_member) {
        member->capture = NULL;
        free(member->tail);
        member->tail = NULL;
        member->tail_count = 0;
    }
    struct sim_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture_count--;
    pthread_mutex_unlock(&captures_lock);
    free(capture);
}

void sim_capture_stream_gone(struct sim_stream *stream)
{
    pthread_mutex_lock(&captures_lock);
    struct sim_capture *capture = stream->capture;
    struct sim_stream **link = &capture->members;
    while (*link != stream)
        link = &(*link)->next_member;
    *link = stream->next_member;
    capture->spoilt = true;
    bool orphaned = capture->origin == stream;
    free(stream->tail);
    pthread_mutex_unlock(&captures_lock);
    if (orphaned) { /* nobody can end it any more */
        struct sim_graph *graph = capture->given ? NULL : capture->graph;
        sim_capture_close(capture);
        if (graph)
            sim_graph_free(graph);
    }
}
