/*
 * Stream-ordered memory: cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync.
 *
 * An allocation can be used at once; a free takes effect for other streams when its stream gets there. Where
 * only such a free can make room, the call waits for it. In a capture both become nodes. What came from
 * cuMemAlloc may be freed here too, as on an H200; when the card then gives it back was not measured: here the
 * caller waits for it.
 */
#include "pool.h"

static CUresult open_stream(const char *function, CUstream handle, bool per_thread, struct sim_stream **stream)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    return result ? result : sim_stream_resolve(handle, per_thread, stream);
}

/* ---- allocating ---- */

static CUresult capture_allocation(struct sim_stream *stream, size_t size, CUdeviceptr *pointer)
{
    struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    node.alloc.bytesize = size;
    node.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    node.alloc.poolProps.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = stream->context->ordinal};
    CUresult result = sim_graph_memory_reserve(stream->context, &node.alloc);
    if (result)
        return result;
    result = sim_capture_add(stream, &node, NULL);
    if (result)
        sim_graph_memory_release(node.alloc.dptr);
    else
        *pointer = node.alloc.dptr;
    return result;
}

static CUresult record(struct sim_pool *pool, struct sim_segment *segment, size_t size, CUdeviceptr *pointer)
{
    struct sim_allocation fields = {
        .base = segment->base, .size = size, .use = SIM_USE_POOL, .device = pool->device, .owner = segment};
    struct sim_allocation *made = sim_allocation_add(&fields);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = made->base;
    return CUDA_SUCCESS;
}

/* One try. When there is no room, *awaited says which free may make some (SIM_NONE: none). */
static CUresult take(struct sim_stream *stream, size_t size, CUmemoryPool handle, CUdeviceptr *pointer,
                     struct sim_ticket *awaited)
{
    struct sim_pool *pool;
    struct sim_segment *segment;
    awaited->channel = SIM_NONE;
    sim_memory_lock();
    CUresult result =
        handle ? sim_pool_resolve(handle, &pool) : sim_pool_current(stream->context->device, &pool);
    if (!result) {
        result = sim_pool_take(pool, size, stream->channel, &segment);
        if (!result)
            result = record(pool, segment, size, pointer);
        else
            sim_pool_pending(pool, awaited);
    }
    sim_memory_unlock();
    return result;
}

static CUresult allocate(struct sim_stream *stream, size_t size, CUmemoryPool pool, CUdeviceptr *pointer)
{
    struct sim_ticket awaited;
    if (!pointer || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_capturing(stream))
        return capture_allocation(stream, size, pointer);
    CUresult result = sim_capture_forbids_stream(stream);
    if (result)
        return result;
    result = take(stream, size, pool, pointer, &awaited);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && awaited.channel != SIM_NONE) {
        sim_wait_ticket(awaited);
        result = take(stream, size, pool, pointer, &awaited);
    }
    return result;
}

static CUresult allocate_async(const char *function, CUdeviceptr *pointer, size_t size, CUmemoryPool pool,
                               CUstream handle, bool per_thread)
{
    struct sim_stream *stream;
    CUresult result = open_stream(function, handle, per_thread, &stream);
    return result ? result : allocate(stream, size, pool, pointer);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return allocate_async(__func__, dptr, bytesize, NULL, hStream, false);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return allocate_async(__func__, dptr, bytesize, NULL, hStream, true);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return pool ? allocate_async(__func__, dptr, bytesize, pool, hStream, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream)
{
    return pool ? allocate_async(__func__, dptr, bytesize, pool, hStream, true) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- freeing ---- */

static CUresult capture_free(struct sim_stream *stream, CUdeviceptr pointer)
{
    struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    node.free = pointer;
    if (!sim_graph_memory_known(pointer)) /* memory that the graph has not allocated; the capture goes on */
        return CUDA_ERROR_INVALID_VALUE;
    return sim_capture_add(stream, &node, NULL);
}

static CUresult give(CUdeviceptr pointer, struct sim_ticket ticket)
{
    CUresult result = CUDA_SUCCESS;
    bool plain = false;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at(pointer);
    if (allocation && allocation->use == SIM_USE_POOL)
        sim_pool_free(allocation, ticket);
    else if (allocation && allocation->use == SIM_USE_POOL_IMPORT)
        sim_pool_unimport(allocation);
    else if (allocation && allocation->use == SIM_USE_GRAPH)
        sim_graph_memory_drop(allocation);
    else if (allocation && allocation->use == SIM_USE_DEVICE)
        plain = true;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    if (!plain)
        return result;
    sim_wait_ticket(ticket);
    return cuMemFree_v2(pointer);
}

static CUresult free_async(const char *function, CUdeviceptr pointer, CUstream handle, bool per_thread)
{
    struct sim_stream *stream;
    struct sim_ticket ticket;
    struct sim_op mark = {.type = SIM_OP_MARK};
    CUresult result = open_stream(function, handle, per_thread, &stream);
    if (result || !pointer)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_capturing(stream))
        return capture_free(stream, pointer);
    result = sim_capture_forbids_stream(stream);
    if (!result)
        result = sim_submit(stream, &mark, &ticket);
    return result ? result : give(pointer, ticket);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(__func__, dptr, hStream, false);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(__func__, dptr, hStream, true);
}
