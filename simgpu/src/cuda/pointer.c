/*
 * Attributes of pointers: whose they are, where they lie, how they were allocated.
 *
 * cuPointerGetAttribute refuses an address that CUDA does not know; cuPointerGetAttributes answers it with
 * zeros, as programs that probe host pointers expect. What it does not do: P2P tokens.
 */
#include <string.h>

#include "memory.h"

static bool on_host(const struct sim_allocation *allocation)
{
    return allocation->use == SIM_USE_HOST || allocation->use == SIM_USE_REGISTERED;
}

static bool host_visible(const struct sim_allocation *allocation)
{
    return on_host(allocation) || allocation->use == SIM_USE_MANAGED;
}

/* Card memory without a context of its own (pools, mappings) shows none, page-locked host memory its maker's. */
static CUresult identity(const struct sim_allocation *allocation, CUpointer_attribute attribute, uint64_t address,
                         void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = (CUcontext)allocation->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = on_host(allocation) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = host_visible(allocation) ? (void *)address : NULL;
        return host_visible(allocation) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = allocation->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = on_host(allocation) ? (allocation->context ? allocation->context->ordinal : 0)
                                           : sim_device_ordinal(allocation->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = sim_pool_of(allocation);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult range(const struct sim_allocation *allocation, CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = allocation->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = allocation->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data =
            allocation->use == SIM_USE_MAPPING ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = allocation->denied ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                                          : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult capability(const struct sim_allocation *allocation, CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = allocation->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = allocation->use == SIM_USE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = allocation->use == SIM_USE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult answer(const struct sim_allocation *allocation, CUpointer_attribute attribute, uint64_t address,
                       void *data)
{
    CUresult result = identity(allocation, attribute, address, data);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = range(allocation, attribute, data);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = capability(allocation, attribute, data);
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_VALUE : result;
}

static struct sim_allocation *known(CUdeviceptr pointer)
{
    struct sim_allocation *allocation = sim_allocation_find(pointer);
    return allocation && allocation->use != SIM_USE_ARRAY ? allocation : NULL;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CUresult result = sim_enter(__func__);
    if (!result && !data)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = known(ptr);
    result = allocation ? answer(allocation, attribute, ptr, data) : CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    return result;
}

/* How many bytes an attribute takes, for the answer of zeros. */
static size_t width(CUpointer_attribute attribute)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return sizeof(int);
    default:
        return sizeof(uint64_t);
    }
}

static CUresult answer_unknown(CUpointer_attribute attribute, void *data)
{
    memset(data, 0, width(attribute));
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr)
{
    CUresult result = sim_enter(__func__);
    if (!result && (!attributes || !data))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = known(ptr);
    for (unsigned i = 0; i < numAttributes; i++)
        if (!allocation || answer(allocation, attributes[i], ptr, data[i]))
            answer_unknown(attributes[i], data[i]);
    sim_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CUresult result = sim_enter(__func__);
    if (!result && (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = known(ptr);
    if (allocation)
        allocation->sync_memops = *(const unsigned *)value != 0;
    sim_memory_unlock();
    return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
