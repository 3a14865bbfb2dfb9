/*
 * How much memory the allocation nodes of a graph need: the length of their addresses' union, as nodes that follow
 * each other may have the same, in whole pages of 2 MiB. Graphs in graphs are walked through. Reads, changes nothing.
 */
#include <stdlib.h>

#include "account.h"
#include "graphs.h"

#define DEEPEST 64 /* graphs in graphs */

struct range {
    uint64_t start, end;
};

struct demand { /* of a graph, with those in it */
    struct range *ranges;
    size_t count, room;
    uint64_t cards; /* bit n: the CUDA device n */
};

static bool add_node(struct demand *demand, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (WEIR_REAL(cuGraphMemAllocNodeGetParams)(node, &params) != CUDA_SUCCESS)
        return false;
    if (params.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return true; /* the host's memory is nobody's */
    if (demand->count == demand->room) {
        size_t room = demand->room ? 2 * demand->room : 64;
        struct range *more = realloc(demand->ranges, room * sizeof *more);
        if (!more)
            return false;
        demand->ranges = more;
        demand->room = room;
    }
    demand->ranges[demand->count++] = (struct range){params.dptr, params.dptr + weir_footprint(params.bytesize)};
    demand->cards |= UINT64_C(1) << (params.poolProps.location.id & 63);
    return true;
}

static bool add_graph(struct demand *demand, CUgraph graph, int depth);

static bool add_any(struct demand *demand, CUgraphNode node, int depth)
{
    CUgraphNodeType type;
    CUgraph child;
    if (WEIR_REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
        return false;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return add_node(demand, node);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return true;
    return WEIR_REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS &&
           add_graph(demand, child, depth + 1);
}

static bool add_graph(struct demand *demand, CUgraph graph, int depth)
{
    size_t count = 0;
    if (depth > DEEPEST || WEIR_REAL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS)
        return false;
    CUgraphNode *nodes = malloc((count + 1) * sizeof *nodes);
    bool added = nodes && WEIR_REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS;
    for (size_t i = 0; added && i < count; i++)
        added = add_any(demand, nodes[i], depth);
    free(nodes);
    return added;
}

static int by_start(const void *one, const void *other)
{
    uint64_t a = ((const struct range *)one)->start, b = ((const struct range *)other)->start;
    return a < b ? -1 : a > b;
}

/* The length of the ranges' union. */
static uint64_t length_of(struct range *ranges, size_t count)
{
    uint64_t length = 0, end = 0;
    if (count)
        qsort(ranges, count, sizeof *ranges, by_start);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = ranges[i].start > end ? ranges[i].start : end;
        if (ranges[i].end > start) {
            length += ranges[i].end - start;
            end = ranges[i].end;
        }
    }
    return length;
}

bool weir_graph_size(CUgraph graph, uint64_t *size, uint64_t *cards)
{
    struct demand demand = {.count = 0};
    bool whole = add_graph(&demand, graph, 0);
    *size = length_of(demand.ranges, demand.count);
    *cards = demand.cards;
    free(demand.ranges);
    return whole;
}
