/*
 * Makes and launches graphs that allocate, as its arguments say, and prints each result:
 *
 *   add|any|capture:BYTES:COUNT   makes graph N: COUNT allocations that it keeps, made in one of three ways
 *   within:BYTES:COUNT                  … that it frees itself, each before the next
 *   launch:N  other:N (in another stream)  upload:N  ready:BYTES (a graph uploaded when it is instantiated)
 *   free:N (what graph N allocated)  destroy:N (the executable graph)  trim  sync  alloc:BYTES  unalloc
 *   elsewhere:BYTES (a node on the second card)  wait (for a byte)
 *
 * A failure to make a graph is its result. What it does not do: judge; the test does.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define GRAPHS 64
#define NODES 64

static struct made {
    CUgraphExec ready;
    CUdeviceptr pointers[NODES];
    int count;
} graphs[GRAPHS];

static int made;
static CUstream streams[2];

static CUDA_MEM_ALLOC_NODE_PARAMS node_of(size_t size)
{
    CUmemPoolProps here = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = here, .bytesize = size};
}

static CUresult add(CUgraph graph, CUgraphNode *last, size_t size, CUdeviceptr *pointer)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = node_of(size);
    CUresult result = GPU(cuGraphAddMemAllocNode)(last, graph, last, *last ? 1 : 0, &params);
    *pointer = params.dptr;
    return result;
}

static CUresult add_any(CUgraph graph, CUgraphNode *last, size_t size, CUdeviceptr *pointer)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.poolProps = node_of(size).poolProps;
    params.alloc.bytesize = size;
    CUresult result = GPU(cuGraphAddNode)(last, graph, last, *last ? 1 : 0, &params);
    *pointer = params.alloc.dptr;
    return result;
}

/* The nodes of a new graph; `way`: how they are made. */
static CUresult fill(const char *way, CUgraph graph, size_t size, struct made *to)
{
    CUgraphNode last = NULL;
    for (int i = 0; i < to->count; i++) {
        CUresult result = (*way == 'a' && way[1] == 'n' ? add_any : add)(graph, &last, size, &to->pointers[i]);
        if (result == CUDA_SUCCESS && !strcmp(way, "within"))
            result = GPU(cuGraphAddMemFreeNode)(&last, graph, &last, 1, to->pointers[i]);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult capture(CUgraph *graph, size_t size, struct made *to)
{
    CUresult result = GPU(cuStreamBeginCapture_v2)(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < to->count && result == CUDA_SUCCESS; i++)
        result = GPU(cuMemAllocAsync)(&to->pointers[i], size, streams[0]);
    CUresult ended = GPU(cuStreamEndCapture)(streams[0], graph);
    return result ? result : ended;
}

static CUresult make(const char *way, size_t size, int count)
{
    CUgraph graph;
    struct made *to = &graphs[made];
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, .hUploadStream = streams[0]};
    to->count = count;
    REQUIRE(made < GRAPHS && count <= NODES);
    CUresult result;
    if (!strcmp(way, "capture"))
        result = capture(&graph, size, to);
    else if ((result = GPU(cuGraphCreate)(&graph, 0)) == CUDA_SUCCESS)
        result = fill(way, graph, size, to);
    if (result == CUDA_SUCCESS)
        result = !strcmp(way, "ready") ? GPU(cuGraphInstantiateWithParams)(&to->ready, graph, &params)
                                       : GPU(cuGraphInstantiateWithFlags)(&to->ready, graph, 0);
    made += result == CUDA_SUCCESS;
    return result;
}

static CUresult add_elsewhere(size_t size)
{
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = node_of(size);
    params.poolProps.location.id = 1;
    REQUIRE(!GPU(cuGraphCreate)(&graph, 0));
    return GPU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params);
}

static CUresult free_all(const struct made *of)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < of->count && result == CUDA_SUCCESS; i++)
        result = GPU(cuMemFreeAsync)(of->pointers[i], streams[0]);
    return result;
}

static int wait_for_byte(void)
{
    char byte;
    printf("waiting\n");
    fflush(stdout);
    return (int)read(STDIN_FILENO, &byte, 1);
}

static int run(const char *name, size_t value, int count)
{
    static CUdeviceptr pointer;
    if (!strcmp(name, "launch"))
        return (int)GPU(cuGraphLaunch)(graphs[value].ready, streams[0]);
    if (!strcmp(name, "other"))
        return (int)GPU(cuGraphLaunch)(graphs[value].ready, streams[1]);
    if (!strcmp(name, "upload"))
        return (int)GPU(cuGraphUpload)(graphs[value].ready, streams[0]);
    if (!strcmp(name, "free"))
        return (int)free_all(&graphs[value]);
    if (!strcmp(name, "destroy"))
        return (int)GPU(cuGraphExecDestroy)(graphs[value].ready);
    if (!strcmp(name, "trim"))
        return (int)GPU(cuDeviceGraphMemTrim)(0);
    if (!strcmp(name, "sync"))
        return (int)GPU(cuCtxSynchronize)();
    if (!strcmp(name, "alloc"))
        return (int)GPU(cuMemAlloc_v2)(&pointer, value);
    if (!strcmp(name, "unalloc"))
        return (int)GPU(cuMemFree_v2)(pointer);
    if (!strcmp(name, "elsewhere"))
        return (int)add_elsewhere(value);
    if (!strcmp(name, "wait"))
        return wait_for_byte();
    return (int)make(name, value, count ? count : 1);
}

int main(int argc, char **argv)
{
    gpu_open();
    for (int i = 0; i < 2; i++)
        REQUIRE(!GPU(cuStreamCreate)(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 1; i < argc; i++) {
        char name[32] = "";
        unsigned long long value = 0;
        int count = 0;
        sscanf(argv[i], "%31[^:]:%llu:%d", name, &value, &count);
        printf("%s %d\n", argv[i], run(name, value, count));
    }
    return 0;
}
