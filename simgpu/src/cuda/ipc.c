/*
 * Device memory of one process opened in another (cuIpc…MemHandle).
 *
 * Exporting moves the bytes of the allocation's blocks into an anonymous file; the handle names it as a
 * descriptor of the exporting process, where the importer opens it. So nothing is left behind by a process
 * that dies, and only its owner is charged: an import costs the card nothing, as it is the same memory.
 * Opening a handle again gives the same address and is counted. What it does not do: cross PID namespaces.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

#define HANDLE_MARK 0x43504953u /* "SIPC" */

struct handle { /* lies in a CUipcMemHandle */
    uint32_t mark;
    uint32_t device;
    int32_t pid, fd; /* of the exporting process */
    uint64_t inode;  /* of the file: another one has that number by now, and it is refused */
    uint64_t file_size;
    uint64_t offset, size; /* of the allocation in it */
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "the handle must fit");

struct import {
    struct handle handle;
    uint64_t region; /* where the whole file is mapped */
    unsigned opened;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct sim_context *context;
    struct handle handle = {.mark = HANDLE_MARK, .pid = getpid()};
    struct stat file;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && !pHandle)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at(dptr);
    if (!allocation || allocation->use != SIM_USE_DEVICE)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = sim_extent_share(&allocation->extent, &handle.fd, &handle.offset, &handle.file_size);
    if (!result) {
        handle.device = allocation->device;
        handle.size = allocation->size;
        if (fstat(handle.fd, &file))
            result = CUDA_ERROR_UNKNOWN;
    }
    sim_memory_unlock();
    if (result)
        return result;
    handle.inode = file.st_ino;
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

/* ---- importing ---- */

static struct import *imports[256];
static size_t import_count;

static struct import *opened_before(const struct handle *handle)
{
    for (size_t i = 0; i < import_count; i++)
        if (!memcmp(&imports[i]->handle, handle, sizeof *handle))
            return imports[i];
    return NULL;
}

static bool map_file(const struct handle *handle, uint64_t *region)
{
    int fd = sim_arena_file_of(handle->pid, handle->fd, handle->inode, handle->file_size);
    if (fd < 0)
        return false;
    *region = sim_arena_take(handle->file_size, SIM_GRANULARITY, false);
    bool mapped = *region && sim_arena_map(*region, handle->file_size, fd, 0);
    close(fd);
    if (!mapped && *region)
        sim_arena_give(*region);
    return mapped;
}

static CUresult import(const struct handle *handle, CUdeviceptr *pointer)
{
    uint64_t region;
    if (import_count == sizeof imports / sizeof *imports)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct import *made = calloc(1, sizeof *made);
    if (!made || !map_file(handle, &region)) {
        free(made);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *made = (struct import){*handle, region, 1};
    struct sim_allocation fields = {.base = region + handle->offset,
                                    .size = handle->size,
                                    .use = SIM_USE_IMPORT,
                                    .device = handle->device,
                                    .owner = made};
    if (!sim_allocation_add(&fields)) {
        sim_arena_give(region);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    imports[import_count++] = made;
    *pointer = fields.base;
    return CUDA_SUCCESS;
}

static CUresult open_handle(const char *function, CUdeviceptr *pointer, const CUipcMemHandle *given, unsigned flags)
{
    struct sim_context *context;
    struct handle handle;
    CUresult result = sim_enter_context(function, &context);
    if (result)
        return result;
    memcpy(&handle, given, sizeof handle);
    if (!pointer || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.mark != HANDLE_MARK || handle.device >= sim_machine->device_count || handle.size > handle.file_size ||
        handle.offset > handle.file_size - handle.size)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* for other processes only */
    sim_memory_lock();
    struct import *before = opened_before(&handle);
    if (before) {
        before->opened++;
        *pointer = before->region + handle.offset;
    } else {
        result = import(&handle, pointer);
    }
    sim_memory_unlock();
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    return open_handle(__func__, pdptr, &handle, Flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    return open_handle(__func__, pdptr, &handle, Flags);
}

static void unimport(struct sim_allocation *allocation, struct import *gone)
{
    for (size_t i = 0; i < import_count; i++)
        if (imports[i] == gone)
            imports[i] = imports[--import_count];
    sim_allocation_remove(allocation);
    sim_arena_give(gone->region);
    free(gone);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at(dptr);
    if (!allocation || allocation->use != SIM_USE_IMPORT)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!--((struct import *)allocation->owner)->opened)
        unimport(allocation, allocation->owner);
    sim_memory_unlock();
    return result;
}
