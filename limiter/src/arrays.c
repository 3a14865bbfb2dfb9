/*
 * CUDA arrays and mipmapped arrays, whose storage has no address that a program ever sees.
 *
 * Over 2 MiB an array takes whole pages. Smaller ones are packed by the driver, and which share a page cannot be told
 * from the handle: a page is reserved before the call, and the card's own free memory is read before and after it to
 * see whether it took one; the same when it is destroyed. Where somebody else takes or frees memory in that moment,
 * it stays charged; but never more than a page for each small array of its context that lives (packs.c). Only if he
 * frees just one page while one is taken, too little is charged, until the agent sees it. Where a format's layout is
 * not known (array_size.h), the largest that it can be is the bound and the reading decides.
 *
 * A level of a mipmapped array is a view and costs nothing. Sparse and deferred arrays hold nothing; what is mapped
 * into them is physical memory, charged where it is made (vmm.c).
 * Not here: how many bytes a shape takes (array_size.c).
 */
#include "account.h"
#include "array_size.h"
#include "internal.h"
#include "memory.h"
#include "objects.h"
#include "packs.h"
#include "streams.h"

#define HOLDS_NOTHING (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

struct storage { /* bytes that an array takes: somewhere between these two */
    uint64_t least, most;
    uint64_t before; /* free on the card before the call; read where they differ */
    uint64_t size;   /* of the array, as far as it is known */
    bool packed;
    int device;
};

static uint64_t card_free(void)
{
    size_t left = 0, total = 0;
    return WEIR_ASK(cuMemGetInfo_v2, &left, &total) == CUDA_SUCCESS ? left : 0;
}

/* On the card of an array that is known and packed, whatever context is current; 0: of no interest, or unknown. */
static uint64_t free_beside(bool known, const struct weir_object *array)
{
    if (!known || array->size > WEIR_BLOCK)
        return 0;
    bool entered = context_enter(array->context);
    uint64_t left = card_free();
    if (entered)
        context_leave();
    return left;
}

static struct storage storage_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    struct storage storage = {.device = weir_current_device()};
    if (!shape || (shape->Flags & HOLDS_NOTHING))
        return storage;
    struct weir_array_size size = weir_array_size(shape, levels);
    storage.size = size.least;
    storage.packed = size.most <= WEIR_BLOCK;
    storage.most = weir_footprint(size.most);
    storage.least = storage.packed ? 0 : weir_footprint(size.least);
    return storage;
}

static bool reserve(struct storage *storage)
{
    if (!storage->most) /* even where the limit was lowered below what is held */
        return storage->device != WEIR_OTHER_DEVICE;
    if (!weir_charge(storage->device, WEIR_KIND_BUFFER, storage->most))
        return false;
    if (storage->device >= 0 && storage->least < storage->most)
        storage->before = card_free();
    return true;
}

/* What the card gave, as far as its free memory shows it. */
static uint64_t taken(const struct storage *storage)
{
    if (storage->least == storage->most || !storage->before)
        return storage->most;
    uint64_t after = card_free();
    if (storage->packed)
        return after == storage->before ? 0 : storage->most;
    uint64_t less = storage->before > after ? storage->before - after : 0;
    less -= less % WEIR_BLOCK;
    return less < storage->most ? less : storage->most;
}

static CUresult settle(CUresult result, const struct storage *storage, const void *handle)
{
    int device = storage->device;
    weir_count_result(device, result);
    if (device < 0)
        return result;
    void *context = weir_current_context();
    uint64_t charged = result == CUDA_SUCCESS ? taken(storage) : 0, place = 0;
    if (storage->packed && result == CUDA_SUCCESS) {
        place = weir_pack_of(context, device);
        charged = weir_pack_add(place, storage->size, charged != 0) ? WEIR_BLOCK : 0;
    }
    weir_give_back(device, WEIR_KIND_BUFFER, storage->most - charged);
    if (result != CUDA_SUCCESS || !storage->most)
        return result;
    struct weir_object object = {.size = storage->packed ? storage->size : storage->most,
                                 .charged = charged,
                                 .link = place,
                                 .context = context,
                                 .device = (int16_t)device,
                                 .kind = WEIR_KIND_BUFFER};
    weir_keep(WEIR_TAG_ARRAY, (uintptr_t)handle, &object);
    return result;
}

void weir_array_gone(const struct weir_object *object, bool freed)
{
    uint64_t bytes = object->charged;
    if (object->size <= WEIR_BLOCK)
        bytes = weir_pack_remove(object->link, object->size, freed) * WEIR_BLOCK;
    weir_give_back(object->device, WEIR_KIND_BUFFER, bytes);
}

#define CREATE(symbol, shape, levels, ...)                                                                   \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        struct storage storage = storage_of(shape, levels);                                                  \
        if (!reserve(&storage))                                                                              \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        CUresult result = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        return settle(result, &storage, result == CUDA_SUCCESS ? *array : NULL);                             \
    }

/* A description of an older version, or of fewer dimensions, with all fields. */
#define WIDE(flat, depth, flag_bits)                                                                         \
    ((flat) ? &(CUDA_ARRAY3D_DESCRIPTOR){.Width = (flat)->Width,                                             \
                                         .Height = (flat)->Height,                                           \
                                         .Depth = depth,                                                     \
                                         .Format = (flat)->Format,                                           \
                                         .NumChannels = (flat)->NumChannels,                                 \
                                         .Flags = flag_bits}                                                 \
            : NULL)

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
CREATE(cuArrayCreate, WIDE(shape, 0, 0), 1, array, shape)

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
CREATE(cuArrayCreate_v2, WIDE(shape, 0, 0), 1, array, shape)

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
CREATE(cuArray3DCreate, WIDE(shape, shape->Depth, shape->Flags), 1, array, shape)

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
CREATE(cuArray3DCreate_v2, shape, 1, array, shape)

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
CREATE(cuMipmappedArrayCreate, shape, levels ? levels : 1, array, shape, levels)

/* Levels, and arrays that hold nothing, are not known here and pass through. */
#define DESTROY(symbol, type)                                                                                \
    CUresult symbol(type array)                                                                              \
    {                                                                                                        \
        struct weir_object object;                                                                           \
        bool known = !weir_inside && weir_object_take(WEIR_TAG_ARRAY, (uintptr_t)array, &object);            \
        uint64_t before = free_beside(known, &object);                                                       \
        if (!weir_inside)                                                                                    \
            weir_tiles_end(array);                                                                           \
        CUresult result = WEIR_CALL(symbol, array);                                                          \
        if (!weir_inside)                                                                                    \
            weir_tiles_ended(array, result == CUDA_SUCCESS);                                                 \
        if (known && result == CUDA_SUCCESS) {                                                               \
            uint64_t after = free_beside(before != 0, &object);                                              \
            weir_count_free(object.device);                                                                  \
            weir_array_gone(&object, after - before == WEIR_BLOCK);                                          \
        } else if (known)                                                                                    \
            weir_keep(WEIR_TAG_ARRAY, (uintptr_t)array, &object);                                            \
        return result;                                                                                       \
    }

DESTROY(cuArrayDestroy, CUarray)
DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)
