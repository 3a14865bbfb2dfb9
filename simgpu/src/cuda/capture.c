/*
 * Stream capture: calls become nodes of a graph instead of work.
 *
 * A capture begins in one stream and spreads to others through events recorded in it; each stream of it keeps
 * the nodes its next one depends on. A call that is refused (capture_rules.c) spoils the capture: its end then
 * reports that and gives no graph.
 * Invariant: everything here is changed with `sim_captures_lock` held, except a stream's own tail.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"

pthread_mutex_t sim_captures_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_capture *sim_captures;
_Atomic unsigned sim_capture_count;
static _Atomic uint64_t next_id = 1;
static _Thread_local char thread_mark; /* its address names the thread */

bool sim_stream_capturing(const struct sim_stream *stream)
{
    return stream->capture != NULL;
}

CUresult sim_capture_spoil(struct sim_capture *capture, CUresult why)
{
    capture->spoilt = true;
    return why;
}

struct sim_capture *sim_capture_find(uint64_t id)
{
    struct sim_capture *capture = sim_captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
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
    pthread_mutex_lock(&sim_captures_lock);
    stream->capture = capture;
    stream->next_member = capture->members;
    capture->members = stream;
    pthread_mutex_unlock(&sim_captures_lock);
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
    pthread_mutex_lock(&sim_captures_lock);
    struct sim_capture *other = sim_capture_find(recorder->capture);
    pthread_mutex_unlock(&sim_captures_lock);
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
    pthread_mutex_lock(&sim_captures_lock);
    capture->next = sim_captures;
    sim_captures = capture;
    sim_capture_count++;
    pthread_mutex_unlock(&sim_captures_lock);
    return CUDA_SUCCESS;
}

bool sim_capture_mine(const struct sim_capture *capture)
{
    return capture->thread == &thread_mark;
}

void sim_capture_close(struct sim_capture *capture)
{
    pthread_mutex_lock(&sim_captures_lock);
    for (struct sim_stream *member = capture->members; member; member = member->next_member) {
        member->capture = NULL;
        free(member->tail);
        member->tail = NULL;
        member->tail_count = 0;
    }
    struct sim_capture **link = &sim_captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    sim_capture_count--;
    pthread_mutex_unlock(&sim_captures_lock);
    free(capture);
}

void sim_capture_stream_gone(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_captures_lock);
    struct sim_capture *capture = stream->capture;
    struct sim_stream **link = &capture->members;
    while (*link != stream)
        link = &(*link)->next_member;
    *link = stream->next_member;
    capture->spoilt = true;
    bool orphaned = capture->origin == stream;
    free(stream->tail);
    pthread_mutex_unlock(&sim_captures_lock);
    if (orphaned) { /* nobody can end it any more */
        struct sim_graph *graph = capture->given ? NULL : capture->graph;
        sim_capture_close(capture);
        if (graph)
            sim_graph_free(graph);
    }
}
