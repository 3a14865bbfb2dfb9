/*
 * Pools shared between processes, by file descriptor, and pointers out of them.
 *
 * A shareable pool has its bytes in files, one for each chunk. What travels for the pool is a descriptor of a file
 * that says what it is; for a pointer, a chunk's descriptor as the exporting process has it, where the importer opens
 * it. Nothing can be allocated from an imported pool. The exporter's card is charged, by the pool's reserve. What it
 * does not do: keep the memory on the card when the exporter frees it first, which CUDA forbids.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool.h"

#define POOL_MARK UINT64_C(0x4c4f4f504d4953)

struct label { /* all that the pool's file holds */
    uint64_t mark;
    uint32_t device;
};

struct pointer { /* lies in a CUmemPoolPtrExportData */
    uint64_t mark, inode;
    int32_t pid, fd; /* of the exporting process */
    uint64_t chunk;  /* bytes */
    uint64_t offset, size;
};

_Static_assert(sizeof(struct pointer) <= sizeof(CUmemPoolPtrExportData), "it must fit");

int sim_pool_chunk_file(const struct sim_pool *pool, uint64_t base, uint64_t size)
{
    if (!pool->shareable)
        return -1;
    int fd = sim_arena_file(size);
    if (fd >= 0 && !sim_arena_map(base, size, fd, 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- pools ---- */

static int label_file(uint32_t device)
{
    struct label label = {POOL_MARK, device};
    int fd = sim_arena_file(sizeof label);
    if (fd >= 0 && write(fd, &label, sizeof label) == (ssize_t)sizeof label)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    struct sim_pool *shared;
    CUresult result = sim_enter(__func__);
    if (!result && (!handle_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    result = sim_pool_resolve(pool, &shared);
    if (!result && !shared->shareable)
        result = CUDA_ERROR_INVALID_VALUE;
    int fd = result ? -1 : label_file(shared->device);
    sim_memory_unlock();
    if (!result && fd < 0)
        result = CUDA_ERROR_OPERATING_SYSTEM;
    if (!result)
        *(int *)handle_out = fd;
    return result;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    struct label label;
    int fd = (int)(intptr_t)handle;
    CUresult result = sim_enter(__func__);
    if (!result && (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
                    pread(fd, &label, sizeof label, 0) != (ssize_t)sizeof label || label.mark != POOL_MARK ||
                    label.device >= sim_machine->device_count))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_pool *made = sim_pool_make(label.device, 0);
    if (made)
        made->imported = true;
    sim_memory_unlock();
    *pool_out = (CUmemoryPool)made;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- pointers ---- */

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    struct pointer pointer = {.mark = POOL_MARK, .pid = getpid()};
    struct stat file;
    CUresult result = sim_enter(__func__);
    if (result || !shareData_out)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at(ptr);
    bool pooled = allocation && allocation->use == SIM_USE_POOL;
    const struct sim_chunk *chunk = pooled ? ((struct sim_segment *)allocation->owner)->chunk : NULL;
    if (!chunk || !chunk->pool->shareable || fstat(chunk->fd, &file)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        pointer.inode = file.st_ino;
        pointer.fd = chunk->fd;
        pointer.chunk = chunk->size;
        pointer.offset = allocation->base - chunk->base;
        pointer.size = allocation->size;
    }
    sim_memory_unlock();
    if (result)
        return result;
    memset(shareData_out, 0, sizeof *shareData_out);
    memcpy(shareData_out, &pointer, sizeof pointer);
    return CUDA_SUCCESS;
}

static CUresult map(const struct pointer *pointer, uint32_t device, CUdeviceptr *made)
{
    int fd = sim_arena_file_of(pointer->pid, pointer->fd, pointer->inode, pointer->chunk);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t region = sim_arena_take(pointer->chunk, SIM_GRANULARITY, false);
    struct sim_allocation fields = {.base = region + pointer->offset,
                                    .size = pointer->size,
                                    .use = SIM_USE_POOL_IMPORT,
                                    .device = device,
                                    .owner = (void *)region};
    bool mapped = region && sim_arena_map(region, pointer->chunk, fd, 0) && sim_allocation_add(&fields);
    close(fd);
    if (mapped)
        *made = fields.base;
    else if (region)
        sim_arena_give(region);
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    struct sim_pool *imported;
    struct pointer pointer;
    CUresult result = sim_enter(__func__);
    if (!result && (!ptr_out || !shareData))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    memcpy(&pointer, shareData, sizeof pointer);
    sim_memory_lock();
    result = sim_pool_resolve(pool, &imported);
    if (!result && (!imported->imported || pointer.mark != POOL_MARK || pointer.size > pointer.chunk ||
                    pointer.offset > pointer.chunk - pointer.size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = map(&pointer, imported->device, ptr_out);
    sim_memory_unlock();
    return result;
}

void sim_pool_unimport(struct sim_allocation *allocation)
{
    uint64_t region = (uint64_t)allocation->owner;
    sim_allocation_remove(allocation);
    sim_arena_give(region);
}
