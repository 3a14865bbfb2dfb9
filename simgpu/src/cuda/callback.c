/*
 * Host functions and stream callbacks: the host's own code, in a stream's order.
 *
 * Both are run by the process's helper thread (engine/host.c). A callback also gets its stream and its status;
 * what carries these is freed once it has run. What it does not do: protect the helper from a function that
 * calls CUDA and waits for itself, which CUDA forbids.
 */
#include <stdlib.h>

#include "graph.h"

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !function)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_capturing(stream)) {
        struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = function, .userData = argument}};
        return sim_capture_add(stream, &node, NULL);
    }
    result = sim_capture_forbids_legacy_use(stream);
    if (!result && sim_host_start())
        result = CUDA_ERROR_OPERATING_SYSTEM;
    if (result)
        return result;
    uint64_t now = sim_submit_begin(stream);
    sim_host_push(stream->channel, function, argument, now);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *argument)
{
    return cuLaunchHostFunc(sim_per_thread(stream), function, argument);
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *argument;
};

static void run_callback(void *carried)
{
    struct callback callback = *(struct callback *)carried;
    free(carried);
    callback.function(callback.stream, CUDA_SUCCESS, callback.argument);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *argument,
                                     unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, handle, &stream);
    if (result || !function || flags)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_capturing(stream)) /* only host functions can be captured */
        return sim_capture_forbids_stream(stream);
    struct callback *carried = malloc(sizeof(*carried));
    if (!carried)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *carried = (struct callback){function, handle, argument};
    result = cuLaunchHostFunc(handle, run_callback, carried);
    if (result)
        free(carried);
    return result;
}

CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback function, void *argument,
                                          unsigned int flags)
{
    return cuStreamAddCallback(sim_per_thread(stream), function, argument, flags);
}
