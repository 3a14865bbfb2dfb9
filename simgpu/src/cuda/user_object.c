/*
 * User objects: the program's own resources whose life a graph prolongs.
 *
 * An object is destroyed by its destructor when the last reference is gone, be it the program's or a graph's.
 * Graphs made from another (a clone, an executable) take no references of their own here but live on their
 * original's: what they carry is the host's, and no simulated kernel reads it.
 */
#include <stdlib.h>

#include "graph.h"

struct user_object {
    void *pointer;
    CUhostFn destroy;
    unsigned references;
};

struct sim_user_reference {
    struct user_object *object;
    unsigned count;
    struct sim_user_reference *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult change(struct user_object *object, unsigned added, unsigned removed)
{
    pthread_mutex_lock(&lock);
    bool enough = object->references + added >= removed;
    if (enough)
        object->references += added - removed;
    bool last = enough && object->references == 0;
    pthread_mutex_unlock(&lock);
    if (last) {
        object->destroy(object->pointer);
        free(object);
    }
    return enough ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *handle, void *pointer, CUhostFn destroy, unsigned int references,
                                    unsigned int flags)
{
    CUresult result = sim_enter(__func__);
    if (result || !handle || !destroy || references == 0 || references > INT32_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct user_object *object = malloc(sizeof(*object));
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct user_object){pointer, destroy, references};
    *handle = (CUuserObject)object;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    CUresult result = sim_enter(__func__);
    if (result || !object || count == 0 || count > INT32_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return change((struct user_object *)object, count, 0);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    CUresult result = sim_enter(__func__);
    if (result || !object || count == 0 || count > INT32_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return change((struct user_object *)object, 0, count);
}

static struct sim_user_reference *find(struct sim_graph *graph, const struct user_object *object)
{
    struct sim_user_reference *reference = graph->users;
    while (reference && reference->object != object)
        reference = reference->next;
    return reference;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph handle, CUuserObject object, unsigned int count, unsigned int flags)
{
    struct sim_graph *graph;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_graph_resolve(handle, &graph);
    if (result || !object || count == 0 || count > INT32_MAX || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    struct sim_user_reference *reference = find(graph, (struct user_object *)object);
    if (!reference) {
        reference = calloc(1, sizeof(*reference));
        if (!reference)
            return CUDA_ERROR_OUT_OF_MEMORY;
        reference->object = (struct user_object *)object;
        reference->next = graph->users;
        graph->users = reference;
    }
    reference->count += count;
    return flags & CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : change(reference->object, count, 0);
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph handle, CUuserObject object, unsigned int count)
{
    struct sim_graph *graph;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = sim_graph_resolve(handle, &graph);
    struct sim_user_reference *reference = result ? NULL : find(graph, (struct user_object *)object);
    if (!reference || count == 0 || count > reference->count)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    reference->count -= count;
    return change(reference->object, 0, count);
}

void sim_graph_release_users(struct sim_graph *graph)
{
    for (struct sim_user_reference *reference = graph->users, *next; reference; reference = next) {
        next = reference->next;
        if (reference->count)
            change(reference->object, 0, reference->count);
        free(reference);
    }
    graph->users = NULL;
}
