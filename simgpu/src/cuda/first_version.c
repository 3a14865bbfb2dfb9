/*
 * The entry points of CUDA's first version, whose device pointers and sizes have 32 bits.
 *
 * What they allocate lies below 4 GiB. They do the work of their successors. What it does not do: 2D, 3D and
 * array descriptions of that version; those are unsimulated.
 */
#include "memory.h"

static CUresult allocate_low(const char *function, CUdeviceptr_v1 *pointer, uint64_t size)
{
    struct sim_context *context;
    struct sim_allocation *made;
    CUresult result = sim_enter_context(function, &context);
    if (!result && (!pointer || !size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    sim_memory_lock();
    result = sim_buffer_create(context, SIM_USE_DEVICE, SIM_MEMORY_BUFFER, size, SIM_LOW, &made);
    if (!result)
        *pointer = (CUdeviceptr_v1)made->base;
    sim_memory_unlock();
    return result;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    return allocate_low(__func__, dptr, bytesize);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    bool known = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
    if (!pPitch || !known || !WidthInBytes || WidthInBytes > UINT32_MAX - SIM_PITCH)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned pitch = (WidthInBytes + SIM_PITCH - 1) / SIM_PITCH * SIM_PITCH;
    CUresult result = allocate_low(__func__, dptr, (uint64_t)pitch * Height);
    if (!result)
        *pPitch = pitch;
    return result;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    return cuMemFree_v2(dptr);
}

CUresult cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount)
{
    return cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}

CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount,
                           CUstream hStream)
{
    return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}

CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                           CUstream hStream)
{
    return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                           CUstream hStream)
{
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
    return cuMemsetD8_v2(dstDevice, uc, N);
}

CUresult cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N)
{
    return cuMemsetD16_v2(dstDevice, us, N);
}

CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
    return cuMemsetD32_v2(dstDevice, ui, N);
}
