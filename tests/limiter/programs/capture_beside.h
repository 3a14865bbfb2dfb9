/*
 * What happens while a stream captures, in the capturing thread (`here_`) or in another one (`there_`).
 */
#ifndef CAPTURE_BESIDE_H
#define CAPTURE_BESIDE_H

#include "capture_client.h"

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

/* A pool then has memory to give back, which nobody has waited for. */
static void free_in_order(void)
{
    CUdeviceptr pointer = 0;
    REQUIRE(!GPU(cuMemAllocAsync)(&pointer, SIZE, two) && !GPU(cuMemFreeAsync)(pointer, two));
}

static void create_physical(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp here = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult result = GPU(cuMemCreate)(&handle, 2 * LARGE, &here, 0);
    tell(result);
    if (result == CUDA_SUCCESS)
        tell(GPU(cuMemRelease)(handle));
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
    X(ask, ask, free_in_order())                                                                             \
    X(physical, create_physical, free_in_order())                                                            \
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

#endif
