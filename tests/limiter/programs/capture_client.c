/*
 * Captures streams in one situation after another, as its arguments NAME:MODE say (0 global, 1 of the thread, 2
 * relaxed), and prints each with the results of its calls, the nodes that were captured, and what launches of the
 * graph gave. `wait` waits for a byte.
 *
 * What it does not do: judge; the test compares with what the same program prints without the limiter.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define SIZE ((size_t)3 << 20)
#define LARGE ((size_t)160 << 20)

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry weir_spin(.param .u64 ns)\n{\nret;\n}\n";
static CUfunction function;
static CUcontext context;
static CUstream one, two;
static CUstreamCaptureMode mode;

static void tell(CUresult result) { printf(" %d", (int)result); }

static CUresult spin(CUstream stream, unsigned long long ns)
{
    void *parameters[] = {&ns};
    return GPU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static void spins(CUstream stream, int count)
{
    for (int i = 0; i < count; i++)
        tell(spin(stream, 50000));
}

/* More than a batch, so that the limiter has one open in each stream. */
static void warm_up(void)
{
    for (int i = 0; i < 30; i++) {
        REQUIRE(!spin(one, 20000));
        REQUIRE(!spin(two, 20000));
    }
}

static void begin(CUstream stream) { tell(GPU(cuStreamBeginCapture_v2)(stream, mode)); }

static CUgraph end(CUstream stream)
{
    CUgraph graph = NULL;
    size_t nodes = 0;
    tell(GPU(cuStreamEndCapture)(stream, &graph));
    if (graph)
        REQUIRE(!GPU(cuGraphGetNodes)(graph, NULL, &nodes));
    printf(" [%zu]", nodes);
    return graph;
}

/* Launches what was captured, and waits. */
static CUgraphExec replay(CUgraph graph, int times)
{
    CUgraphExec ready = NULL;
    if (!graph)
        return NULL;
    tell(GPU(cuGraphInstantiateWithFlags)(&ready, graph, 0));
    for (int i = 0; i < times; i++)
        tell(GPU(cuGraphLaunch)(ready, one));
    tell(GPU(cuStreamSynchronize)(one));
    return ready;
}

static void *set_up_thread(void *work)
{
    REQUIRE(!GPU(cuCtxSetCurrent)(context));
    ((void (*)(void))work)();
    return NULL;
}

static void in_another_thread(void (*work)(void))
{
    pthread_t thread;
    REQUIRE(!pthread_create(&thread, NULL, set_up_thread, (void *)work));
    REQUIRE(!pthread_join(thread, NULL));
}

