/*
 * A graph's shape: its nodes, roots and edges, and the order in which a launch runs them.
 *
 * Every list is answered in two ways, as CUDA has it: with a NULL array the number there is, otherwise as many
 * as fit, the rest of the array filled with NULL. Edge data carries nothing here and reads as zeros.
 */
#include <string.h>

#include "graph.h"

/* A list that is being written out: how much room there is and how much was asked for. */
struct listing {
    CUgraphNode *out;
    size_t room, count;
};

static void list(struct listing *listing, const struct sim_node *node)
{
    if (listing->out && listing->count < listing->room)
        listing->out[listing->count] = (CUgraphNode)node;
    listing->count++;
}

static CUresult finish(struct listing *listing, size_t *count)
{
    for (size_t i = listing->count; listing->out && i < listing->room; i++)
        listing->out[i] = NULL;
    *count = listing->out && listing->count > listing->room ? listing->room : listing->count;
    return CUDA_SUCCESS;
}

static CUresult enter_graph(const char *function, CUgraph handle, const void *needed, struct sim_graph **graph)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_graph_resolve(handle, graph);
    return result || needed ? result : CUDA_ERROR_INVALID_VALUE;
}

static CUresult enter_node(const char *function, CUgraphNode handle, const void *needed, struct sim_node **node)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_node_resolve(handle, node);
    return result || needed ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    struct sim_graph *graph;
    CUresult result = enter_graph(__func__, handle, count, &graph);
    if (result)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (struct sim_node *node = graph->first; node; node = node->next)
        list(&listing, node);
    return finish(&listing, count);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    struct sim_graph *graph;
    CUresult result = enter_graph(__func__, handle, count, &graph);
    if (result)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (struct sim_node *node = graph->first; node; node = node->next)
        if (node->dependency_count == 0)
            list(&listing, node);
    return finish(&listing, count);
}

static CUresult edges(const char *function, CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    struct sim_graph *graph;
    CUresult result = enter_graph(function, handle, count, &graph);
    if (result || !from != !to)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct listing sources = {from, *count, 0}, targets = {to, *count, 0};
    for (struct sim_node *node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->dependency_count; i++) {
            list(&sources, node->dependencies[i]);
            list(&targets, node);
        }
    finish(&sources, count);
    return finish(&targets, count);
}

static void clear(CUgraphEdgeData *data, size_t count)
{
    if (data)
        memset(data, 0, count * sizeof(*data));
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return edges(__func__, graph, from, to, count);
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                                    size_t *count)
{
    CUresult result = edges(__func__, graph, from, to, count);
    if (!result && from)
        clear(data, *count);
    return result;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode *nodes, size_t *count)
{
    struct sim_node *node;
    CUresult result = enter_node(__func__, handle, count, &node);
    if (result)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (size_t i = 0; i < node->dependency_count; i++)
        list(&listing, node->dependencies[i]);
    return finish(&listing, count);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                               size_t *count)
{
    CUresult result = cuGraphNodeGetDependencies(node, nodes, count);
    if (!result && nodes)
        clear(data, *count);
    return result;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode *nodes, size_t *count)
{
    struct sim_node *node;
    CUresult result = enter_node(__func__, handle, count, &node);
    if (result)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (struct sim_node *other = node->graph->first; other; other = other->next)
        for (size_t i = 0; i < other->dependency_count; i++)
            if (other->dependencies[i] == node)
                list(&listing, other);
    return finish(&listing, count);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                                 size_t *count)
{
    CUresult result = cuGraphNodeGetDependentNodes(node, nodes, count);
    if (!result && nodes)
        clear(data, *count);
    return result;
}

/* ---- changing edges ---- */

static CUresult check_edge(struct sim_graph *graph, CUgraphNode from, CUgraphNode to, struct sim_node **source,
                           struct sim_node **target)
{
    CUresult result = sim_node_resolve(from, source);
    if (!result)
        result = sim_node_resolve(to, target);
    if (!result && ((*source)->graph != graph || (*target)->graph != graph || *source == *target))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

static bool remove_edge(struct sim_node *source, struct sim_node *target)
{
    for (size_t i = 0; i < target->dependency_count; i++)
        if (target->dependencies[i] == source) {
            target->dependencies[i] = target->dependencies[--target->dependency_count];
            return true;
        }
    return false;
}

static CUresult change(const char *function, CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                       size_t count, bool add)
{
    struct sim_graph *graph;
    struct sim_node *source, *target;
    CUresult result = enter_graph(function, handle, count == 0 || (from && to) ? handle : NULL, &graph);
    for (size_t i = 0; i < count && !result; i++) {
        result = check_edge(graph, from[i], to[i], &source, &target);
        if (!result && add)
            result = sim_node_depend(target, &source, 1);
        else if (!result && !remove_edge(source, target))
            result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                        size_t count)
{
    return change(__func__, graph, from, to, count, true);
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *data, size_t count)
{
    (void)data;
    return change(__func__, graph, from, to, count, true);
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           size_t count)
{
    return change(__func__, graph, from, to, count, false);
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                              const CUgraphEdgeData *data, size_t count)
{
    (void)data;
    return change(__func__, graph, from, to, count, false);
}

/* ---- order ---- */

static bool ready(const struct sim_node *node)
{
    for (size_t i = 0; i < node->dependency_count; i++)
        if (!node->dependencies[i]->visit)
            return false;
    return true;
}

/* Nodes are nearly always added after what they depend on, so one pass does it; each further pass does one more. */
bool sim_graph_sort(struct sim_graph *graph, struct sim_node **order)
{
    size_t sorted = 0, before;
    for (struct sim_node *node = graph->first; node; node = node->next)
        node->visit = 0;
    do {
        before = sorted;
        for (struct sim_node *node = graph->first; node; node = node->next)
            if (!node->visit && ready(node)) {
                node->visit = 1;
                order[sorted++] = node;
            }
    } while (sorted > before);
    return sorted == graph->count;
}
