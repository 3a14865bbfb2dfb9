/*
 * Launching kernels: checked, timed, and put into a stream or, while it captures, into its graph.
 *
 * A function whose name starts with weir_spin runs for as many nanoseconds as its first parameter (64 bits)
 * says, any other for the model's kernel_ns. With SIMGPU_HOST_COSTS=1 the caller also spends what a launch
 * costs on the real machine. What it does not do: compute anything.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "image.h"

void sim_spend_host(uint64_t ns)
{
    static _Atomic int costs = -1;
    if (costs < 0) {
        const char *setting = getenv("SIMGPU_HOST_COSTS");
        costs = setting && strcmp(setting, "1") == 0;
    }
    if (costs)
        for (uint64_t until = sim_now() + ns; sim_now() < until;)
            ;
}

CUresult sim_launch_check(const CUDA_KERNEL_NODE_PARAMS *p, struct sim_function **function)
{
    CUfunction handle = p->func ? p->func : (CUfunction)p->kern;
    CUresult result = sim_function_resolve(handle, function);
    if (result)
        return result;
    if (!p->gridDimX || !p->gridDimY || !p->gridDimZ || !p->blockDimX || !p->blockDimY || !p->blockDimZ)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->gridDimX > 2147483647u || p->gridDimY > 65535 || p->gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->blockDimX > 1024 || p->blockDimY > 1024 || p->blockDimZ > 64 ||
        (uint64_t)p->blockDimX * p->blockDimY * p->blockDimZ > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    int allowed = (*function)->max_dynamic_shared > 49152 ? (*function)->max_dynamic_shared : 49152;
    if (p->sharedMemBytes > (unsigned)allowed || (p->kernelParams && p->extra))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* The parameters as one buffer: { CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, …, CU_LAUNCH_PARAM_END } */
const void *sim_launch_buffer(void **extra)
{
    for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            return extra[i + 1];
    return NULL;
}

uint64_t sim_launch_duration(const struct sim_function *function, void **params, void **extra)
{
    uint64_t duration;
    const void *first = params ? params[0] : sim_launch_buffer(extra);
    if (!function->timed || !first)
        return sim_hardware->kernel_ns;
    memcpy(&duration, first, sizeof(duration));
    return duration;
}

static CUresult launch(const char *call, const CUDA_KERNEL_NODE_PARAMS *params, CUstream handle)
{
    struct sim_stream *stream;
    struct sim_function *function;
    CUresult result = sim_enter_stream(call, handle, &stream);
    if (!result)
        result = sim_launch_check(params, &function);
    if (!result)
        result = sim_image_place(function->image, stream->context);
    if (result)
        return result;
    struct sim_op op = {.type = SIM_OP_KERNEL,
                        .duration = sim_launch_duration(function, params->kernelParams, params->extra)};
    if (sim_stream_capturing(stream)) {
        struct sim_node node = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {.params = *params}};
        return sim_capture_add(stream, &node, NULL);
    }
    result = sim_capture_forbids_legacy_use(stream);
    if (result)
        return result;
    sim_spend_host(sim_hardware->launch_ns);
    return sim_submit(stream, &op, NULL);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                                unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                CUstream stream, void **params, void **extra)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = function, .gridDimX = gx, .gridDimY = gy, .gridDimZ = gz, .blockDimX = bx,
                                 .blockDimY = by, .blockDimZ = bz, .sharedMemBytes = shared, .kernelParams = params,
                                 .extra = extra};
    return launch(__func__, &p, stream);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                                     unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                     CUstream stream, void **params, void **extra)
{
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, sim_per_thread(stream), params, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS p = {.func = function, .gridDimX = c->gridDimX, .gridDimY = c->gridDimY,
                                 .gridDimZ = c->gridDimZ, .blockDimX = c->blockDimX, .blockDimY = c->blockDimY,
                                 .blockDimZ = c->blockDimZ, .sharedMemBytes = c->sharedMemBytes,
                                 .kernelParams = params, .extra = extra};
    return launch(__func__, &p, c->hStream);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params,
                                       void **extra)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig own = *config;
    own.hStream = sim_per_thread(config->hStream);
    return cuLaunchKernelEx(&own, function, params, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy,
                                           unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                                           unsigned int shared, CUstream stream, void **params)
{
    int blocks = 0;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(bx * by * bz), shared);
    if (result)
        return result;
    if ((uint64_t)gx * gy * gz > (uint64_t)blocks * sim_hardware->multiprocessors)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy,
                                                unsigned int gz, unsigned int bx, unsigned int by,
                                                unsigned int bz, unsigned int shared, CUstream stream,
                                                void **params)
{
    return cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, sim_per_thread(stream), params);
}
