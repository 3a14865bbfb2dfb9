/*
 * Contexts: made, destroyed, current in a thread.
 *
 * Each costs the machine's context bytes while it lives, and is in its process's entry for NVML from then on.
 * The struct itself is never freed, because a destroyed context may still be current in some thread, where it
 * must read as destroyed. What it does not do: the primary context's counting (primary.c).
 */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"

#define STACK_DEPTH 64
#define THIS_VERSION 3020 /* what cuCtxGetApiVersion says of every context since CUDA 3.2 */

static _Thread_local struct sim_context *stack[STACK_DEPTH];
static _Thread_local int depth;
static struct sim_context *contexts; /* every one ever made; changed under the machine's lock */
static _Atomic uint64_t next_id = 1;

struct sim_context *sim_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult sim_context_resolve(CUcontext handle, struct sim_context **context)
{
    struct sim_context *found = handle ? (struct sim_context *)handle : sim_current();
    if (!found || found->magic != SIM_CONTEXT_MAGIC)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = found;
    return found->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

struct sim_context *sim_context_of_device(uint32_t device)
{
    struct sim_context *found = NULL;
    for (struct sim_context *c = contexts; c; c = c->next)
        if (!c->destroyed && c->device == device && (!found || c->primary))
            found = c;
    return found;
}

static void set_limits(struct sim_context *context)
{
    memset(context->limits, 0, sizeof(context->limits));
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    memcpy(context->first_limits, context->limits, sizeof(context->limits));
}

static void link_context(struct sim_context *context)
{
    sim_lock();
    sim_self()->device[context->device].contexts++;
    if (context->magic != SIM_CONTEXT_MAGIC) { /* a primary that comes back is in the list already */
        context->magic = SIM_CONTEXT_MAGIC;
        context->next = contexts;
        contexts = context;
    }
    sim_unlock();
}

CUresult sim_context_open(struct sim_context *context, CUdevice ordinal, unsigned flags)
{
    CUresult result = sim_device_resolve(ordinal, &context->device);
    if (result)
        return result;
    if (sim_device_lost(context->device))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (sim_memory_take(context->device, SIM_MEMORY_CONTEXT, sim_hardware->context_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->ordinal = ordinal;
    context->flags = flags;
    context->peers = 0;
    context->id = next_id++;
    set_limits(context);
    result = sim_stream_open(context, 0, 0, &context->legacy);
    if (result) {
        sim_memory_give(context->device, SIM_MEMORY_CONTEXT, sim_hardware->context_bytes);
        return result;
    }
    context->destroyed = false;
    link_context(context);
    return CUDA_SUCCESS;
}

void sim_context_close(struct sim_context *context)
{
    sim_context_drain(context);
    sim_memory_forget_context(context);
    context->destroyed = true;
    sim_streams_close(context);
    sim_lock();
    sim_self()->device[context->device].contexts--;
    sim_unlock();
    sim_memory_give(context->device, SIM_MEMORY_CONTEXT, sim_hardware->context_bytes + context->limit_bytes);
    context->limit_bytes = 0;
}

/* ---- making and destroying ---- */

static CUresult create(const char *function, CUcontext *handle, unsigned flags, CUdevice ordinal)
{
    CUresult result = sim_enter(function);
    if (result)
        return result;
    if (!handle || (flags & ~(unsigned)SIM_KNOWN_FLAGS) || (flags & CU_CTX_SCHED_MASK) > CU_CTX_SCHED_BLOCKING_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = calloc(1, sizeof(*context));
    if (!context || depth == STACK_DEPTH) {
        free(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = sim_context_open(context, ordinal, flags);
    if (result) {
        free(context);
        return result;
    }
    context->users = 1;
    stack[depth++] = context;
    *handle = (CUcontext)context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice ordinal)
{
    return create(__func__, context, flags, ordinal);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice ordinal)
{
    return create(__func__, context, flags, ordinal);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count,
                                unsigned int flags, CUdevice ordinal)
{
    if (affinity || count)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* needs MPS */
    return create(__func__, context, flags, ordinal);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
                                CUdevice ordinal)
{
    if (params && params->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(__func__, context, flags, ordinal);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = handle ? sim_context_resolve(handle, &context) : CUDA_ERROR_INVALID_VALUE;
    if (result || context->primary) /* a primary context is released, not destroyed */
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    sim_context_close(context);
    if (depth > 0 && stack[depth - 1] == context)
        depth--;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext handle)
{
    return cuCtxDestroy_v2(handle);
}

CUresult CUDAAPI cuCtxAttach(CUcontext *handle, unsigned int flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !handle || flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    context->users++;
    *handle = (CUcontext)context;
    return CUDA_SUCCESS;
}

/* Of the current context alone; the last user takes it along. A primary context ends by its own count. */
CUresult CUDAAPI cuCtxDetach(CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || handle != (CUcontext)context || context->users == 0)
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    bool last = --context->users == 0 && !context->primary;
    return last ? cuCtxDestroy_v2(handle) : CUDA_SUCCESS;
}

/* ---- current in this thread ---- */

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = handle ? sim_context_resolve(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
    if (result || depth == STACK_DEPTH)
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle)
{
    return cuCtxPushCurrent_v2(handle);
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *handle)
{
    CUresult result = sim_enter(__func__);
    if (result || depth == 0)
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (handle)
        *handle = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *handle)
{
    return cuCtxPopCurrent_v2(handle);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    if (!handle) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    result = sim_context_resolve(handle, &context);
    if (result)
        return result;
    depth += depth == 0;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *handle)
{
    CUresult result = sim_enter(__func__);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *handle = (CUcontext)sim_current();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    struct sim_context *context;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_context_resolve(handle, &context);
    if (result || !version)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *version = THIS_VERSION;
    return CUDA_SUCCESS;
}
