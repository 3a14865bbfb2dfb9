/*
 * Launches one kernel by each function of the driver that can, in the order of its arguments.
 *
 *   launches FUNCTION...     for each: reads a byte, launches, waits for the kernel, prints "FUNCTION RESULT"
 *                            "two": cuLaunchCooperativeKernelMultiDevice on two cards
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "spin.h"

static CUfunction function;
static CUstream stream;
static CUgraphExec graph;
static unsigned long long ns = 100000;
static void *parameters[] = {&ns};

#define GRID 1, 1, 1, 1, 1, 1, 0

static void make_graph(void)
{
    CUgraph made;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = {.func = function,
                                         .gridDimX = 1,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 1,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = parameters};
    REQUIRE(GPU(cuGraphCreate)(&made, 0) == CUDA_SUCCESS);
    REQUIRE(GPU(cuGraphAddKernelNode_v2)(&node, made, NULL, 0, &kernel) == CUDA_SUCCESS);
    REQUIRE(GPU(cuGraphInstantiateWithFlags)(&graph, made, 0) == CUDA_SUCCESS);
}

/* The card's context is current afterwards. */
static void open_card(CUdevice card, CUfunction *loaded, CUstream *made)
{
    CUmodule module;
    CUcontext context;
    REQUIRE(GPU(cuDevicePrimaryCtxRetain)(&context, card) == CUDA_SUCCESS);
    REQUIRE(GPU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    REQUIRE(GPU(cuModuleLoadData)(&module, spin_ptx) == CUDA_SUCCESS);
    REQUIRE(GPU(cuModuleGetFunction)(loaded, module, "weir_spin") == CUDA_SUCCESS);
    REQUIRE(GPU(cuStreamCreate)(made, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
}

static void set_up(void)
{
    REQUIRE(GPU(cuInit)(0) == CUDA_SUCCESS);
    open_card(0, &function, &stream);
    REQUIRE(GPU(cuFuncSetBlockShape)(function, 1, 1, 1) == CUDA_SUCCESS);
    REQUIRE(GPU(cuParamSetSize)(function, sizeof ns) == CUDA_SUCCESS);
    REQUIRE(GPU(cuParamSetv)(function, 0, &ns, sizeof ns) == CUDA_SUCCESS);
    make_graph();
}

static CUresult launch_on_cards(unsigned count)
{
    CUDA_LAUNCH_PARAMS each[2] = {{function, GRID, stream, parameters}, {function, GRID, stream, parameters}};
    CUcontext contexts[2];
    REQUIRE(GPU(cuCtxGetCurrent)(&contexts[0]) == CUDA_SUCCESS);
    if (count == 2)
        open_card(1, &each[1].function, &each[1].hStream);
    REQUIRE(GPU(cuCtxGetCurrent)(&contexts[1]) == CUDA_SUCCESS);
    REQUIRE(GPU(cuCtxSetCurrent)(contexts[0]) == CUDA_SUCCESS);
    CUresult result = GPU(cuLaunchCooperativeKernelMultiDevice)(each, count, 0);
    CUcontext after;
    REQUIRE(GPU(cuCtxGetCurrent)(&after) == CUDA_SUCCESS && after == contexts[0]);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(GPU(cuCtxSetCurrent)(contexts[i]) == CUDA_SUCCESS);
        REQUIRE(GPU(cuStreamSynchronize)(each[i].hStream) == CUDA_SUCCESS);
    }
    return result;
}

#define ENTRY(symbol) ((__typeof__(&symbol))entry)

static CUresult launch(const char *name)
{
    if (strcmp(name, "two") == 0)
        return launch_on_cards(2);
    void *entry = gpu_find(name);
    CUlaunchConfig config = {GRID, stream, NULL, 0};
    bool of_thread = strstr(name, "_ptsz"); /* in such a call, no stream is the thread's own */
    CUstream where = of_thread ? NULL : stream;
    config.hStream = where;
    if (strncmp(name, "cuLaunchKernelEx", 16) == 0)
        return ENTRY(cuLaunchKernelEx)(&config, function, parameters, NULL);
    if (strncmp(name, "cuLaunchKernel", 14) == 0)
        return ENTRY(cuLaunchKernel)(function, GRID, where, parameters, NULL);
    if (strcmp(name, "cuLaunchCooperativeKernelMultiDevice") == 0)
        return launch_on_cards(1);
    if (strncmp(name, "cuLaunchCooperativeKernel", 25) == 0)
        return ENTRY(cuLaunchCooperativeKernel)(function, GRID, where, parameters);
    if (strncmp(name, "cuGraphLaunch", 13) == 0)
        return ENTRY(cuGraphLaunch)(graph, where);
    if (strcmp(name, "cuLaunch") == 0)
        return ENTRY(cuLaunch)(function);
    if (strcmp(name, "cuLaunchGrid") == 0)
        return ENTRY(cuLaunchGrid)(function, 1, 1);
    if (strcmp(name, "cuLaunchGridAsync") == 0)
        return ENTRY(cuLaunchGridAsync)(function, 1, 1, stream);
    fprintf(stderr, "%s: this program does not know how to call it\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    char byte;
    set_up();
    for (int i = 1; i < argc && read(STDIN_FILENO, &byte, 1) == 1; i++) {
        CUresult result = launch(argv[i]);
        REQUIRE(GPU(cuCtxSynchronize)() == CUDA_SUCCESS);
        printf("%s %d\n", argv[i], result);
        fflush(stdout);
    }
    return 0;
}
