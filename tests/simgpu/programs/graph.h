/*
 * What the programs about graphs share: graphs of timed kernels, and how long one takes.
 *
 * The time is told by events around a launch, behind a kernel that keeps the stream busy until all is queued.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include "client.h"

static CUstream stream;

static inline void begin(void)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
}

static inline CUgraph new_graph(void)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    return graph;
}

static inline CUDA_KERNEL_NODE_PARAMS spin_params(void **parameters)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = spin_kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                     .blockDimY = 1, .blockDimZ = 1, .kernelParams = parameters};
}

/* The parameter is a local that is gone when the graph is launched: the node must have its own copy. */
static inline CUgraphNode add_spin(CUgraph graph, CUgraphNode after, uint64_t ns)
{
    CUgraphNode node;
    void *parameters[] = {&ns};
    CUDA_KERNEL_NODE_PARAMS params = spin_params(parameters);
    OK(cuGraphAddKernelNode(&node, graph, after ? &after : NULL, after != NULL, &params));
    return node;
}

static inline CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static inline long launch_time(CUgraphExec exec)
{
    CUevent from = new_event(), to = new_event();
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(from, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(to, stream));
    return between(from, to);
}

static _Atomic int calls;

static inline void count_call(void *by)
{
    calls += (int)(intptr_t)by;
}

#endif
