/*
 * Executable graphs, between graph_exec.c (made, launched) and graph_update.c (changed).
 *
 * An executable is a private copy of its graph with an order to run it in. What it does not do: follow later
 * changes of the graph it was made from.
 */
#ifndef SIMGPU_EXEC_H
#define SIMGPU_EXEC_H

#include "graph.h"

struct sim_exec { /* a CUgraphExec */
    uint32_t magic;
    cuuint64_t flags;
    struct sim_graph *graph;
    struct sim_node **order;
    struct sim_ticket last; /* of its latest launch: an executable never runs beside itself */
};

CUresult sim_exec_resolve(CUgraphExec handle, struct sim_exec **exec);
/* The executable's copy of a node of the original graph, its child graphs included, for a call that sets its
 * parameters. */
CUresult sim_exec_target(const char *function, CUgraphExec handle, CUgraphNode original, CUgraphNodeType type,
                         const void *params, struct sim_node **node);

/* New words for a node of an executable: as many operations, of the same types. (graph_memop.c) */
CUresult sim_exec_set_memops(struct sim_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

#endif
