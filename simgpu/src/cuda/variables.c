/*
 * The variables of an image and the memory they take.
 *
 * They lie together: a module's from its load on, a library's from its first use in a context on, in that context
 * alone. 1 MiB of them and more take whole blocks of their own, as on an H200 (1, 8 and 64 MiB took 2, 8 and 64),
 * less lies in what the context has taken already (64 modules of 4 KiB took nothing), and so do constants.
 * What it does not do: find variables in binaries (only PTX is read), or give one its first value: all are zeros.
 */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "memory.h"

static struct sim_global *add_global(struct sim_image *image, const struct sim_variable *variable)
{
    struct sim_global *global = calloc(1, sizeof(*global) + variable->name_length + 1);
    if (!global)
        return NULL;
    memcpy(global->name, variable->name, variable->name_length);
    global->size = variable->size;
    global->offset = sim_round_up(image->stored, variable->align);
    image->stored = global->offset + variable->size;
    global->next = image->globals;
    image->globals = global;
    return global;
}

CUresult sim_image_plan(struct sim_image *image)
{
    struct sim_variable variable;
    uint64_t counted = 0;
    for (const char *at = image->bytes; (at = sim_ptx_next_variable(at, &variable));) {
        if (variable.size && !add_global(image, &variable))
            return CUDA_ERROR_OUT_OF_MEMORY;
        counted += variable.constant ? 0 : variable.size;
    }
    if (counted >= sim_hardware->packed_bytes)
        image->storage_charge = sim_round_up(counted, sim_hardware->block_bytes);
    return CUDA_SUCCESS;
}

CUresult sim_image_place(struct sim_image *image, struct sim_context *context)
{
    CUresult result = CUDA_SUCCESS;
    if (!image->stored)
        return result;
    sim_memory_lock();
    if (!image->storage)
        result = sim_storage_create(context, image, &image->storage);
    sim_memory_unlock();
    return result;
}

void sim_image_displace(struct sim_image *image)
{
    for (struct sim_global *g = image->globals, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    sim_memory_lock();
    if (image->storage)
        sim_buffer_destroy(image->storage);
    sim_memory_unlock();
}

static struct sim_global *find_global(struct sim_image *image, const char *name)
{
    for (struct sim_global *global = image->globals; global; global = global->next)
        if (strcmp(global->name, name) == 0)
            return global;
    return NULL;
}

CUresult sim_image_global(struct sim_image *image, const char *name, CUdeviceptr *address, size_t *size)
{
    struct sim_context *context;
    struct sim_global *global = find_global(image, name);
    if (!global)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = sim_context_resolve(NULL, &context);
    if (!result)
        result = sim_image_place(image, context);
    if (!result && address)
        *address = image->storage->base + global->offset;
    if (!result && size)
        *size = global->size;
    return result;
}
