/*
 * Graphs as objects: made, copied, destroyed, with their nodes.
 *
 * A node belongs to one graph and is added as a copy of a prototype; what it points at (a kernel's parameters,
 * a child graph, its dependencies) it owns. Memory nodes make a graph one that cannot be cloned.
 * What it does not do: guard against two threads in one graph; CUDA leaves that to the program, too.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"

CUresult sim_graph_resolve(CUgraph handle, struct sim_graph **graph)
{
    *graph = (struct sim_graph *)handle;
    return handle && (*graph)->magic == SIM_GRAPH_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_node_resolve(CUgraphNode handle, struct sim_node **node)
{
    *node = (struct sim_node *)handle;
    return handle && (*node)->magic == SIM_NODE_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *graph = calloc(1, sizeof(*graph));
    if (graph)
        graph->magic = SIM_GRAPH_MAGIC;
    return graph;
}

/* ---- nodes ---- */

static void free_node(struct sim_node *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
        free(node->kernel.storage);
    if (node->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        free(node->memops.paramArray);
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->child)
        sim_graph_free(node->child);
    if (node->owners && --*node->owners == 0) {
        sim_graph_memory_release(node->alloc.dptr);
        free((void *)node->owners);
    }
    node->magic = 0;
    free(node->dependencies);
    free(node);
}

CUresult sim_node_depend(struct sim_node *node, struct sim_node *const *on, size_t count)
{
    if (count == 0)
        return CUDA_SUCCESS;
    size_t total = node->dependency_count + count;
    struct sim_node **larger = realloc(node->dependencies, total * sizeof(struct sim_node *));
    if (!larger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->dependencies = larger;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < node->dependency_count; j++)
            known |= larger[j] == on[i];
        if (!known)
            larger[node->dependency_count++] = on[i];
    }
    return CUDA_SUCCESS;
}

/* What the new node must own instead of sharing it with its prototype. */
static CUresult own(struct sim_node *node, const struct sim_node *like)
{
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        node->kernel.storage = NULL;
        return sim_node_set_kernel(node, &like->kernel.params);
    }
    if (node->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        node->memops.paramArray = NULL;
        return sim_node_set_memops(node, &like->memops);
    }
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        node->child = sim_graph_copy(like->child);
        if (!node->child)
            return CUDA_ERROR_OUT_OF_MEMORY;
        node->child->embedded = true;
    }
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        node->owners = like->owners ? like->owners : calloc(1, sizeof(*node->owners));
        if (!node->owners)
            return CUDA_ERROR_OUT_OF_MEMORY;
        ++*node->owners;
    }
    return CUDA_SUCCESS;
}

static void append(struct sim_graph *graph, struct sim_node *node)
{
    node->graph = graph;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->count++;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        graph->has_memory_nodes = true;
}

CUresult sim_graph_add(struct sim_graph *graph, struct sim_node *const *dependencies, size_t count,
                       const struct sim_node *like, struct sim_node **added)
{
    for (size_t i = 0; i < count; i++)
        if (!dependencies[i] || dependencies[i]->magic != SIM_NODE_MAGIC || dependencies[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = malloc(sizeof(*node));
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *node = *like;
    node->magic = SIM_NODE_MAGIC;
    node->dependencies = NULL;
    node->dependency_count = 0;
    node->next = NULL;
    node->owners = NULL;
    CUresult result = sim_node_depend(node, dependencies, count);
    if (!result)
        result = own(node, like);
    if (result) { /* it owns nothing of its prototype's */
        free(node->dependencies);
        free(node);
        return result;
    }
    append(graph, node);
    if (added)
        *added = node;
    return CUDA_SUCCESS;
}

static void forget_dependency(struct sim_graph *graph, const struct sim_node *gone)
{
    for (struct sim_node *node = graph->first; node; node = node->next) {
        size_t kept = 0;
        for (size_t i = 0; i < node->dependency_count; i++)
            if (node->dependencies[i] != gone)
                node->dependencies[kept++] = node->dependencies[i];
        node->dependency_count = kept;
    }
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle)
{
    struct sim_node *node, *before = NULL;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_node_resolve(handle, &node);
    if (result)
        return result;
    struct sim_graph *graph = node->graph;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (struct sim_node *n = graph->first; n != node; n = n->next)
        before = n;
    if (before)
        before->next = node->next;
    else
        graph->first = node->next;
    if (graph->last == node)
        graph->last = before;
    graph->count--;
    forget_dependency(graph, node);
    free_node(node);
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

void sim_graph_free(struct sim_graph *graph)
{
    for (struct sim_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        free_node(node);
    }
    sim_graph_release_users(graph);
    graph->magic = 0;
    free(graph);
}

/* The copies of a node's dependencies, which come before it in the list or are added after all nodes. */
static CUresult copy_edges(const struct sim_graph *graph)
{
    for (const struct sim_node *node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->dependency_count; i++) {
            CUresult result = sim_node_depend(node->copy, &node->dependencies[i]->copy, 1);
            if (result)
                return result;
        }
    return CUDA_SUCCESS;
}

struct sim_graph *sim_graph_copy(const struct sim_graph *graph)
{
    struct sim_graph *copy = sim_graph_new();
    CUresult result = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sim_node *node = graph->first; node && !result; node = node->next) {
        struct sim_node like = *node;
        like.original = node;
        result = sim_graph_add(copy, NULL, 0, &like, &node->copy);
    }
    if (!result)
        result = copy_edges(graph);
    if (result && copy) {
        sim_graph_free(copy);
        copy = NULL;
    }
    return copy;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *handle, unsigned int flags)
{
    CUresult result = sim_enter(__func__);
    if (result || !handle || flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_new();
    *handle = (CUgraph)graph;
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle)
{
    struct sim_graph *graph;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_graph_resolve(handle, &graph);
    if (result || graph->embedded)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *handle, CUgraph original)
{
    struct sim_graph *graph;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_graph_resolve(original, &graph);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (graph->has_memory_nodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph *copy = sim_graph_copy(graph);
    *handle = (CUgraph)copy;
    return copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode handle, CUgraph clone)
{
    struct sim_node *node;
    struct sim_graph *graph;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_node_resolve(handle, &node);
    if (!result)
        result = sim_graph_resolve(clone, &graph);
    if (result || !found)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *n = graph->first; n; n = n->next)
        if (n->original == node) {
            *found = (CUgraphNode)n;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
