/*
 * Memory of another API, imported by an opaque file descriptor. There is no other API here: any file that is large
 * enough stands for its memory, and is held on the card of the current context, in this process's name, until it is
 * let go. As with the real driver the descriptor belongs to the driver once it is imported.
 *
 * What it does not do: other kinds of handles, mapping it as a buffer or an array, semaphores.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"
#include "unsimulated.h"

struct external {
    uint32_t magic;
    uint32_t device;
    int fd;
    uint64_t size;
};

#define EXTERNAL_MAGIC 0x45585431u

static uint64_t footprint(const struct external *memory)
{
    return (memory->size + SIM_GRANULARITY - 1) / SIM_GRANULARITY * SIM_GRANULARITY;
}

static CUresult import(struct external *fields, CUexternalMemory *made)
{
    struct stat file;
    if (fstat(fields->fd, &file) || (uint64_t)file.st_size < fields->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct external *memory = malloc(sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = *fields;
    sim_memory_lock();
    CUresult result = sim_card_take(memory->device, SIM_MEMORY_BUFFER, footprint(memory));
    sim_memory_unlock();
    if (result)
        free(memory);
    else
        *made = (CUexternalMemory)memory;
    return result;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!extMem_out || !memHandleDesc || !memHandleDesc->size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        result = SIM_UNSIMULATED("cuImportExternalMemory of anything but an opaque file descriptor");
    if (result)
        return result;
    struct external fields = {.magic = EXTERNAL_MAGIC,
                              .device = context->device,
                              .fd = memHandleDesc->handle.fd,
                              .size = memHandleDesc->size};
    return import(&fields, extMem_out);
}

static CUresult resolve(CUexternalMemory handle, struct external **memory)
{
    *memory = (struct external *)handle;
    return handle && (*memory)->magic == EXTERNAL_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct external *memory;
    CUresult result = sim_enter(__func__);
    if (!result)
        result = resolve(extMem, &memory);
    if (result)
        return result;
    sim_memory_lock();
    sim_memory_give(memory->device, SIM_MEMORY_BUFFER, footprint(memory));
    sim_memory_unlock();
    close(memory->fd);
    memory->magic = 0;
    free(memory);
    return CUDA_SUCCESS;
}
