/*
 * cuMemcpy* of one row: between host memory, device memory and arrays, in every stream variant.
 *
 * Each is a box of height and depth 1. An array's offset counts from its first byte and may lie in any row,
 * so an array side is addressed by row and column. What it does not do: more than one row (memcpy_box.c).
 */
#include "memory.h"

static CUDA_MEMCPY3D row(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = from_type,
                           .srcHost = (const void *)from,
                           .srcDevice = from,
                           .dstMemoryType = to_type,
                           .dstHost = (void *)to,
                           .dstDevice = to,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define ANY CU_MEMORYTYPE_UNIFIED
#define BOX(expression) (&(CUDA_MEMCPY3D[]){expression}[0])
#define ROW(to_type, to, from_type, from)                                                                      \
    BOX(row(to_type, (uint64_t)(to), from_type, (uint64_t)(from), ByteCount))

SIM_COPY_SYNC(cuMemcpy, sim_copy, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), ROW(ANY, dst, ANY, src))
SIM_COPY_ASYNC(cuMemcpyAsync, sim_copy, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
               ROW(ANY, dst, ANY, src))
SIM_COPY_SYNC(cuMemcpyHtoD_v2, sim_copy, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
              ROW(DEVICE, dstDevice, HOST, srcHost))
SIM_COPY_ASYNC(cuMemcpyHtoDAsync_v2, sim_copy, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
               ROW(DEVICE, dstDevice, HOST, srcHost))
SIM_COPY_SYNC(cuMemcpyDtoH_v2, sim_copy, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
              ROW(HOST, dstHost, DEVICE, srcDevice))
SIM_COPY_ASYNC(cuMemcpyDtoHAsync_v2, sim_copy, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
               ROW(HOST, dstHost, DEVICE, srcDevice))
SIM_COPY_SYNC(cuMemcpyDtoD_v2, sim_copy, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
              ROW(DEVICE, dstDevice, DEVICE, srcDevice))
SIM_COPY_ASYNC(cuMemcpyDtoDAsync_v2, sim_copy, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
               ROW(DEVICE, dstDevice, DEVICE, srcDevice))

/* ---- between cards: addresses are unified, so the contexts are only checked ---- */

static CUresult peer(const struct sim_copy_call *call, CUcontext to_context, CUcontext from_context,
                     const CUDA_MEMCPY3D *box)
{
    struct sim_context *context;
    CUresult result = sim_context_resolve(to_context, &context);
    if (!result)
        result = sim_context_resolve(from_context, &context);
    return result ? result : sim_copy(call, box);
}

#define PEER_CALL(stream, per_thread, synchronous)                                                             \
    {                                                                                                          \
        struct sim_copy_call call = {__func__, stream, per_thread, synchronous};                               \
        return peer(&call, dstContext, srcContext, ROW(ANY, dstDevice, ANY, srcDevice));                       \
    }
#define PEER_PARAMETERS                                                                                        \
    CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount

CUresult cuMemcpyPeer(PEER_PARAMETERS) PEER_CALL(NULL, false, true)
CUresult cuMemcpyPeer_ptds(PEER_PARAMETERS) PEER_CALL(NULL, true, true)
CUresult cuMemcpyPeerAsync(PEER_PARAMETERS, CUstream hStream) PEER_CALL(hStream, false, false)
CUresult cuMemcpyPeerAsync_ptsz(PEER_PARAMETERS, CUstream hStream) PEER_CALL(hStream, true, false)

/* ---- arrays ---- */

static void place_in_array(CUarray handle, size_t offset, size_t *x, size_t *y)
{
    struct sim_array *array;
    if (sim_array_resolve(handle, &array))
        return; /* the copy will refuse it */
    *x = offset % array->pitch;
    *y = offset / array->pitch;
}

static CUDA_MEMCPY3D into_array(CUarray to, size_t offset, CUmemorytype from_type, uint64_t from, size_t bytes)
{
    CUDA_MEMCPY3D box = row(CU_MEMORYTYPE_ARRAY, 0, from_type, from, bytes);
    box.dstArray = to;
    place_in_array(to, offset, &box.dstXInBytes, &box.dstY);
    return box;
}

static CUDA_MEMCPY3D from_array(CUmemorytype to_type, uint64_t to, CUarray from, size_t offset, size_t bytes)
{
    CUDA_MEMCPY3D box = row(to_type, to, CU_MEMORYTYPE_ARRAY, 0, bytes);
    box.srcArray = from;
    place_in_array(from, offset, &box.srcXInBytes, &box.srcY);
    return box;
}

static CUDA_MEMCPY3D between_arrays(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
    CUDA_MEMCPY3D box = into_array(to, to_offset, CU_MEMORYTYPE_ARRAY, 0, bytes);
    box.srcArray = from;
    place_in_array(from, from_offset, &box.srcXInBytes, &box.srcY);
    return box;
}

SIM_COPY_SYNC(cuMemcpyDtoA_v2, sim_copy, (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
              BOX(into_array(dstArray, dstOffset, DEVICE, srcDevice, ByteCount)))
SIM_COPY_SYNC(cuMemcpyHtoA_v2, sim_copy, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
              BOX(into_array(dstArray, dstOffset, HOST, (uint64_t)srcHost, ByteCount)))
SIM_COPY_ASYNC(cuMemcpyHtoAAsync_v2, sim_copy,
               (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
               BOX(into_array(dstArray, dstOffset, HOST, (uint64_t)srcHost, ByteCount)))
SIM_COPY_SYNC(cuMemcpyAtoD_v2, sim_copy, (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
              BOX(from_array(DEVICE, dstDevice, srcArray, srcOffset, ByteCount)))
SIM_COPY_SYNC(cuMemcpyAtoH_v2, sim_copy, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
              BOX(from_array(HOST, (uint64_t)dstHost, srcArray, srcOffset, ByteCount)))
SIM_COPY_ASYNC(cuMemcpyAtoHAsync_v2, sim_copy,
               (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
               BOX(from_array(HOST, (uint64_t)dstHost, srcArray, srcOffset, ByteCount)))
SIM_COPY_SYNC(cuMemcpyAtoA_v2, sim_copy,
              (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount),
              BOX(between_arrays(dstArray, dstOffset, srcArray, srcOffset, ByteCount)))
