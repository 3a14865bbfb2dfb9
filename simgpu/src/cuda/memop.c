/*
 * Stream memory operations: a stream waits for a word in memory, or writes one.
 *
 * All of them, single or in a batch, are CUstreamBatchMemOpParams, the description that graphs use too. A word
 * lies in page-locked host memory or in a card's own. As of the header: no managed memory, and what only the
 * first versions of these calls knew is not supported. Those versions are refused as by a driver whose module
 * was loaded without NVreg_EnableStreamMemOPs, the default. What it does not do: look at words
 * (engine/word.c) or order writes of other devices (CU_STREAM_WAIT_VALUE_FLUSH is accepted, without effect).
 */
#include "memop.h"

#include "launch.h"
#include "memory.h"

#define BATCH 256 /* operations in a call must be fewer */

/* Is there a word of that size that the card may reach, in memory of a kind that these calls accept? */
static bool reachable(CUdeviceptr address, uint64_t bytes, bool written)
{
    if (!address || address % bytes)
        return false;
    sim_memory_lock();
    const struct sim_allocation *a = sim_allocation_find(address);
    bool good = a && address + bytes <= a->base + a->size && !a->denied && a->use != SIM_USE_ARRAY &&
                a->use != SIM_USE_MANAGED;
    if (good && written && a->use == SIM_USE_REGISTERED)
        good = !(a->flags & CU_MEMHOSTREGISTER_READ_ONLY);
    sim_memory_unlock();
    return good;
}

static CUresult describe_wait(const struct CUstreamMemOpWaitValueParams_st *wait, bool wide, struct sim_op *op)
{
    unsigned condition = wait->flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH;
    if (condition > CU_STREAM_WAIT_VALUE_NOR || !reachable(wait->address, wide ? 8 : 4, false))
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.type = SIM_OP_WAIT_VALUE,
                          .flags = condition | (wide ? SIM_WORD_64 : 0u), /* the same numbers */
                          .function = wait->address,
                          .argument = wide ? wait->value64 : wait->value};
    return CUDA_SUCCESS;
}

static CUresult describe_write(const struct CUstreamMemOpWriteValueParams_st *write, bool wide, struct sim_op *op)
{
    if (write->flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (write->flags != CU_STREAM_WRITE_VALUE_DEFAULT || !reachable(write->address, wide ? 8 : 4, true))
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.type = SIM_OP_WRITE_VALUE,
                          .flags = wide ? SIM_WORD_64 : 0,
                          .function = write->address,
                          .argument = wide ? write->value64 : write->value};
    return CUDA_SUCCESS;
}

static CUresult describe(const CUstreamBatchMemOpParams *params, struct sim_op *op)
{
    switch (params->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return describe_wait(&params->waitValue, params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64, op);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return describe_write(&params->writeValue, params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64, op);
    case CU_STREAM_MEM_OP_BARRIER:
        *op = (struct sim_op){.type = SIM_OP_MARK};
        return params->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_memops_check(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    struct sim_op op;
    CUresult result = CUDA_SUCCESS;
    if (!batch->count || batch->count >= BATCH || !batch->paramArray || batch->flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < batch->count && !result; i++)
        result = describe(&batch->paramArray[i], &op);
    return result;
}

CUresult sim_memops_submit(struct sim_stream *stream, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    struct sim_op op;
    CUresult result = sim_word_start() ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
    for (unsigned i = 0; i < batch->count && !result; i++) {
        result = describe(&batch->paramArray[i], &op);
        if (!result)
            result = sim_submit(stream, &op, NULL);
    }
    return result;
}

static CUresult call(const char *function, CUstream handle, unsigned count, CUstreamBatchMemOpParams *params,
                     unsigned flags)
{
    struct sim_stream *stream;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = count, .paramArray = params, .flags = flags};
    CUresult result = sim_enter_stream(function, handle, &stream);
    if (!result)
        result = sim_memops_check(&batch);
    if (result)
        return result;
    if (sim_stream_capturing(stream)) {
        struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memops = batch};
        node.memops.ctx = (CUcontext)stream->context;
        return sim_capture_add(stream, &node, NULL);
    }
    result = sim_capture_forbids_legacy_use(stream);
    if (result)
        return result;
    sim_spend_host(sim_hardware->word_ns);
    return sim_memops_submit(stream, &batch);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
                                       unsigned int flags)
{
    return call(__func__, stream, count, params, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
                                            unsigned int flags)
{
    return cuStreamBatchMemOp_v2(sim_per_thread(stream), count, params, flags);
}

/* ---- one word: each call in both stream variants, and the first versions of both ---- */

static CUresult first_version(const char *function)
{
    CUresult result = sim_enter(function);
    return result ? result : CUDA_ERROR_NOT_SUPPORTED;
}

#define WORD(type) (CUstream stream, CUdeviceptr address, type value, unsigned int flags)

#define SINGLE(name, type, kind, of, field)                                                                    \
    CUresult CUDAAPI name##_v2 WORD(type)                                                                      \
    {                                                                                                          \
        CUstreamBatchMemOpParams one = {                                                                       \
            .of = {.operation = kind, .address = address, .field = value, .flags = flags}};                    \
        return call(__func__, stream, 1, &one, 0);                                                             \
    }                                                                                                          \
    CUresult CUDAAPI name##_v2_ptsz WORD(type)                                                                 \
    {                                                                                                          \
        return name##_v2(sim_per_thread(stream), address, value, flags);                                       \
    }                                                                                                          \
    REFUSED(name, WORD(type), ((void)stream, (void)address, (void)value, (void)flags))                         \
    REFUSED(name##_ptsz, WORD(type), ((void)stream, (void)address, (void)value, (void)flags))

#define REFUSED(name, parameters, unread)                                                                      \
    CUresult CUDAAPI name parameters                                                                           \
    {                                                                                                          \
        unread;                                                                                                \
        return first_version(__func__);                                                                        \
    }

SINGLE(cuStreamWaitValue32, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32, waitValue, value)
SINGLE(cuStreamWaitValue64, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64, waitValue, value64)
SINGLE(cuStreamWriteValue32, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32, writeValue, value)
SINGLE(cuStreamWriteValue64, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64, writeValue, value64)

#define BATCH_OF (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params, unsigned int flags)
REFUSED(cuStreamBatchMemOp, BATCH_OF, ((void)stream, (void)count, (void)params, (void)flags))
REFUSED(cuStreamBatchMemOp_ptsz, BATCH_OF, ((void)stream, (void)count, (void)params, (void)flags))
