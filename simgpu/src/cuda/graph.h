/*
 * Graphs: nodes and edges, and where memory comes in.
 *
 * A graph is a list of nodes in the order they were added, which is a topological order once sorted; a
 * launch runs them one after the other on the launch stream. Copies and memsets of nodes and of captured
 * calls are the same structs, performed by the memory side's functions at the foot of this header.
 *
 * What it does not do: run branches of one graph beside each other.
 */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "driver.h"

struct sim_node {
    uint32_t magic;
    CUgraphNodeType type;
    struct sim_graph *graph;
    struct sim_node *original; /* in a clone or an executable: the node it was made from */
    struct sim_node **dependencies;
    size_t dependency_count;
    bool disabled;
    size_t visit; /* order of the last sort */
    union {
        struct {
            CUDA_KERNEL_NODE_PARAMS_v3 params;
            uint64_t duration; /* ns, known when the parameters are set */
        } kernel;
        struct {
            CUDA_MEMCPY3D params;
            struct sim_context *context;
        } copy;
        struct {
            CUDA_MEMSET_NODE_PARAMS params;
            struct sim_context *context;
        } set;
        CUDA_HOST_NODE_PARAMS host;
        CUevent event;           /* record and wait nodes */
        struct sim_graph *child; /* owned */
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        CUdeviceptr free;
    };
    struct sim_node *next;
};

/* For captured calls: add `like` (type and its part of the union) after the stream's latest nodes. */
CUresult sim_capture_add(struct sim_stream *stream, const struct sim_node *like, struct sim_node **added);

/* ---- performed by the memory side ---- */

/* Move the bytes now and say how long the card takes for it. */
CUresult sim_memory_copy(const CUDA_MEMCPY3D *params, uint64_t *duration);
CUresult sim_memory_set(const CUDA_MEMSET_NODE_PARAMS *params, uint64_t *duration);

/* An allocation node is made: reserve its address for the node's life, into params->dptr. Takes no memory yet. */
CUresult sim_graph_memory_reserve(struct sim_context *context, CUDA_MEM_ALLOC_NODE_PARAMS *params);
/* Its graph is launched: take the memory from the card (OUT_OF_MEMORY) and put it at dptr. */
CUresult sim_graph_memory_map(const CUDA_MEM_ALLOC_NODE_PARAMS *params);
/* A free node is launched: what was mapped at dptr goes back to the device's graph memory pool. */
CUresult sim_graph_memory_unmap(CUdeviceptr dptr);
/* The last graph with that allocation node is destroyed. Memory still mapped stays until it is freed. */
void sim_graph_memory_release(CUdeviceptr dptr);

#endif
