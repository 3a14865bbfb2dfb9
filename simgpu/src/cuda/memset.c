/*
 * cuMemset*: one, two or four bytes, one row or many, in every stream variant.
 *
 * All are CUDA_MEMSET_NODE_PARAMS, the description that graphs use too. The host does not wait, as CUDA
 * documents it for device memory. What it does not do: fill (copy.c).
 */
#include "memory.h"

static CUDA_MEMSET_NODE_PARAMS area(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                                    size_t height)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = to, .pitch = pitch, .value = value, .elementSize = element, .width = width, .height = height};
}

#define AREA(pitch, value, element, width, height)                                                             \
    (&(CUDA_MEMSET_NODE_PARAMS[]){area(dstDevice, pitch, value, element, width, height)}[0])

#define MEMSET(bits, type, value)                                                                              \
    SIM_COPY_SYNC(cuMemsetD##bits##_v2, sim_set, (CUdeviceptr dstDevice, type value, size_t N),                \
                  AREA(0, value, bits / 8, N, 1))                                                              \
    SIM_COPY_ASYNC(cuMemsetD##bits##Async, sim_set, (CUdeviceptr dstDevice, type value, size_t N),             \
                   AREA(0, value, bits / 8, N, 1))                                                             \
    SIM_COPY_SYNC(cuMemsetD2D##bits##_v2, sim_set,                                                             \
                  (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height),           \
                  AREA(dstPitch, value, bits / 8, Width, Height))                                              \
    SIM_COPY_ASYNC(cuMemsetD2D##bits##Async, sim_set,                                                          \
                   (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height),          \
                   AREA(dstPitch, value, bits / 8, Width, Height))

MEMSET(8, unsigned char, uc)
MEMSET(16, unsigned short, us)
MEMSET(32, unsigned int, ui)
