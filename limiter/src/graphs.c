/*
 * Allocation nodes of graphs. A node has an address from the start and memory from the first upload or launch of an
 * executable graph on; a card keeps the memory of all graphs of a process in a pool, in reserve, until it is trimmed.
 * What is charged is that reserve, as the driver tells it; before a launch, the most that the graph may add to it.
 *
 * That most is the sum of its nodes' addresses, each counted once: nodes that follow each other may share. It is
 * nothing for a graph that still has all its memory: launched last in the same stream, and since then no launch took
 * over what others had used and nothing was trimmed. Without that, a graph of more than half a slice would be refused
 * its second launch. A graph of several cards is charged on each for all its nodes until its launch returns.
 *
 * Not here: the memory of kernels and parameters that an instantiation loads, which is counted as code.
 */
#include "graphs.h"

#include "account.h"
#include "hash.h"
#include "memory.h"
#include "streams.h"
#include "unaccounted.h"

static _Atomic bool allocating; /* there was ever an allocation node */

void weir_graphs_allocate(void)
{
    if (!atomic_load_explicit(&allocating, memory_order_relaxed))
        atomic_store(&allocating, true);
}

/* ---- launching ---- */

/* Where and since when a graph has its memory; never 0. */
static uint32_t place_of(const struct weir_graph_use *use)
{
    uint64_t place = (uintptr_t)use->stream + 1;
    for (unsigned i = 0; i < use->count; i++)
        place = weir_hash(place ^ weir_pool_moves(use->pools[i]));
    return (uint32_t)(place >> 32) | 1;
}

static void give_up(struct weir_graph_use *use, unsigned reserved)
{
    for (unsigned i = 0; i < reserved; i++)
        weir_pool_launched(use->pools[i], 0, use->bounds[i]);
}

static bool reserve(struct weir_graph_use *use, uint64_t size, uint64_t cards, CUstream stream)
{
    use->stream = stream;
    for (; cards && use->count < WEIR_MAX_DEVICES; cards &= cards - 1)
        if ((use->pools[use->count] = weir_pool_of_graphs(__builtin_ctzll(cards))))
            use->count++;
    bool attached = use->ready && atomic_load(&use->ready->refs) == place_of(use);
    use->size = attached ? 0 : size;
    for (unsigned i = 0; i < use->count; i++)
        if (!weir_pool_reserve(use->pools[i], use->size, stream, &use->bounds[i])) {
            give_up(use, i);
            return false;
        }
    return true;
}

bool weir_graph_begin(struct weir_graph_use *use, CUgraphExec graph, CUstream stream)
{
    *use = (struct weir_graph_use){.count = 0};
    if (!atomic_load_explicit(&allocating, memory_order_relaxed) || !weir_slice())
        return true;
    struct weir_object *ready = weir_object_find(WEIR_TAG_GRAPH, (uintptr_t)graph);
    if (!ready || stream_captures(stream)) /* which the driver refuses */
        return true;
    use->ready = ready;
    return reserve(use, use->ready->size, use->ready->link, stream);
}

void weir_graph_end(struct weir_graph_use *use, CUresult result)
{
    for (unsigned i = 0; i < use->count; i++)
        weir_pool_launched(use->pools[i], result == CUDA_SUCCESS ? use->size : 0, use->bounds[i]);
    if (use->count && use->ready && result == CUDA_SUCCESS)
        atomic_store(&use->ready->refs, place_of(use));
}

#define UPLOAD(symbol, as_stream)                                                                            \
    CUresult symbol(CUgraphExec graph, CUstream stream)                                                      \
    {                                                                                                        \
        struct weir_graph_use use;                                                                           \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(graph, stream);                                                         \
        WEIR_UNACCOUNTED(WEIR_API_CODE, #symbol);                                                            \
        if (!weir_graph_begin(&use, graph, as_stream(stream)))                                               \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        CUresult result = WEIR_CALL(symbol, graph, stream);                                                  \
        weir_graph_end(&use, result);                                                                        \
        return result;                                                                                       \
    }

UPLOAD(cuGraphUpload, )
UPLOAD(cuGraphUpload_ptsz, own_default)

/* ---- instantiating ---- */

/* What an executable graph of this one will need; false: nobody can say. */
static bool read_graph(CUgraph graph, struct weir_object *object)
{
    *object = (struct weir_object){.device = WEIR_NO_DEVICE};
    if (!atomic_load_explicit(&allocating, memory_order_relaxed) || !graph || !weir_slice())
        return true;
    return weir_graph_size(graph, &object->size, &object->link);
}

/* Before it: reads the graph, and charges its memory where it is uploaded at once. */
static bool before_instantiate(struct weir_graph_use *use, CUgraph graph, struct weir_object *object,
                               unsigned long long flags, CUstream stream)
{
    *use = (struct weir_graph_use){.count = 0};
    if (!read_graph(graph, object))
        return false;
    return !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) || reserve(use, object->size, object->link, stream);
}

