/*
 * The hooks of kernel launches, of fills, of the calls that wait for kernels, of the beginnings of captures and of the
 * ends of streams (hooks.h names them).
 *
 * Each is the driver's call between pacing_begin and pacing_end; a graph's memory is charged in between. The _ptsz
 * variants mean the calling thread's own default stream where the others mean the legacy one. Nothing is decided
 * here.
 */
#include "graphs.h"
#include "pacing.h"
#include "page.h"
#include "pools.h"
#include "streams.h"

/*
 * The key under which the time of a kernel is learnt: its function and the size of its grid to a quarter, for
 * frameworks launch the same function on tensors of any size.
 */
static const void *kernel_of(CUfunction function, uint64_t gx, uint64_t gy, uint64_t gz)
{
    uint64_t blocks = gx * gy * gz | 1;
    unsigned log = 63 - (unsigned)__builtin_clzll(blocks);
    uint64_t quarter = log < 2 ? 0 : blocks >> (log - 2) & 3;
    return (const void *)((uintptr_t)function ^ (uintptr_t)(log << 2 | quarter) << 52); /* above any address */
}

#define LAUNCH(symbol, function, stream, ...)                                                                \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        struct pacing pacing = pacing_begin(function, stream);                                               \
        CUresult result = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        pacing_end(&pacing, result);                                                                         \
        return result;                                                                                       \
    }

#define WAIT(symbol, scope, what, ...)                                                                       \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        uint64_t began = pacing_before_wait(scope, what);                                                    \
        CUresult result = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        pacing_after_wait(scope, began);                                                                     \
        weir_pools_waited((scope) == PACING_ALL);                                                            \
        return result;                                                                                       \
    }

#define KERNEL(symbol, as_stream)                                                                            \
    CUresult symbol(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,    \
                    unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)          \
    LAUNCH(symbol, kernel_of(function, gx, gy, gz), as_stream(stream), function, gx, gy, gz, bx, by, bz,     \
           shared, stream, parameters, extra)

#define KERNEL_EX(symbol, as_stream)                                                                         \
    CUresult symbol(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)      \
    LAUNCH(symbol, config ? kernel_of(function, config->gridDimX, config->gridDimY, config->gridDimZ) : NULL, \
           as_stream(config ? config->hStream : NULL), config, function, parameters, extra)

#define COOPERATIVE(symbol, as_stream)                                                                       \
    CUresult symbol(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,    \
                    unsigned bz, unsigned shared, CUstream stream, void **parameters)                        \
    LAUNCH(symbol, kernel_of(function, gx, gy, gz), as_stream(stream), function, gx, gy, gz, bx, by, bz,     \
           shared, stream, parameters)

#define GRAPH(symbol, as_stream)                                                                             \
    CUresult symbol(CUgraphExec graph, CUstream stream)                                                      \
    {                                                                                                        \
        struct weir_graph_use use;                                                                           \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(graph, stream);                                                         \
        struct pacing pacing = pacing_begin(graph, as_stream(stream));                                       \
        bool fits = weir_graph_begin(&use, graph, as_stream(stream));                                        \
        CUresult result = fits ? WEIR_CALL(symbol, graph, stream) : CUDA_ERROR_OUT_OF_MEMORY;                \
        if (fits)                                                                                            \
            weir_graph_end(&use, result);                                                                    \
        pacing_end(&pacing, result);                                                                         \
        return result;                                                                                       \
    }

KERNEL(cuLaunchKernel, )
KERNEL(cuLaunchKernel_ptsz, own_default)
KERNEL_EX(cuLaunchKernelEx, )
KERNEL_EX(cuLaunchKernelEx_ptsz, own_default)
COOPERATIVE(cuLaunchCooperativeKernel, )
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, own_default)
GRAPH(cuGraphLaunch, )
GRAPH(cuGraphLaunch_ptsz, own_default)

/* Makes the stream's context the current one, until it is left again. */
static bool enter(CUstream stream)
{
    return !stream_captures(stream) && context_enter(stream_context(stream));
}

static void leave(bool entered)
{
    if (entered)
        context_leave();
}

