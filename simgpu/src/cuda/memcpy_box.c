/*
 * cuMemcpy2D, cuMemcpy3D, cuMemcpy3DPeer and the batches, in every stream variant.
 *
 * 2D and peer descriptions are turned into CUDA_MEMCPY3D, the only one that copy.c knows. A NULL
 * description is refused. What it does not do: batches of 3D operands.
 */
#include <stddef.h>
#include <string.h>

#include "memory.h"

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *flat)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = flat->srcXInBytes,
                           .srcY = flat->srcY,
                           .srcMemoryType = flat->srcMemoryType,
                           .srcHost = flat->srcHost,
                           .srcDevice = flat->srcDevice,
                           .srcArray = flat->srcArray,
                           .srcPitch = flat->srcPitch,
                           .dstXInBytes = flat->dstXInBytes,
                           .dstY = flat->dstY,
                           .dstMemoryType = flat->dstMemoryType,
                           .dstHost = flat->dstHost,
                           .dstDevice = flat->dstDevice,
                           .dstArray = flat->dstArray,
                           .dstPitch = flat->dstPitch,
                           .WidthInBytes = flat->WidthInBytes,
                           .Height = flat->Height,
                           .Depth = 1};
}

static CUresult copy_2d(const struct sim_copy_call *call, const CUDA_MEMCPY2D *flat)
{
    if (!flat)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D box = from_2d(flat);
    return sim_copy(call, &box);
}

static CUresult copy_3d(const struct sim_copy_call *call, const CUDA_MEMCPY3D *box)
{
    return box ? sim_copy(call, box) : CUDA_ERROR_INVALID_VALUE;
}

/* The two structures differ in two fields only, which hold contexts here and are reserved there. */
_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D), "a peer copy is a copy with contexts");
_Static_assert(offsetof(CUDA_MEMCPY3D_PEER, dstContext) == offsetof(CUDA_MEMCPY3D, reserved1), "the same layout");

static CUresult copy_3d_peer(const struct sim_copy_call *call, const CUDA_MEMCPY3D_PEER *peer)
{
    struct sim_context *context;
    CUDA_MEMCPY3D box;
    if (!peer)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_context_resolve(peer->dstContext, &context);
    if (!result)
        result = sim_context_resolve(peer->srcContext, &context);
    if (result)
        return result;
    memcpy(&box, peer, sizeof box);
    box.reserved0 = box.reserved1 = NULL;
    return sim_copy(call, &box);
}

SIM_COPY_SYNC(cuMemcpy2D_v2, copy_2d, (const CUDA_MEMCPY2D *pCopy), pCopy)
SIM_COPY_SYNC(cuMemcpy2DUnaligned_v2, copy_2d, (const CUDA_MEMCPY2D *pCopy), pCopy)
SIM_COPY_ASYNC(cuMemcpy2DAsync_v2, copy_2d, (const CUDA_MEMCPY2D *pCopy), pCopy)
SIM_COPY_SYNC(cuMemcpy3D_v2, copy_3d, (const CUDA_MEMCPY3D *pCopy), pCopy)
SIM_COPY_ASYNC(cuMemcpy3DAsync_v2, copy_3d, (const CUDA_MEMCPY3D *pCopy), pCopy)
SIM_COPY_SYNC(cuMemcpy3DPeer, copy_3d_peer, (const CUDA_MEMCPY3D_PEER *pCopy), pCopy)
SIM_COPY_ASYNC(cuMemcpy3DPeerAsync, copy_3d_peer, (const CUDA_MEMCPY3D_PEER *pCopy), pCopy)

/* ---- batches ---- */

struct batch {
    CUdeviceptr *to, *from;
    size_t *sizes, count;
    CUmemcpyAttributes *attributes;
    size_t *attribute_starts, attribute_count;
};

/* The legacy stream is refused, as documented. *failed: the copy that could not be made, or SIZE_MAX. */
static CUresult copy_batch(const struct sim_copy_call *call, const struct batch *batch, size_t *failed)
{
    CUstream stream = call->stream;
    *failed = SIZE_MAX;
    if (!batch->to || !batch->from || !batch->sizes || !batch->count || !batch->attributes ||
        !batch->attribute_starts || !batch->attribute_count || batch->attribute_count > batch->count ||
        batch->attribute_starts[0] || stream == CU_STREAM_LEGACY || (!stream && !call->per_thread))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < batch->count; i++) {
        CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                             .srcDevice = batch->from[i],
                             .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                             .dstDevice = batch->to[i],
                             .WidthInBytes = batch->sizes[i],
                             .Height = 1,
                             .Depth = 1};
        CUresult result = sim_copy(call, &box);
        if (result) {
            *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

#define BATCH_PARAMETERS                                                                                       \
    CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,              \
        size_t *attrsIdxs, size_t numAttrs
#define BATCH_CALL(per_thread, failed)                                                                         \
    {                                                                                                          \
        struct sim_copy_call call = {__func__, hStream, per_thread, false};                                    \
        struct batch batch = {dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs};                           \
        size_t unwanted, *at = failed;                                                                         \
        return copy_batch(&call, &batch, at ? at : &unwanted);                                                 \
    }

CUresult cuMemcpyBatchAsync(BATCH_PARAMETERS, size_t *failIdx, CUstream hStream) BATCH_CALL(false, failIdx)
CUresult cuMemcpyBatchAsync_ptsz(BATCH_PARAMETERS, size_t *failIdx, CUstream hStream)
    BATCH_CALL(true, failIdx)
CUresult cuMemcpyBatchAsync_v2(BATCH_PARAMETERS, CUstream hStream) BATCH_CALL(false, NULL)
CUresult cuMemcpyBatchAsync_v2_ptsz(BATCH_PARAMETERS, CUstream hStream) BATCH_CALL(true, NULL)
