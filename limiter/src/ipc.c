/*
 * Buffers that another process opens: cuIpc…MemHandle, and pointers out of imported pools.
 *
 * The maker of a buffer pays, and siblings find that out by the handle (shares.h); when the maker has freed it, it
 * stays charged while one of them has it open. Who opens what no sibling pays for is charged as for a buffer of that
 * size, and so is every pointer out of an imported pool. A handle keeps nothing by itself. What was opened twice has
 * one address and is charged once.
 */
#include "account.h"
#include "memory.h"
#include "physical.h"

static uint64_t size_at(CUdeviceptr pointer, CUdeviceptr *base)
{
    size_t size = 0;
    return WEIR_ASK(cuMemGetAddressRange_v2, base, &size, pointer) == CUDA_SUCCESS ? size : 0;
}

/* The slice's device that memory lies on, which need not be the current one. */
static int device_at(CUdeviceptr pointer)
{
    int ordinal;
    CUresult result = WEIR_ASK(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    return result == CUDA_SUCCESS ? weir_device_of(ordinal) : weir_current_device();
}

/* ---- giving ---- */

/* The number under which a buffer is shared. */
static uint32_t number_of(struct weir_object *buffer)
{
    uint32_t number = atomic_load(&buffer->number);
    if (!number) {
        uint32_t fresh = (uint32_t)weir_physical_number();
        number = atomic_compare_exchange_strong(&buffer->number, &number, fresh) ? fresh : number;
    }
    return number;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    CUdeviceptr base = pointer;
    CUresult result = WEIR_CALL(cuIpcGetMemHandle, handle, pointer);
    if (weir_inside || result != CUDA_SUCCESS || !weir_slice() || !size_at(pointer, &base))
        return result;
    struct weir_object *buffer = weir_object_find(WEIR_TAG_POINTER, base);
    if (buffer && !weir_physical_name(number_of(buffer), buffer, handle, sizeof *handle))
        weir_count_error(buffer->device);
    return result;
}

/* ---- taking ---- */

/* The lock of a guest; NULL: no sibling pays. */
static void *lock_handle(const CUipcMemHandle *handle)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_share share, again;
    if (!weir_find_name(slice, handle, sizeof *handle, &share))
        return NULL;
    void *lock = weir_lock_share(slice, share);
    bool pays = lock && weir_find_name(slice, handle, sizeof *handle, &again) && again.slot == share.slot &&
                again.number == share.number;
    if (!pays) {
        weir_unlock_share(lock);
        lock = NULL;
    }
    return lock;
}

/* Charges what was opened, unless there is a `lock`; false: it does not fit. */
static bool take(CUdeviceptr pointer, void *lock)
{
    CUdeviceptr base;
    struct weir_object object = {.link = (uintptr_t)lock,
                                 .context = weir_current_context(),
                                 .device = (int16_t)device_at(pointer),
                                 .kind = WEIR_KIND_OTHER,
                                 .refs = 1};
    object.charged = lock ? 0 : weir_footprint(size_at(pointer, &base));
    if (!lock && !weir_charge(object.device, WEIR_KIND_OTHER, object.charged))
        return false;
    weir_keep(WEIR_TAG_IMPORT, pointer, &object);
    return true;
}

static CUresult opened(CUresult result, const CUdeviceptr *pointer, void *lock)
{
    struct weir_object *known = result == CUDA_SUCCESS ? weir_object_find(WEIR_TAG_IMPORT, *pointer) : NULL;
    if (known)
        atomic_fetch_add(&known->refs, 1);
    if (known || result != CUDA_SUCCESS) {
        weir_unlock_share(lock);
        return result;
    }
    if (take(*pointer, lock))
        return result;
    WEIR_ASK(cuIpcCloseMemHandle, *pointer);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

#define OPEN(symbol)                                                                                         \
    CUresult symbol(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)                         \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(pointer, handle, flags);                                                \
        if (!weir_slice())                                                                                   \
            return weir_refusing() ? CUDA_ERROR_OUT_OF_MEMORY : WEIR_CALL(symbol, pointer, handle, flags);   \
        void *lock = lock_handle(&handle);                                                                   \
        return opened(WEIR_CALL(symbol, pointer, handle, flags), pointer, lock);                             \
    }

OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct weir_object *known = weir_inside ? NULL : weir_object_find(WEIR_TAG_IMPORT, pointer);
    struct weir_object object;
    bool last = known && atomic_fetch_sub(&known->refs, 1) == 1 &&
                weir_object_take(WEIR_TAG_IMPORT, pointer, &object); /* first: the address may be given out again */
    CUresult result = WEIR_CALL(cuIpcCloseMemHandle, pointer);
    if (last && result == CUDA_SUCCESS) {
        weir_pointer_freed(WEIR_TAG_IMPORT, pointer, &object);
    } else if (last) {
        atomic_store(&object.refs, 1);
        weir_keep(WEIR_TAG_IMPORT, pointer, &object);
    } else if (known && result != CUDA_SUCCESS) {
        atomic_fetch_add(&known->refs, 1);
    }
    return result;
}

void weir_import_gone(const struct weir_object *object)
{
    weir_unlock_share((void *)(uintptr_t)object->link);
    weir_give_back(object->device, WEIR_KIND_OTHER, object->charged);
}

/* ---- pools ---- */

/* It is freed as any other pointer. */
CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *shared)
{
    CUdeviceptr base;
    if (weir_inside)
        return WEIR_REAL(cuMemPoolImportPointer)(pointer, pool, shared);
    if (weir_refusing())
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemPoolImportPointer, pointer, pool, shared);
    if (result != CUDA_SUCCESS || !weir_slice())
        return result;
    uint64_t charged = weir_footprint(size_at(*pointer, &base));
    struct weir_object object = {.size = charged,
                                 .charged = charged,
                                 .context = weir_current_context(),
                                 .device = (int16_t)device_at(*pointer),
                                 .kind = WEIR_KIND_OTHER};
    if (weir_charge(object.device, WEIR_KIND_OTHER, charged)) {
        weir_keep(WEIR_TAG_POINTER, *pointer, &object);
        return result;
    }
    WEIR_ASK(cuMemFree_v2, *pointer);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
