/*
 * The hooks of stream-ordered allocation and of memory pools; pools.c keeps their account.
 *
 * An allocation inside a stream capture takes nothing yet: it becomes a node of a graph (graphs.c). Whether it is one
 * is asked before anything else is, for most questions about a stream end its capture (streams.h). A plain buffer
 * freed in stream order counts as free at the call: by as much as the stream is behind, the ledger is early.
 */
#include "account.h"
#include "graphs.h"
#include "memory.h"
#include "pools.h"
#include "streams.h"

static struct weir_pool *current_pool(CUstream stream)
{
    CUmemoryPool handle = NULL;
    CUdevice ordinal = stream_device(stream);
    if (ordinal < 0 || WEIR_REAL(cuDeviceGetMemPool)(&handle, ordinal) != CUDA_SUCCESS)
        return NULL;
    return weir_pool_intern(handle, weir_device_of(ordinal), false);
}

/* Whether the driver may be asked. `from`: the pool; NULL: the device's. `*pool`: what is to be settled afterwards. */
static bool may_allocate(struct weir_pool **pool, CUmemoryPool from, uint64_t size, uint64_t *bound,
                         CUstream stream)
{
    *pool = NULL;
    if (!weir_slice())
        return !weir_refusing();
    if (stream_captures(stream))
        weir_graphs_allocate();
    else
        *pool = from ? weir_pool_find(from) : current_pool(stream);
    if (!*pool)
        return weir_current_device() != WEIR_OTHER_DEVICE;
    return weir_pool_reserve(*pool, size, stream, bound);
}

#define ALLOCATE(symbol, pool, as_stream, ...)                                                               \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        struct weir_pool *account;                                                                           \
        uint64_t bound = 0;                                                                                  \
        if (!may_allocate(&account, pool, size, &bound, as_stream(stream)))                                  \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        CUresult result = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        if (account)                                                                                         \
            weir_pool_settle(account, result, bound, pointer, size);                                         \
        return result;                                                                                       \
    }

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream)
ALLOCATE(cuMemAllocAsync, NULL, , pointer, size, stream)

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t size, CUstream stream)
ALLOCATE(cuMemAllocAsync_ptsz, NULL, own_default, pointer, size, stream)

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream)
ALLOCATE(cuMemAllocFromPoolAsync, pool, , pointer, size, pool, stream)

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream)
ALLOCATE(cuMemAllocFromPoolAsync_ptsz, pool, own_default, pointer, size, pool, stream)

#define FREE(symbol)                                                                                         \
    CUresult symbol(CUdeviceptr pointer, CUstream stream)                                                    \
    {                                                                                                        \
        if (weir_inside || !weir_slice())                                                                    \
            return WEIR_REAL(symbol)(pointer, stream);                                                       \
        struct weir_object object;                                                                           \
        enum weir_tag tag;                                                                                   \
        bool known = weir_forget_pointer(pointer, &object, &tag);                                            \
        return weir_after_free(WEIR_CALL(symbol, pointer, stream), known, tag, pointer, &object);            \
    }

FREE(cuMemFreeAsync)
FREE(cuMemFreeAsync_ptsz)

/* The slice's device of a new pool; pools of host memory are charged to nobody. */
static int device_of(const CUmemPoolProps *properties)
{
    if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return WEIR_NO_DEVICE;
    return weir_device_of(properties->location.id);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = WEIR_CALL(cuMemPoolCreate, pool, properties);
    int device = !weir_inside && result == CUDA_SUCCESS ? device_of(properties) : WEIR_NO_DEVICE;
    if (device == WEIR_NO_DEVICE || (device >= 0 && weir_pool_intern(*pool, device, true)))
        return result;
    weir_count_denied(WEIR_OTHER_DEVICE, 0); /* another's card, or one pool more than can be accounted for */
    WEIR_ASK(cuMemPoolDestroy, *pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Pools that nobody created: a program may allocate from one as soon as it has its name. */
static CUresult named(CUresult result, const CUmemoryPool *pool, int device)
{
    if (result == CUDA_SUCCESS)
        weir_pool_intern(*pool, device, false);
    return result;
}

static int card_of(CUdevice ordinal)
{
    return weir_inside ? WEIR_NO_DEVICE : weir_device_of(ordinal);
}

static int located(const CUmemLocation *location)
{
    bool on_card = location && location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    return on_card ? card_of(location->id) : WEIR_NO_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return named(WEIR_CALL(cuDeviceGetDefaultMemPool, pool, device), pool, card_of(device));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return named(WEIR_CALL(cuDeviceGetMemPool, pool, device), pool, card_of(device));
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return named(WEIR_CALL(cuMemGetDefaultMemPool, pool, location, type), pool, located(location));
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return named(WEIR_CALL(cuMemGetMemPool, pool, location, type), pool, located(location));
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct weir_pool *account = weir_inside ? NULL : weir_pool_find(pool);
    if (account)
        weir_pool_destroying(account);
    CUresult result = WEIR_CALL(cuMemPoolDestroy, pool);
    if (account)
        weir_pool_destroyed(account, result == CUDA_SUCCESS);
    return result;
}

/* Both may return memory to the card at once. */
static CUresult updated(CUresult result, CUmemoryPool pool)
{
    struct weir_pool *account = weir_inside ? NULL : weir_pool_find(pool);
    if (account)
        weir_pool_update(account);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    return updated(WEIR_CALL(cuMemPoolTrimTo, pool, keep), pool);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return updated(WEIR_CALL(cuMemPoolSetAttribute, pool, attribute, value), pool);
}