/* One kernel on several cards, each paced by its own; long deprecated. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
    struct pacing pacings[WEIR_MAX_DEVICES];
    unsigned paced = !list || weir_inside ? 0 : count < WEIR_MAX_DEVICES ? count : WEIR_MAX_DEVICES;
    for (unsigned i = 0; i < paced; i++) {
        bool entered = enter(list[i].hStream);
        const void *kernel = kernel_of(list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ);
        pacings[i] = pacing_begin(kernel, list[i].hStream);
        leave(entered);
    }
    CUresult result = WEIR_CALL(cuLaunchCooperativeKernelMultiDevice, list, count, flags);
    for (unsigned i = 0; i < paced; i++) {
        bool entered = enter(list[i].hStream);
        pacing_end(&pacings[i], result);
        leave(entered);
    }
    return result;
}

CUresult cuLaunch(CUfunction function) LAUNCH(cuLaunch, function, NULL, function)
CUresult cuLaunchGrid(CUfunction function, int width, int height)
LAUNCH(cuLaunchGrid, kernel_of(function, (unsigned)width, (unsigned)height, 1), NULL, function, width, height)
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
LAUNCH(cuLaunchGridAsync, kernel_of(function, (unsigned)width, (unsigned)height, 1), stream, function, width, height,
       stream)

/* … and of a fill: one for each power of two, far below any function. */
static const void *fill_of(uint64_t bytes)
{
    return (const void *)(uintptr_t)(64 - __builtin_clzll(bytes | 1));
}

#define WEIR_SPREAD(...) __VA_ARGS__
#define FILL(symbol, prototype, need, params, args, stream, bytes)                                           \
    CUresult symbol params LAUNCH(symbol, fill_of(bytes), stream, WEIR_SPREAD args)
WEIR_FILL_HOOKS(FILL)

CUresult cuStreamSynchronize(CUstream stream) WAIT(cuStreamSynchronize, PACING_STREAM, stream, stream)
CUresult cuStreamSynchronize_ptsz(CUstream stream)
WAIT(cuStreamSynchronize_ptsz, PACING_STREAM, own_default(stream), stream)
CUresult cuCtxSynchronize(void) WAIT(cuCtxSynchronize, PACING_ALL, NULL, )
CUresult cuCtxSynchronize_v2(CUcontext context) WAIT(cuCtxSynchronize_v2, PACING_ALL, NULL, context)
CUresult cuEventSynchronize(CUevent event) WAIT(cuEventSynchronize, PACING_EVENT, event, event)

/*
 * A capture begins with no batch open: no ticket then covers a launch that is captured, which is no work, and no
 * thread finds one to end in a stream that has joined the capture since it asked.
 */
#define BEGIN_CAPTURE(symbol, ...)                                                                           \
    {                                                                                                        \
        if (!weir_inside)                                                                                    \
            pacing_before_wait(PACING_ALL, NULL);                                                            \
        return WEIR_CALL(symbol, __VA_ARGS__);                                                               \
    }
#define BEGIN_V1(symbol) CUresult symbol(CUstream stream) BEGIN_CAPTURE(symbol, stream)
#define BEGIN_V2(symbol)                                                                                     \
    CUresult symbol(CUstream stream, CUstreamCaptureMode mode) BEGIN_CAPTURE(symbol, stream, mode)
#define BEGIN_TO_GRAPH(symbol)                                                                               \
    CUresult symbol(CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,  \
                    size_t count, CUstreamCaptureMode mode)                                                  \
    BEGIN_CAPTURE(symbol, stream, graph, after, edges, count, mode)

BEGIN_V1(cuStreamBeginCapture)
BEGIN_V1(cuStreamBeginCapture_ptsz)
BEGIN_V2(cuStreamBeginCapture_v2)
BEGIN_V2(cuStreamBeginCapture_v2_ptsz)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)

#define DESTROY(symbol)                                                                                      \
    CUresult symbol(CUstream stream)                                                                         \
    {                                                                                                        \
        if (!weir_inside)                                                                                    \
            pacing_forget_stream(stream);                                                                    \
        return WEIR_CALL(symbol, stream);                                                                    \
    }

DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
