/*
 * Programs for many processes on one card: one keeps its queue full and says what it got of the card,
 * one does a bit of everything until it is killed, one measures what a launch costs.
 */
#include "client.h"

#define DEPTH 128 /* kernels of 1 ms kept queued: a host that is held up for a while changes nothing */

static CUevent done[DEPTH];
static CUstream stream;

/* Keep the queue full until then. Returns how many kernels were launched since the beginning. */
static long keep_busy(uint64_t until, long kernels)
{
    while (clock_ns() < until) {
        OK(cuEventSynchronize(done[kernels % DEPTH]));
        OK(spin(stream, MS));
        OK(cuEventRecord(done[kernels++ % DEPTH], stream));
    }
    return kernels;
}

/* The part of the card's time, in percent, from the first to the second of three moments after a word on stdin. */
static void greedy(void)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < DEPTH; i++)
        done[i] = new_event();
    printf("started\n");
    fflush(stdout);
    REQUIRE(getchar() != EOF);
    uint64_t from = clock_ns() + 300 * MS, to = from + 1200 * MS;
    long before = keep_busy(from, 0), after = keep_busy(to, before);
    keep_busy(to + 300 * MS, after);
    printf("%.1f\n", 100.0 * (double)(after - before) * MS / (double)(to - from));
}

static _Atomic int calls;

static void count_call(void *unused)
{
    (void)unused;
    calls++;
}

static void everything(void)
{
    CUdeviceptr buffer, later;
    start();
    printf("started\n");
    fflush(stdout);
    for (;;) {
        CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
        stream = new_stream(CU_STREAM_DEFAULT);
        CUevent event = new_event();
        OK(cuMemAlloc(&buffer, 3 << 20));
        OK(spin(stream, 20000));
        OK(cuEventRecord(event, stream));
        OK(cuStreamWaitEvent(other, event, 0));
        OK(cuMemAllocAsync(&later, 1 << 20, other));
        OK(spin(NULL, 10000));
        OK(cuLaunchHostFunc(other, count_call, NULL));
        OK(cuMemFreeAsync(later, other));
        for (int i = 0; i < 100; i++)
            cuEventQuery(event);
        OK(cuStreamSynchronize(other));
        OK(cuMemFree(buffer));
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(stream));
        OK(cuStreamDestroy(other));
    }
}

/* What a launch costs its caller, in ns. */
static void launches(void)
{
    start();
    uint64_t from = clock_ns();
    for (int i = 0; i < 1000; i++)
        OK(spin(NULL, 1000));
    printf("%.0f\n", (double)(clock_ns() - from) / 1000);
}

/* … and a call for stream memory operations, of which a barrier is the least. */
static void barriers(void)
{
    CUstreamBatchMemOpParams barrier = {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}};
    start();
    uint64_t from = clock_ns();
    for (int i = 0; i < 1000; i++)
        OK(cuStreamBatchMemOp(NULL, 1, &barrier, 0));
    printf("%.0f\n", (double)(clock_ns() - from) / 1000);
}

CASES(CASE(greedy) CASE(launches) CASE(barriers) CASE(everything))
