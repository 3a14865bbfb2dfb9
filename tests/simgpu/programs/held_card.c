/*
 * A libcuda.so.1 of one card that does weir_spin's iterations at a known rate, behind a limiter of 10 %: each
 * launch is held for nine times as long as it runs, so that between two events lies ten times the kernel.
 *
 * For its first launches the card's clock is still at half, and every third kernel shares the card with a
 * neighbour for a while. Nothing waits: time is a number. At its end it says on stderr how long the last kernel
 * takes in nanoseconds, alone and at full clock. What it does not do: hold memory, or order streams.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ITERATIONS_PER_NS 0.37
#define HELD 9                /* times what the kernel runs */
#define LAUNCHES_AT_HALF 20
#define NEIGHBOUR_NS 2000000

static unsigned launches;
static double alone, elapsed;

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                   void **extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)stream, (void)extra;
    alone = (double)*(uint64_t *)arguments[1] / ITERATIONS_PER_NS;
    elapsed = alone * (launches < LAUNCHES_AT_HALF ? 2 : 1) + (launches % 3 ? 0 : NEIGHBOUR_NS);
    launches++;
    return 0;
}

int cuMemcpyDtoH_v2(void *host, uint64_t device, size_t size) /* of the one variable there is */
{
    (void)device;
    memcpy(host, &(uint64_t){(uint64_t)elapsed}, size);
    return 0;
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = (float)((1 + HELD) * elapsed / 1e6);
    return 0;
}

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "%.0f\n", alone);
}

#define SUCCEEDS(name)                                                                                       \
    int name(void)                                                                                           \
    {                                                                                                        \
        return 0;                                                                                            \
    }
SUCCEEDS(cuInit)
SUCCEEDS(cuGetErrorName)
SUCCEEDS(cuDeviceGet)
SUCCEEDS(cuDevicePrimaryCtxRetain)
SUCCEEDS(cuCtxSetCurrent)
SUCCEEDS(cuCtxSynchronize)
SUCCEEDS(cuModuleLoadData)
SUCCEEDS(cuModuleGetFunction)
SUCCEEDS(cuModuleGetGlobal_v2)
SUCCEEDS(cuMemAlloc_v2)
SUCCEEDS(cuMemFree_v2)
SUCCEEDS(cuStreamCreate)
SUCCEEDS(cuStreamSynchronize)
SUCCEEDS(cuEventCreate)
SUCCEEDS(cuEventRecord)
SUCCEEDS(cuEventSynchronize)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuStreamBeginCapture_v2)
SUCCEEDS(cuStreamEndCapture)
SUCCEEDS(cuGraphInstantiateWithFlags)
SUCCEEDS(cuGraphLaunch)
