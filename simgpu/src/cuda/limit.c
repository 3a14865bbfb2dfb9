/*
 * A context's limits. Those that kernels need memory for take it from the card as soon as they are raised beyond
 * their first values, which the size of a bare context includes, and give it back when they are lowered.
 *
 * A stack is kept for every thread that the card can hold at once; that follows from the programming guide, and
 * neither its amount nor when the driver takes it was measured. What it does not do: grow a stack for a kernel.
 */
#include "memory.h"

/* Bytes of the card that one unit of a limit stands for. */
static uint64_t unit_of(CUlimit limit)
{
    if (limit == CU_LIMIT_STACK_SIZE)
        return (uint64_t)sim_hardware->multiprocessors * sim_hardware->threads_per_multiprocessor;
    return limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
}

static uint64_t bytes_of(CUlimit limit, size_t value)
{
    uint64_t block = sim_hardware->block_bytes;
    return (unit_of(limit) * value + block - 1) / block * block;
}

/* What it takes beyond its first value. */
static uint64_t extra(const struct sim_context *context, CUlimit limit, size_t value)
{
    uint64_t first = bytes_of(limit, context->first_limits[limit]), bytes = bytes_of(limit, value);
    return bytes > first ? bytes - first : 0;
}

static CUresult resize(struct sim_context *context, CUlimit limit, size_t value)
{
    uint64_t held = extra(context, limit, context->limits[limit]), wanted = extra(context, limit, value);
    CUresult result = CUDA_SUCCESS;
    sim_memory_lock();
    if (wanted > held)
        result = sim_card_take(context->device, SIM_MEMORY_CONTEXT, wanted - held);
    else
        sim_memory_give(context->device, SIM_MEMORY_CONTEXT, held - wanted);
    if (!result)
        context->limit_bytes += wanted - held;
    sim_memory_unlock();
    return result;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !value || limit >= CU_LIMIT_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *value = context->limits[limit];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result)
        result = sim_capture_forbids();
    if (result || limit >= CU_LIMIT_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (unit_of(limit) && value > sim_hardware->total_bytes / unit_of(limit))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE && value > sim_hardware->l2_bytes)
        value = sim_hardware->l2_bytes;
    result = resize(context, limit, value);
    if (!result)
        context->limits[limit] = value;
    return result;
}
