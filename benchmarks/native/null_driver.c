/*
 * A driver that does nothing at once, so that what a launch still costs through the limiter is the
 * limiter's.
 *
 * Here is what has to answer something; null_defaults.c has the rest. Each launch moves a clock on by
 * NULL_KERNEL_NS (3500, an empty kernel's time on a large card) and events read that clock. Events are
 * complete as soon as they are recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "hooks.h"

#define EVENTS 4096

static uint64_t gpu_clock, events[EVENTS], event_count = 1, kernel_ns = 3500;

__attribute__((constructor)) static void read_setting(void)
{
    const char *named = getenv("NULL_KERNEL_NS");
    if (named)
        kernel_ns = strtoull(named, NULL, 10);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                 void **parameters, void **extra)
{
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    (void)parameters, (void)extra;
    gpu_clock += kernel_ns;
    return CUDA_SUCCESS;
}

EXPORTED _Atomic long null_buffers; /* given and not taken back, for a program that asks */

/* Addresses go round in a TiB, so a program may hold half a million of the smallest at once. */
EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    static uint64_t next;
    atomic_fetch_add_explicit(&null_buffers, 1, memory_order_relaxed);
    *pointer = UINT64_C(0x700000000000) + next % (UINT64_C(1) << 40);
    next += (bytes + 0x1fffff) & ~UINT64_C(0x1fffff);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    (void)pointer;
    atomic_fetch_sub_explicit(&null_buffers, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = *total = (size_t)1 << 40;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = (CUcontext)1;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    (void)device;
    memset(uuid, 0x11, sizeof *uuid);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    (void)stream;
    return cuCtxGetCurrent(context);
}

EXPORTED CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)(uintptr_t)(event_count % EVENTS);
    event_count++;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    events[(uintptr_t)event] = gpu_clock;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    *ms = (float)((double)((int64_t)events[(uintptr_t)end] - (int64_t)events[(uintptr_t)start]) * 1e-6);
    return CUDA_SUCCESS;
}