static CUevent new_event(void)
{
    CUevent event;
    REQUIRE(!GPU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* ---- what one stream captures ---- */

static void temporary(CUstream stream)
{
    CUdeviceptr pointer = 0;
    tell(GPU(cuMemAllocAsync)(&pointer, SIZE, stream));
    tell(spin(stream, 20000));
    tell(GPU(cuMemsetD8Async)(pointer, 1, SIZE, stream));
    tell(GPU(cuMemFreeAsync)(pointer, stream));
}

static void alloc(void)
{
    begin(one);
    temporary(one);
    replay(end(one), 20);
}

static void kept(void)
{
    CUdeviceptr pointer = 0;
    begin(one);
    tell(GPU(cuMemAllocAsync)(&pointer, SIZE, one));
    CUgraphExec ready = replay(end(one), 2); /* the second finds its memory still there */
    tell(GPU(cuMemFreeAsync)(pointer, one));
    tell(GPU(cuGraphLaunch)(ready, one));
    tell(GPU(cuStreamSynchronize)(one));
}

static void pool(void)
{
    CUdeviceptr pointer = 0;
    CUmemoryPool own;
    CUmemPoolProps here = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    tell(GPU(cuMemPoolCreate)(&own, &here));
    begin(one);
    tell(GPU(cuMemAllocFromPoolAsync)(&pointer, SIZE, own, one));
    tell(GPU(cuMemFreeAsync)(pointer, one));
    replay(end(one), 3);
}

static void thread_stream(void)
{
    CUdeviceptr pointer = 0;
    begin(CU_STREAM_PER_THREAD);
    tell(GPU(cuMemAllocAsync_ptsz)(&pointer, SIZE, NULL));
    tell(spin(CU_STREAM_PER_THREAD, 20000));
    tell(GPU(cuMemFreeAsync_ptsz)(pointer, NULL));
    replay(end(CU_STREAM_PER_THREAD), 3);
}

static void fork_join(void)
{
    CUevent forked = new_event(), joined = new_event();
    warm_up();
    begin(one);
    tell(spin(one, 20000));
    tell(GPU(cuEventRecord)(forked, one));
    tell(GPU(cuStreamWaitEvent)(two, forked, 0));
    temporary(two);
    usleep(2000);
    tell(spin(two, 20000));
    tell(spin(one, 20000));
    tell(GPU(cuEventRecord)(joined, two));
    tell(GPU(cuStreamWaitEvent)(one, joined, 0));
    replay(end(one), 20);
}

static void slow(void)
{
    warm_up();
    begin(one);
    for (int i = 0; i < 3; i++) {
        usleep(2000); /* what the limiter has open is done by now */
        temporary(one);
    }
    replay(end(one), 3);
}

/* Captured only: no work. */
static void many(void)
{
    warm_up();
    begin(one);
    spins(one, 200);
    end(one);
    tell(GPU(cuStreamSynchronize)(one));
    tell(GPU(cuStreamSynchronize)(two));
}

static void graph_in_graph(void)
{
    CUgraphExec inner;
    begin(one);
    tell(spin(one, 20000));
    REQUIRE((inner = replay(end(one), 1)));
    begin(one);
    tell(GPU(cuGraphLaunch)(inner, one));
    tell(spin(one, 20000));
    replay(end(one), 3);
}

/* ---- what happens beside it ---- */

static void beside(void (*work)(void))
{
    warm_up();
    begin(one);
    temporary(one);
    usleep(2000);
    work();
    temporary(one);
    replay(end(one), 3);
    tell(GPU(cuStreamSynchronize)(two));
}

static void allocate_plain(void)
{
    CUdeviceptr pointer = 0;
    tell(GPU(cuMemAlloc_v2)(&pointer, SIZE));
    tell(GPU(cuMemFree_v2)(pointer));
}

static void launch_elsewhere(void)
{
    spins(two, 10);
    usleep(2000);
    spins(two, 10);
    tell(GPU(cuEventRecord)(new_event(), two));
}

/* Twice what fits: the first has to be gone, and given back to the card, before the second. */
static void allocate_elsewhere(void)
{
    CUdeviceptr pointer = 0;
    for (int i = 0; i < 2; i++) {
        spins(two, 5);
        tell(GPU(cuMemAllocAsync)(&pointer, LARGE, two));
        tell(GPU(cuMemFreeAsync)(pointer, two));
    }
}

static void wait_elsewhere(void)
{
    spins(two, 3);
    tell(GPU(cuStreamSynchronize)(two));
}

static CUevent done;

static void wait_for_event(void) { tell(GPU(cuEventSynchronize)(done)); }
static void wait_for_all(void) { tell(GPU(cuCtxSynchronize)()); }

static CUarray array;

static void make_array(void)
{
    CUDA_ARRAY_DESCRIPTOR small = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    REQUIRE(!GPU(cuArrayCreate_v2)(&array, &small));
}

static void destroy_array(void) { tell(GPU(cuArrayDestroy)(array)); }

static void ask(void)
{
    size_t left, total;
    CUdevice device;
    CUcontext current;
    tell(GPU(cuMemGetInfo_v2)(&left, &total));
    tell(GPU(cuCtxGetDevice)(&device));
    tell(GPU(cuCtxGetCurrent)(&current));
}

static void launch_legacy(void) { tell(spin(NULL, 20000)); }

static CUgraphExec another;

static void launch_graph(void)
{
    for (int i = 0; i < 3; i++)
        tell(GPU(cuGraphLaunch)(another, two));
}

static void make_graph(void)
{
    begin(one);
    temporary(one);
    REQUIRE((another = replay(end(one), 1)));
}

static void record_done(void)
{
    done = new_event();
    REQUIRE(!spin(two, 100000) && !GPU(cuEventRecord)(done, two));
}

static void wait_here(void) { tell(GPU(cuStreamSynchronize)(one)); }

#define BESIDE(X)                                                                                            \
    X(plain, allocate_plain, )                                                                               \
    X(launch, launch_elsewhere, )                                                                            \
    X(async, allocate_elsewhere, )                                                                           \
    X(stream, wait_elsewhere, )                                                                              \
    X(event, wait_for_event, record_done())                                                                  \
    X(context, wait_for_all, )                                                                               \
    X(array, destroy_array, make_array())                                                                    \
    X(ask, ask, )                                                                                            \
    X(legacy, launch_legacy, )                                                                               \
    X(graph, launch_graph, make_graph())

#define DEFINE(name, work, before)                                                                           \
    static void here_##name(void)                                                                            \
    {                                                                                                        \
        before;                                                                                              \
        beside(work);                                                                                        \
    }                                                                                                        \
    static void work_##name(void) { in_another_thread(work); }                                               \
    static void there_##name(void)                                                                           \
    {                                                                                                        \
        before;                                                                                              \
        beside(work_##name);                                                                                 \
    }
BESIDE(DEFINE)

static void here_own(void) { beside(wait_here); }

static void blocking(void)
{
    CUstream other = one;
    REQUIRE(!GPU(cuStreamCreate)(&one, CU_STREAM_DEFAULT));
    beside(launch_legacy);
    one = other;
}

#define ENTRY(name, work, before) {"here_" #name, here_##name}, {"there_" #name, there_##name},
static const struct {
    const char *name;
    void (*run)(void);
} situations[] = {{"alloc", alloc},
                  {"kept", kept},
                  {"pool", pool},
                  {"thread_stream", thread_stream},
                  {"fork_join", fork_join},
                  {"slow", slow},
                  {"many", many},
                  {"graph_in_graph", graph_in_graph},
                  BESIDE(ENTRY){"here_own", here_own},
                  {"blocking", blocking}};

static void run(const char *name)
{
    char byte;
    size_t length = strcspn(name, ":");
    mode = name[length] ? (CUstreamCaptureMode)(name[length + 1] - '0') : 0;
    printf("%s", name);
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++)
        if (strlen(situations[i].name) == length && !strncmp(situations[i].name, name, length))
            situations[i].run();
    printf("\n");
    fflush(stdout);
    if (!strcmp(name, "wait"))
        REQUIRE(read(STDIN_FILENO, &byte, 1) >= 0);
}

int main(int argc, char **argv)
{
    CUmodule module;
    context = gpu_open();
    REQUIRE(!GPU(cuModuleLoadData)(&module, ptx));
    REQUIRE(!GPU(cuModuleGetFunction)(&function, module, "weir_spin"));
    REQUIRE(!GPU(cuStreamCreate)(&one, CU_STREAM_NON_BLOCKING));
    REQUIRE(!GPU(cuStreamCreate)(&two, CU_STREAM_NON_BLOCKING));
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    return 0;
}
