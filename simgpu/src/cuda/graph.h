/*
 * Graphs: nodes and edges, and where memory comes in.
 *
 * A graph is a list of nodes in the order they were added. A launch runs them in a topological order, one
 * after the other, on the launch stream. Copies and memsets of nodes and of captured
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
    _Atomic unsigned *owners; /* of an allocation node: how many graphs have it, executables too */
    unsigned visit; /* a mark for walks, and in a clone the way from a node to its copy: */
    struct sim_node *copy;
    union {
        struct {
            CUDA_KERNEL_NODE_PARAMS params;
            uint64_t duration; /* ns, read when the parameters were set */
            void *storage;     /* what params.kernelParams and .extra point at: the node's own copy */
        } kernel;
        struct {
            CUDA_MEMCPY3D params;
            struct sim_context *context;
        } copying;
        struct {
            CUDA_MEMSET_NODE_PARAMS params;
            struct sim_context *context;
        } setting;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_BATCH_MEM_OP_NODE_PARAMS memops; /* its array is the node's own */
        struct sim_recorder *event; /* record and wait nodes */
        struct sim_graph *child;    /* owned */
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        CUdeviceptr free;
    };
    struct sim_node *next;
};

struct sim_user_reference;
struct sim_exec;

struct sim_graph { /* a CUgraph */
    uint32_t magic;
    bool embedded; /* a child node's, or an executable's: destroyed with it only */
    bool has_memory_nodes;
    struct sim_node *first, *last; /* in the order they were added */
    size_t count;
    struct sim_user_reference *users;
};

/* ---- graph.c, graph_edges.c ---- */

CUresult sim_graph_resolve(CUgraph handle, struct sim_graph **graph);
CUresult sim_node_resolve(CUgraphNode handle, struct sim_node **node);
struct sim_graph *sim_graph_new(void);
void sim_graph_free(struct sim_graph *graph);
struct sim_graph *sim_graph_copy(const struct sim_graph *graph); /* NULL: out of memory */
/* Add a copy of `like` after `dependencies` (nodes of the graph). */
CUresult sim_graph_add(struct sim_graph *graph, struct sim_node *const *dependencies, size_t count,
                       const struct sim_node *like, struct sim_node **added);
/* What every cuGraphAdd…Node does: the checks at the entry, then sim_graph_add. */
CUresult sim_graph_add_call(const char *function, CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                            size_t count, const struct sim_node *like);
/* A node of this type, for a call that asks for its parameters or sets them. */
CUresult sim_node_typed(const char *function, CUgraphNode handle, CUgraphNodeType type, const void *params,
                        struct sim_node **node);
/* The calls that do no more than copy a node's parameters out of it, or in. */
#define SIM_GET_PARAMS(call, node_type, params_type, field)                                                  \
    CUresult CUDAAPI call(CUgraphNode handle, params_type *params)                                           \
    {                                                                                                        \
        struct sim_node *node;                                                                               \
        CUresult result = sim_node_typed(__func__, handle, node_type, params, &node);                        \
        if (!result)                                                                                         \
            *params = node->field;                                                                           \
        return result;                                                                                       \
    }
#define SIM_SET_PARAMS(call, node_type, params_type, field)                                                  \
    CUresult CUDAAPI call(CUgraphNode handle, const params_type *params)                                     \
    {                                                                                                        \
        struct sim_node *node;                                                                               \
        CUresult result = sim_node_typed(__func__, handle, node_type, params, &node);                        \
        if (!result)                                                                                         \
            node->field = *params;                                                                           \
        return result;                                                                                       \
    }
CUresult sim_node_depend(struct sim_node *node, struct sim_node *const *on, size_t count);
bool sim_graph_sort(struct sim_graph *graph, struct sim_node **order); /* false: it has a cycle */

void sim_graph_release_users(struct sim_graph *graph); /* user_object.c */

/* ---- graph_kernel.c ---- */

/* Takes new parameters: checked, timed, and copied as far as their sizes are known. */
CUresult sim_node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *params);

/* ---- graph_memop.c ---- */

/* Takes new parameters: checked and copied. */
CUresult sim_node_set_memops(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

/* For captured calls: add `like` (type and its part of the union) after the stream's latest nodes. */
CUresult sim_capture_add(struct sim_stream *stream, const struct sim_node *like, struct sim_node **added);

/* ---- performed by the memory side ---- */

/* Move the bytes now and say how long the card takes for it. */
CUresult sim_memory_copy(const CUDA_MEMCPY3D *params, uint64_t *duration);
CUresult sim_memory_set(const CUDA_MEMSET_NODE_PARAMS *params, uint64_t *duration);

/* An allocation node is made: reserve its address for the node's life, into params->dptr. Takes no memory yet. */
CUresult sim_graph_memory_reserve(struct sim_context *context, CUDA_MEM_ALLOC_NODE_PARAMS *params);
/* Whether it is such an address. */
bool sim_graph_memory_known(CUdeviceptr dptr);
/* An executable graph is uploaded: the card gives what its nodes, in this order, will need of the reserve at once. */
CUresult sim_graph_memory_upload(struct sim_node *const *order, size_t count);
/* Its graph is launched: take the memory from the card (OUT_OF_MEMORY) and put it at dptr. */
CUresult sim_graph_memory_map(const CUDA_MEM_ALLOC_NODE_PARAMS *params);
/* A free node is launched: what was mapped at dptr goes back to the device's graph memory pool. */
CUresult sim_graph_memory_unmap(CUdeviceptr dptr);
/* The last graph with that allocation node is destroyed. Memory still mapped stays until it is freed. */
void sim_graph_memory_release(CUdeviceptr dptr);

#endif
