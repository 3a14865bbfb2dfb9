/*
 * Plain buffers: cuMemAlloc, pitched, managed, and cuMemFree for everything that has a device pointer.
 *
 * What is charged is what the card gives: buffers over 1 MiB take whole pages of 2 MiB; smaller ones are packed
 * by the driver into such pages, which can be told only from the address it returns. So a page is reserved before
 * the call and given back after it when the address lies in one that is paid for.
 * A pointer's entry is taken out before the driver frees it, because the same address may be handed out to
 * another thread at once. A pointer that is not known (imported, or older than the slice) passes through.
 */
#include "memory.h"

#include "account.h"
#include "physical.h"
#include "pools.h"

#define PITCH_STEP 512 /* the widest row alignment among cards so far; the surplus is given back */

static _Atomic bool parts; /* there are green contexts with a handle of their own */

void weir_keep(enum weir_tag tag, uint64_t name, const struct weir_object *object)
{
    if (!weir_object_put(tag, name, object))
        weir_count_error(object->device);
}

void weir_context_is_part(void *part, void *whole)
{
    struct weir_object object = {.context = whole, .device = WEIR_NO_DEVICE};
    atomic_store(&parts, true);
    weir_keep(WEIR_TAG_PART, (uintptr_t)part, &object);
}

void *weir_current_context(void)
{
    CUcontext context = NULL;
    if (WEIR_REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
        return NULL;
    const struct weir_object *part = NULL;
    if (atomic_load_explicit(&parts, memory_order_relaxed))
        part = weir_object_find(WEIR_TAG_PART, (uintptr_t)context);
    return part ? part->context : context;
}

static bool packed(uint64_t size)
{
    return size <= WEIR_PACKED_MAX;
}

/* The driver has answered: keep of `reserved` what the buffer really takes, and remember it. */
static CUresult settle(CUresult result, int device, enum weir_kind kind, uint64_t reserved,
                       const CUdeviceptr *pointer, uint64_t size)
{
    weir_count_result(device, result);
    if (device < 0)
        return result;
    if (result != CUDA_SUCCESS) {
        weir_give_back(device, kind, reserved);
        return result;
    }
    uint64_t charged = weir_footprint(size);
    if (reserved > charged)
        weir_give_back(device, kind, reserved - charged);
    else if (reserved < charged)
        weir_charge_anyway(device, kind, charged - reserved);
    if (packed(size) && !weir_block_hold(*pointer))
        weir_give_back(device, kind, charged);
    struct weir_object object = {.size = size,
                                 .charged = charged,
                                 .context = weir_current_context(),
                                 .device = (int16_t)device,
                                 .kind = (uint16_t)kind};
    weir_keep(WEIR_TAG_POINTER, *pointer, &object);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    if (weir_inside)
        return WEIR_REAL(cuMemAlloc_v2)(pointer, size);
    int device = weir_current_device();
    if (!weir_charge(device, WEIR_KIND_BUFFER, weir_footprint(size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemAlloc_v2, pointer, size);
    return settle(result, device, WEIR_KIND_BUFFER, weir_footprint(size), pointer, size);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags)
{
    if (weir_inside)
        return WEIR_REAL(cuMemAllocManaged)(pointer, size, flags);
    int device = weir_current_device();
    if (!weir_charge(device, WEIR_KIND_MANAGED, weir_footprint(size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemAllocManaged, pointer, size, flags);
    return settle(result, device, WEIR_KIND_MANAGED, weir_footprint(size), pointer, size);
}

/* Rows times their pitch, or a size that nothing can be charged for when that overflows. */
static uint64_t rows(uint64_t pitch, uint64_t height)
{
    uint64_t size;
    return __builtin_mul_overflow(pitch, height, &size) ? UINT64_MAX : size;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    if (weir_inside)
        return WEIR_REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    int device = weir_current_device();
    uint64_t bound = weir_footprint(rows(weir_round_up(width, PITCH_STEP), height));
    if (!weir_charge(device, WEIR_KIND_BUFFER, bound))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemAllocPitch_v2, pointer, pitch, width, height, element);
    uint64_t size = result == CUDA_SUCCESS ? rows(*pitch, height) : 0;
    return settle(result, device, WEIR_KIND_BUFFER, bound, pointer, size);
}

static void release(const struct weir_object *object, uint64_t pointer)
{
    if (!packed(object->size) || weir_block_drop(pointer))
        weir_give_back(object->device, object->kind, object->charged);
}

bool weir_forget_pointer(CUdeviceptr pointer, struct weir_object *object, enum weir_tag *tag)
{
    for (*tag = WEIR_TAG_POINTER; *tag <= WEIR_TAG_POOL_POINTER; ++*tag)
        if (weir_object_take(*tag, pointer, object))
            return true;
    return false;
}

void weir_pointer_freed(enum weir_tag tag, uint64_t pointer, const struct weir_object *object)
{
    uint32_t number = tag == WEIR_TAG_POINTER ? atomic_load(&object->number) : 0;
    if (number) { /* siblings may have it open still */
        weir_physical_retire(number, pointer, object);
        return;
    }
    if (tag == WEIR_TAG_TILE) {
        weir_physical_drop(object->link);
        return;
    }
    if (tag != WEIR_TAG_LIMIT)
        weir_count_free(object->device);
    if (tag == WEIR_TAG_POINTER)
        release(object, pointer);
    else if (tag == WEIR_TAG_POOL_POINTER)
        weir_pool_pointer_freed(object);
    else if (tag == WEIR_TAG_IMPORT)
        weir_import_gone(object);
    else if (tag == WEIR_TAG_ARRAY)
        weir_array_gone(object, object->charged != 0);
    else
        weir_give_back(object->device, object->kind, object->charged);
}

CUresult weir_after_free(CUresult result, bool known, enum weir_tag tag, uint64_t pointer,
                         const struct weir_object *object)
{
    if (known && result == CUDA_SUCCESS)
        weir_pointer_freed(tag, pointer, object);
    else if (known)
        weir_keep(tag, pointer, object);
    return result;
}

#define FREE(symbol, type)                                                                                   \
    CUresult symbol(type pointer)                                                                            \
    {                                                                                                        \
        if (weir_inside || !weir_slice())                                                                    \
            return WEIR_REAL(symbol)(pointer);                                                               \
        struct weir_object object;                                                                           \
        enum weir_tag tag;                                                                                   \
        bool known = weir_forget_pointer(pointer, &object, &tag);                                            \
        return weir_after_free(WEIR_CALL(symbol, pointer), known, tag, pointer, &object);                    \
    }

FREE(cuMemFree_v2, CUdeviceptr)
FREE(cuMemFree, CUdeviceptr_v1)

/* The first version has 32 bits for addresses and sizes. */
CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int size)
{
    if (weir_inside)
        return WEIR_REAL(cuMemAlloc)(pointer, size);
    int device = weir_current_device();
    if (!weir_charge(device, WEIR_KIND_BUFFER, weir_footprint(size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemAlloc, pointer, size);
    CUdeviceptr wide = result == CUDA_SUCCESS ? *pointer : 0;
    return settle(result, device, WEIR_KIND_BUFFER, weir_footprint(size), &wide, size);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element)
{
    if (weir_inside)
        return WEIR_REAL(cuMemAllocPitch)(pointer, pitch, width, height, element);
    int device = weir_current_device();
    uint64_t bound = weir_footprint(rows(weir_round_up(width, PITCH_STEP), height));
    if (!weir_charge(device, WEIR_KIND_BUFFER, bound))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemAllocPitch, pointer, pitch, width, height, element);
    CUdeviceptr wide = result == CUDA_SUCCESS ? *pointer : 0;
    uint64_t size = result == CUDA_SUCCESS ? rows(*pitch, height) : 0;
    return settle(result, device, WEIR_KIND_BUFFER, bound, &wide, size);
}
