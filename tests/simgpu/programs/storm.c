/*
 * Programs for many processes on one card: one keeps its queue full for two seconds and says what it got done,
 * one does a bit of everything until it is killed, one measures what a launch costs.
 */
#include "client.h"

static void greedy(void)
{
    CUevent done[16];
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 16; i++)
        done[i] = new_event();
    long kernels = 0;
    uint64_t from = clock_ns();
    while (clock_ns() - from < 2000 * MS) {
        OK(cuEventSynchronize(done[kernels % 16]));
        OK(spin(stream, MS));
        OK(cuEventRecord(done[kernels++ % 16], stream));
    }
    printf("%.1f\n", 100.0 * (double)(kernels - 16) * MS / (double)(clock_ns() - from));
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
        CUstream stream = new_stream(CU_STREAM_DEFAULT), other = new_stream(CU_STREAM_NON_BLOCKING);
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

CASES(CASE(greedy) CASE(launches) CASE(everything))
