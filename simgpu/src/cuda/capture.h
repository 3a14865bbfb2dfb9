/*
 * Between capture.c (captures), capture_rules.c (what is refused meanwhile) and capture_calls.c (the entry points
 * that begin, end and describe a capture).
 *
 * What it does not do: serve the rest of libcuda; they ask through driver.h and add nodes through graph.h.
 */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "graph.h"

struct sim_capture { /* a capture under way */
    uint64_t id;
    CUstreamCaptureMode mode;
    const void *thread; /* that began it */
    struct sim_stream *origin;
    struct sim_stream *members; /* the streams that are in it, the origin too */
    struct sim_graph *graph;
    bool given;  /* the graph is the program's own (cuStreamBeginCaptureToGraph) */
    _Atomic bool spoilt; /* a call was refused: nothing but its end is allowed any more */
    struct sim_capture *next;
};

extern pthread_mutex_t sim_captures_lock; /* for the list and its members */
extern struct sim_capture *sim_captures;
extern _Atomic unsigned sim_capture_count; /* so that calls outside any capture pay one load */

struct sim_capture *sim_capture_find(uint64_t id); /* with the lock; NULL: over */
CUresult sim_capture_spoil(struct sim_capture *capture, CUresult why); /* returns `why` */
CUresult sim_capture_open(struct sim_stream *stream, CUstreamCaptureMode mode, struct sim_graph *graph,
                          struct sim_node *const *tail, size_t count);
void sim_capture_close(struct sim_capture *capture);
bool sim_capture_mine(const struct sim_capture *capture); /* begun by this thread */
CUresult sim_capture_set_tail(struct sim_stream *stream, struct sim_node *const *nodes, size_t count);
CUresult sim_capture_extend_tail(struct sim_stream *stream, struct sim_node *const *nodes, size_t count);

#endif
