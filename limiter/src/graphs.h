/*
 * Memory of graphs' allocation nodes: what launch.c and async.c need of it (graphs.c).
 */
#ifndef WEIR_GRAPHS_H
#define WEIR_GRAPHS_H

#include "objects.h"
#include "page.h"
#include "pools.h"

struct weir_graph_use { /* one launch or upload */
    unsigned count;
    struct weir_pool *pools[WEIR_MAX_DEVICES]; /* of the cards that the graph allocates on */
    uint64_t bounds[WEIR_MAX_DEVICES];         /* charged before the call */
    uint64_t size;                             /* what the graph may take; 0: it has its memory */
    struct weir_object *ready;                 /* the executable graph; NULL: it allocates nothing */
    CUstream stream;
};

/* Before the driver's call: charges how far the graphs' memory may grow. False: refuse. May wait for the stream. */
bool weir_graph_begin(struct weir_graph_use *use, CUgraphExec graph, CUstream stream);
/* After it: charges what the graphs really hold. */
void weir_graph_end(struct weir_graph_use *use, CUresult result);

/* What the allocation nodes of a graph need, and on which CUDA devices (bits). False: nobody can say. */
bool weir_graph_size(CUgraph graph, uint64_t *size, uint64_t *cards);

/* There may be allocation nodes from now on. */
void weir_graphs_allocate(void);

#endif
