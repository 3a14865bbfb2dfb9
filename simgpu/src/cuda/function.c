/*
 * What can be asked of a function, and how many of its blocks fit on a multiprocessor.
 *
 * Nothing was compiled, so registers and local memory are those of a modest kernel. Occupancy follows from the
 * model's limits on threads, blocks and shared memory.
 */
#include "image.h"
#include "objects.h"

#define REGISTERS 32
#define MAX_THREADS 1024

CUresult sim_function_resolve(CUfunction handle, struct sim_function **function)
{
    *function = (struct sim_function *)handle;
    if (!handle || ((*function)->magic != SIM_FUNCTION_MAGIC && (*function)->magic != SIM_KERNEL_MAGIC))
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static CUresult enter_function(const char *call, CUfunction handle, struct sim_function **function)
{
    CUresult result = sim_enter(call);
    return result ? result : sim_function_resolve(handle, function);
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction handle)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !name)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !module)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)function->image;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !offset || index >= function->parameter_count)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *offset = function->parameters[index].offset;
    if (size)
        *size = function->parameters[index].size;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !state)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle)
{
    struct sim_function *function;
    return enter_function(__func__, handle, &function);
}

static int attribute_value(const struct sim_function *function, CUfunction_attribute attribute)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return MAX_THREADS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        return REGISTERS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        return (int)(sim_hardware->compute_major * 10 + sim_hardware->compute_minor);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return function->carveout;
    default:
        return 0;
    }
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !value || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *value = attribute_value(function, attribute);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result)
        return result;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (uint32_t)value > sim_hardware->shared_per_block_optin)
            return CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        function->carveout = value;
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return sim_hardware->compute_major >= 9 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    return result || config <= CU_FUNC_CACHE_PREFER_EQUAL ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    return result || config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? result : CUDA_ERROR_INVALID_VALUE;
}

/* ---- occupancy ---- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int blocks_that_fit(int block_size, size_t shared)
{
    uint32_t warps = ((uint32_t)block_size + 31) / 32;
    uint32_t blocks = sim_hardware->threads_per_multiprocessor / (warps * 32);
    blocks = smaller(blocks, sim_hardware->registers_per_multiprocessor / (warps * 32 * REGISTERS));
    blocks = smaller(blocks, sim_hardware->blocks_per_multiprocessor);
    return (int)smaller(blocks, sim_hardware->shared_per_multiprocessor / (uint32_t)(shared + 1024));
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle,
                                                                      int block_size, size_t shared,
                                                                      unsigned int flags)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !blocks || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    bool fits = block_size <= MAX_THREADS && shared <= sim_hardware->shared_per_block_optin;
    *blocks = fits ? blocks_that_fit(block_size, shared) : 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                             size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                           CUoccupancyB2DSize shared_for, size_t shared,
                                                           int limit, unsigned int flags)
{
    struct sim_function *function;
    int best = 0, best_threads = 0;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !grid || !block || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    limit = limit <= 0 || limit > MAX_THREADS ? MAX_THREADS : limit;
    for (int size = limit / 32 * 32; size > 0; size -= 32) {
        int threads = size * blocks_that_fit(size, shared_for ? shared_for(size) : shared);
        if (threads > best_threads) {
            best = size;
            best_threads = threads;
        }
    }
    *block = best ? best : limit;
    *grid = best ? best_threads / best * (int)sim_hardware->multiprocessors : 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                                  CUoccupancyB2DSize shared_for, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_for, shared, limit, 0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared, CUfunction handle, int blocks,
                                                         int block_size)
{
    struct sim_function *function;
    CUresult result = enter_function(__func__, handle, &function);
    if (result || !shared || blocks <= 0 || block_size <= 0)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    size_t share = sim_hardware->shared_per_multiprocessor / (uint32_t)blocks;
    share = share > 1024 ? share - 1024 : 0;
    *shared = share < sim_hardware->shared_per_block_optin ? share : sim_hardware->shared_per_block_optin;
    return CUDA_SUCCESS;
}
