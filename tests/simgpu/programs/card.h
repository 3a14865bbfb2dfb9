/*
 * For test programs that take memory: a context, and what the card and NVML say of this process.
 *
 * NVML is asked in the same process, through the few declarations below, so that the program compiles with
 * any CUDA header. What it does not do: clean up; the process ends.
 */
#ifndef CARD_H
#define CARD_H

#include <cuda.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"

#define MIB (UINT64_C(1) << 20)
#define CONTEXT (518 * MIB)

struct nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct nvml_process *processes);

static inline CUcontext open_card(void)
{
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(nvmlInit_v2());
    return context;
}

/* What the card has given away, to everybody. */
static inline uint64_t card_used(void)
{
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    return total - left;
}

/* NVML's figure for this process. */
static inline uint64_t process_used(void)
{
    struct nvml_process processes[64];
    unsigned count = 64;
    void *device;
    OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
    OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes));
    for (unsigned i = 0; i < count; i++)
        if (processes[i].pid == (unsigned)getpid())
            return processes[i].used;
    return 0;
}

#endif
