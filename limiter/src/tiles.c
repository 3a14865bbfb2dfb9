/*
 * Physical memory that is mapped into sparse and deferred arrays, which keep it when its handle is released. An array
 * holds every allocation that was ever mapped into it until it is destroyed: which of them an unmapping lets go of,
 * the call does not say, so until then too much may be charged, never too little.
 */
#include <stdlib.h>

#include "account.h"
#include "hash.h"
#include "memory.h"
#include "vmm.h"

static _Atomic bool any;

static const void *array_of(const CUarrayMapInfo *map)
{
    return map->resourceType == CU_RESOURCE_TYPE_ARRAY ? (const void *)map->resource.array
                                                       : (const void *)map->resource.mipmap;
}

/* The number of what is mapped, with one user more; 0: nothing that is known. */
static uint64_t hold(const CUarrayMapInfo *map)
{
    bool maps = map->memOperationType == CU_MEM_OPERATION_TYPE_MAP && map->memHandleType == CU_MEM_HANDLE_TYPE_GENERIC;
    uint64_t number = maps ? weir_vmm_number(map->memHandle.memHandle) : 0;
    return number && weir_physical_hold(number) ? number : 0;
}

/* The array keeps the user that `hold` has made, if it has none of this allocation yet. */
static void keep(const void *array, uint64_t number)
{
    uint64_t name = (weir_hash((uintptr_t)array >> 4) ^ number) >> 8;
    const struct weir_object *known = weir_object_find(WEIR_TAG_TILE, name);
    struct weir_object tile = {.link = number, .context = (void *)(uintptr_t)array, .device = WEIR_NO_DEVICE};
    atomic_store(&any, true);
    if (known && known->context == array && known->link == number)
        weir_physical_drop(number);
    else
        weir_keep(WEIR_TAG_TILE, name, &tile);
}

static void settle(CUresult result, const CUarrayMapInfo *maps, const uint64_t *numbers, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        if (numbers[i] && result == CUDA_SUCCESS)
            keep(array_of(&maps[i]), numbers[i]);
        else if (numbers[i])
            weir_physical_drop(numbers[i]);
}

void weir_tiles_end(const void *array)
{
    if (atomic_load_explicit(&any, memory_order_relaxed))
        weir_objects_condemn((void *)(uintptr_t)array);
}

void weir_tiles_ended(const void *array, bool gone)
{
    void *context = (void *)(uintptr_t)array;
    if (!atomic_load_explicit(&any, memory_order_relaxed))
        return;
    if (gone)
        weir_objects_of_context(context, weir_pointer_freed);
    else
        weir_objects_spare(context);
}

#define MAP(symbol)                                                                                          \
    CUresult symbol(CUarrayMapInfo *maps, unsigned int count, CUstream stream)                               \
    {                                                                                                        \
        if (weir_inside || !weir_slice() || !maps || !count)                                                 \
            return WEIR_REAL(symbol)(maps, count, stream);                                                   \
        uint64_t *numbers = malloc(count * sizeof *numbers);                                                 \
        if (!numbers)                                                                                        \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        for (unsigned int i = 0; i < count; i++)                                                             \
            numbers[i] = hold(&maps[i]);                                                                     \
        CUresult result = WEIR_CALL(symbol, maps, count, stream);                                            \
        settle(result, maps, numbers, count);                                                                \
        free(numbers);                                                                                       \
        return result;                                                                                       \
    }

MAP(cuMemMapArrayAsync)
MAP(cuMemMapArrayAsync_ptsz)
