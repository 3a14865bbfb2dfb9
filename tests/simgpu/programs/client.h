/*
 * What most client programs need: a context on card 0, a kernel of chosen length, events.
 *
 * What it does not do: clean up. A program that ends gives everything back.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "check.h"

#define CUDA_ENABLE_DEPRECATED /* the launches of before CUDA 4, without warnings */

#include <cuda.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define HEAD_START (200 * MS) /* of a first kernel, while the host queues what is measured */

static const char ptx[] = ".version 8.0\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          "// .entry in_a_comment()\n"
                          ".visible .global .align 4 .b8 table[96];\n"
                          ".visible .entry weir_spin(.param .u64 duration) { ret; }\n"
                          ".visible .entry with_parameters(.param .u32 a, .param .u64 b,\n"
                          "    .param .align 16 .b8 c[48], .param .f32 d) { ret; }\n"
                          ".visible .entry plain() { ret; }\n";

static CUcontext context;
static CUmodule module;
static CUfunction spin_kernel, plain_kernel;

static inline void start(void)
{
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&spin_kernel, module, "weir_spin"));
    OK(cuModuleGetFunction(&plain_kernel, module, "plain"));
}

static inline CUresult spin(CUstream stream, uint64_t ns)
{
    void *parameters[] = {&ns};
    return cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static inline CUstream new_stream(unsigned flags)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUevent new_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, 0));
    return event;
}

/* Microseconds between two events, rounded: enough to tell which of two orders happened. */
static inline long between(CUevent from, CUevent to)
{
    float ms;
    OK(cuEventSynchronize(to));
    OK(cuEventElapsedTime(&ms, from, to));
    return (long)(ms * 1000 + (ms < 0 ? -0.5f : 0.5f));
}

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
