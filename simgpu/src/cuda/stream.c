/*
 * Streams: made, destroyed, found by handle, asked about.
 *
 * A stream is a channel of the machine. Every context has its legacy stream from the start; a thread gets its
 * per-thread stream of a context when it first uses it and loses it when the thread ends. A destroyed stream's
 * work still runs. What it does not do: submit anything (submit.c) or capture (capture.c).
 */
#include <stdlib.h>

#include "context.h"
#include "objects.h"

static _Atomic uint64_t next_id = 1;

CUresult sim_stream_open(struct sim_context *context, unsigned flags, int priority, struct sim_stream **opened)
{
    struct sim_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->magic = SIM_STREAM_MAGIC;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = next_id++;
    sim_lock();
    stream->channel = sim_channel_create(sim_self_index(), context->device, priority, context->id);
    if (stream->channel != SIM_NONE) {
        stream->next = context->streams;
        context->streams = stream;
    }
    sim_unlock();
    if (stream->channel == SIM_NONE) {
        free(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *opened = stream;
    return CUDA_SUCCESS;
}

static void unlink_stream(struct sim_stream *stream)
{
    struct sim_stream **link = &stream->context->streams;
    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link)
        *link = stream->next;
}

static void close_stream(struct sim_stream *stream)
{
    if (stream->capture)
        sim_capture_stream_gone(stream);
    uint64_t now = sim_lock();
    unlink_stream(stream);
    sim_channel_destroy(stream->channel, now);
    sim_unlock();
    stream->magic = 0;
    free(stream);
}

void sim_streams_close(struct sim_context *context)
{
    while (context->streams)
        close_stream(context->streams);
    context->legacy = NULL;
}

/* ---- the per-thread default stream ---- */

struct own_stream { /* one for each context this thread used its default stream in */
    struct sim_context *context;
    uint64_t context_id; /* a primary context may have been away meanwhile */
    struct sim_stream *stream;
    struct own_stream *next;
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void thread_ended(void *list)
{
    for (struct own_stream *own = list, *next; own; own = next) {
        next = own->next;
        if (sim_attached() && !own->context->destroyed && own->context->id == own->context_id)
            close_stream(own->stream);
        free(own);
    }
}

static void make_key(void)
{
    pthread_key_create(&key, thread_ended);
}

static CUresult per_thread_stream(struct sim_context *context, struct sim_stream **stream)
{
    pthread_once(&key_once, make_key);
    struct own_stream *list = pthread_getspecific(key);
    for (struct own_stream *own = list; own; own = own->next)
        if (own->context == context && own->context_id == context->id) {
            *stream = own->stream;
            return CUDA_SUCCESS;
        }
    struct own_stream *own = calloc(1, sizeof(*own));
    CUresult result = own ? sim_stream_open(context, 0, 0, &own->stream) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(own);
        return result;
    }
    own->context = context;
    own->context_id = context->id;
    own->next = list;
    pthread_setspecific(key, own);
    *stream = own->stream;
    return CUDA_SUCCESS;
}

CUresult sim_stream_resolve(CUstream handle, bool per_thread, struct sim_stream **stream)
{
    struct sim_context *context = sim_current();
    if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        *stream = (struct sim_stream *)handle;
        return (*stream)->magic == SIM_STREAM_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->destroyed)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (handle == CU_STREAM_PER_THREAD || (handle == NULL && per_thread))
        return per_thread_stream(context, stream);
    *stream = context->legacy;
    return CUDA_SUCCESS;
}

CUresult sim_enter_stream(const char *function, CUstream handle, struct sim_stream **stream)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_stream_resolve(handle, false, stream);
    if (!result && sim_device_lost((*stream)->context->device))
        result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    return result;
}

/* ---- making and destroying ---- */

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *handle, unsigned int flags, int priority)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !handle || flags > CU_STREAM_NON_BLOCKING)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < SIM_GREATEST_PRIORITY ? SIM_GREATEST_PRIORITY : priority;
    result = sim_stream_open(context, flags, priority, &stream);
    if (!result)
        *handle = (CUstream)stream;
    return result;
}

CUresult CUDAAPI cuStreamCreate(CUstream *handle, unsigned int flags)
{
    CUresult fault = sim_enter(__func__);
    return fault ? fault : cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result = sim_enter(__func__);
    if (result)
        return result;
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    result = sim_stream_resolve(handle, false, &stream);
    if (!result)
        close_stream(stream);
    return result;
}

CUresult CUDAAPI cuStreamDestroy(CUstream handle)
{
    return cuStreamDestroy_v2(handle);
}
