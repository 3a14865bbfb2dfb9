/*
 * The hooks of every call that takes device memory unaccounted: counted, so that the gap shows as a number, or
 * refused as out of memory where the control page asks for that. All are made from the list in uncovered.h.
 */
#include "account.h"
#include "unaccounted.h"

bool weir_unaccounted_call(bool refusable)
{
    const struct weir_slice *slice = weir_slice();
    if (weir_inside || !slice)
        return !(refusable && weir_refusing());
    int device = weir_current_device();
    struct weir_stats_device *stats = weir_stats_device(slice, device >= 0 ? (uint32_t)device : 0);
    bool refused = refusable && (device == WEIR_OTHER_DEVICE || weir_refuse_unknown(slice));
    atomic_fetch_add(refused ? &stats->denied_policy : &stats->uncovered, 1);
    return !refused;
}

#define DEFINE(symbol, refusable, params, args)                                                              \
    CUresult symbol params                                                                                   \
    {                                                                                                        \
        return weir_unaccounted_call(refusable) ? WEIR_CALL(symbol, WEIR_SPREAD args)                        \
                                                : CUDA_ERROR_OUT_OF_MEMORY;                                  \
    }
#define WEIR_SPREAD(...) __VA_ARGS__
#define DEFINE_MEMORY(symbol, prototype, need, params, args) DEFINE(symbol, true, params, args)
#define DEFINE_CODE(symbol, prototype, need, params, args) DEFINE(symbol, false, params, args)

WEIR_UNCOVERED_MEMORY(DEFINE_MEMORY)
WEIR_UNCOVERED_CODE(DEFINE_CODE)

static bool may_add(const CUgraphNodeParams *params)
{
    return !params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || weir_unaccounted_call(true);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params)
{
    return may_add(params) ? WEIR_CALL(cuGraphAddNode, node, graph, after, count, params)
                           : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params)
{
    return may_add(params) ? WEIR_CALL(cuGraphAddNode_v2, node, graph, after, edges, count, params)
                           : CUDA_ERROR_OUT_OF_MEMORY;
}
