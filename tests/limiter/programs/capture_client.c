/*
 * Captures streams in one situation after another, as its arguments NAME:MODE say (0 global, 1 of the thread, 2
 * relaxed), and prints each with the results of its calls, the nodes that were captured, and what launches of the
 * graph gave. `wait` waits for a byte.
 *
 * What it does not do: judge; the test compares with what the same program prints without the limiter.
 */
#include <string.h>

#include "capture_beside.h"

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
    REQUIRE(!GPU(cuModuleLoadData)(&module, spin_ptx));
    REQUIRE(!GPU(cuModuleGetFunction)(&function, module, "weir_spin"));
    REQUIRE(!GPU(cuStreamCreate)(&one, CU_STREAM_NON_BLOCKING));
    REQUIRE(!GPU(cuStreamCreate)(&two, CU_STREAM_NON_BLOCKING));
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    return 0;
}
