/*
 * Sparse arrays: they hold nothing themselves, and keep the physical memory that is mapped into their tiles.
 *
 * A tile is known by where it begins in the array. What it does not do: their bytes (no copy reaches them), mipmapped
 * ones, and the order of a stream: tiles change at the call.
 */
#include <stdlib.h>

#include "physical.h"
#include "sparse.h"
#include "unsimulated.h"

#define SPARSE_MAGIC 0x53505231u

struct tile {
    unsigned at[3];
    struct sim_physical *physical;
    struct tile *next;
};

struct sparse {
    uint32_t magic;
    struct tile *tiles;
};

CUresult sim_sparse_create(CUarray *made)
{
    struct sparse *array = calloc(1, sizeof *array);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->magic = SPARSE_MAGIC;
    *made = (CUarray)array;
    return CUDA_SUCCESS;
}

bool sim_sparse_is(CUarray handle)
{
    return handle && ((struct sparse *)handle)->magic == SPARSE_MAGIC;
}

static void drop(struct tile **link)
{
    struct tile *gone = *link;
    *link = gone->next;
    gone->physical->mappings--;
    sim_physical_drop_if_unused(gone->physical);
    free(gone);
}

CUresult sim_sparse_destroy(CUarray handle)
{
    struct sparse *array = (struct sparse *)handle;
    sim_memory_lock();
    while (array->tiles)
        drop(&array->tiles);
    sim_memory_unlock();
    array->magic = 0;
    free(array);
    return CUDA_SUCCESS;
}

/* With the lock held. What was at that tile is let go of, whether anything takes its place or not. */
static CUresult change(const CUarrayMapInfo *map)
{
    struct sparse *array = (struct sparse *)map->resource.array;
    unsigned at[3] = {map->subresource.sparseLevel.offsetX, map->subresource.sparseLevel.offsetY,
                      map->subresource.sparseLevel.offsetZ};
    struct tile *fresh = NULL;
    if (map->memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
        struct sim_physical *physical;
        CUresult result = sim_physical_resolve(map->memHandle.memHandle, &physical);
        if (result || !(fresh = malloc(sizeof *fresh)))
            return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
        *fresh = (struct tile){{at[0], at[1], at[2]}, physical, NULL};
        physical->mappings++;
    }
    for (struct tile **link = &array->tiles; *link;)
        if ((*link)->at[0] == at[0] && (*link)->at[1] == at[1] && (*link)->at[2] == at[2])
            drop(link);
        else
            link = &(*link)->next;
    if (fresh) {
        fresh->next = array->tiles;
        array->tiles = fresh;
    }
    return CUDA_SUCCESS;
}

static CUresult check(const CUarrayMapInfo *map)
{
    if (map->resourceType != CU_RESOURCE_TYPE_ARRAY ||
        map->subresourceType != CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL)
        return SIM_UNSIMULATED("cuMemMapArrayAsync of mipmapped arrays and of mip tails");
    return sim_sparse_is(map->resource.array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    struct sim_stream *stream;
    CUresult result = sim_enter_stream(__func__, hStream, &stream);
    if (!result && (!mapInfoList || !count))
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count && !result; i++)
        result = check(&mapInfoList[i]);
    sim_memory_lock();
    for (unsigned int i = 0; i < count && !result; i++)
        result = change(&mapInfoList[i]);
    sim_memory_unlock();
    return result;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    return cuMemMapArrayAsync(mapInfoList, count, sim_per_thread(hStream));
}