static CUresult instantiated(CUresult result, const CUgraphExec *ready, struct weir_graph_use *use,
                             struct weir_object *object)
{
    use->ready = object;
    weir_graph_end(use, result);
    if (result == CUDA_SUCCESS && object->size)
        weir_keep(WEIR_TAG_GRAPH, (uintptr_t)*ready, object);
    return result;
}

#define INSTANTIATE(symbol, flags, stream, ...)                                                              \
    {                                                                                                        \
        struct weir_graph_use use;                                                                           \
        struct weir_object object;                                                                           \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        WEIR_UNACCOUNTED(WEIR_API_CODE, #symbol);                                                            \
        if (!before_instantiate(&use, graph, &object, flags, stream))                                        \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        return instantiated(WEIR_CALL(symbol, __VA_ARGS__), ready, &use, &object);                           \
    }

CUresult cuGraphInstantiate(CUgraphExec *ready, CUgraph graph, CUgraphNode *failed, char *log, size_t size)
INSTANTIATE(cuGraphInstantiate, 0, NULL, ready, graph, failed, log, size)

CUresult cuGraphInstantiate_v2(CUgraphExec *ready, CUgraph graph, CUgraphNode *failed, char *log, size_t size)
INSTANTIATE(cuGraphInstantiate_v2, 0, NULL, ready, graph, failed, log, size)

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ready, CUgraph graph, unsigned long long flags)
INSTANTIATE(cuGraphInstantiateWithFlags, flags, NULL, ready, graph, flags)

CUresult cuGraphInstantiateWithParams(CUgraphExec *ready, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
INSTANTIATE(cuGraphInstantiateWithParams, params ? params->flags : 0, params ? params->hUploadStream : NULL, ready,
            graph, params)

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *ready, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, params ? params->flags : 0, params ? params->hUploadStream : NULL,
            ready, graph, params)

/* Its memory stays in the card's reserve. */
CUresult cuGraphExecDestroy(CUgraphExec graph)
{
    struct weir_object object;
    bool known = !weir_inside && weir_object_take(WEIR_TAG_GRAPH, (uintptr_t)graph, &object);
    CUresult result = WEIR_CALL(cuGraphExecDestroy, graph);
    if (known && result != CUDA_SUCCESS)
        weir_keep(WEIR_TAG_GRAPH, (uintptr_t)graph, &object);
    return result;
}

CUresult cuDeviceGraphMemTrim(CUdevice ordinal)
{
    CUresult result = WEIR_CALL(cuDeviceGraphMemTrim, ordinal);
    if (!weir_inside && result == CUDA_SUCCESS && atomic_load(&allocating) && weir_slice())
        weir_pool_trimmed(weir_pool_of_graphs(ordinal));
    return result;
}

/* ---- nodes ---- */

/* Whether a node may allocate there: not on a card outside the slice. It takes nothing yet. */
static bool may_add(const CUmemLocation *location, uint64_t size)
{
    weir_graphs_allocate();
    bool on_card = !weir_inside && location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (!on_card || weir_device_of(location->id) != WEIR_OTHER_DEVICE)
        return !weir_refusing();
    weir_count_denied(WEIR_OTHER_DEVICE, size);
    return false;
}

static bool may_add_any(const CUgraphNodeParams *params)
{
    return !params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           may_add(&params->alloc.poolProps.location, params->alloc.bytesize);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    bool may = !params || may_add(&params->poolProps.location, params->bytesize);
    return may ? WEIR_CALL(cuGraphAddMemAllocNode, node, graph, after, count, params) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params)
{
    return may_add_any(params) ? WEIR_CALL(cuGraphAddNode, node, graph, after, count, params)
                               : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params)
{
    return may_add_any(params) ? WEIR_CALL(cuGraphAddNode_v2, node, graph, after, edges, count, params)
                               : CUDA_ERROR_OUT_OF_MEMORY;
}
