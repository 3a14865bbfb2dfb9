/*
 * The variables of an image and the memory they take.
 *
 * Together 1 MiB and more, they lie in whole blocks of their own: a module's from its load on, as on an H200 (1, 8
 * and 64 MiB took 2, 8 and 64), a library's from its first use in a context on (not measured), in that context
 * alone. Smaller ones take theirs when they are asked for (not measured).
 * What it does not do: find variables in binaries; only PTX is read.
 */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "memory.h"

#define ALIGNMENT 8

static struct sim_global *add_global(struct sim_image *image, const struct sim_variable *variable)
{
    struct sim_global *global = calloc(1, sizeof(*global) + variable->name_length + 1);
    if (!global)
        return NULL;
    memcpy(global->name, variable->name, variable->name_length);
    global->size = variable->size;
    global->next = image->globals;
    image->globals = global;
    return global;
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

CUresult sim_image_plan(struct sim_image *image)
{
    struct sim_variable variable;
    uint64_t total = 0;
    for (const char *at = image->bytes; (at = sim_ptx_next_variable(at, &variable));)
        total += variable.constant ? 0 : round_up(variable.size, ALIGNMENT);
    if (total < sim_hardware->packed_bytes)
        return CUDA_SUCCESS;
    for (const char *at = image->bytes; (at = sim_ptx_next_variable(at, &variable));) {
        struct sim_global *global = variable.constant ? NULL : add_global(image, &variable);
        if (!global && !variable.constant)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (global) {
            global->stored = true;
            global->offset = image->stored;
            image->stored += round_up(variable.size, ALIGNMENT);
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_image_place(struct sim_image *image, struct sim_context *context)
{
    CUresult result = CUDA_SUCCESS;
    if (!image->stored)
        return result;
    sim_memory_lock();
    if (!image->storage)
        result = sim_buffer_create(context, SIM_USE_GLOBAL, SIM_MEMORY_MODULE,
                                   round_up(image->stored, sim_hardware->block_bytes), SIM_ANYWHERE,
                                   &image->storage);
    if (!result)
        image->storage->owner = image;
    sim_memory_unlock();
    return result;
}

void sim_image_displace(struct sim_image *image)
{
    for (struct sim_global *g = image->globals, *next; g; g = next) {
        next = g->next;
        if (g->address)
            cuMemFree_v2(g->address);
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
    struct sim_variable variable;
    for (const char *at = image->text ? image->bytes : NULL; at && (at = sim_ptx_next_variable(at, &variable));)
        if (strlen(name) == variable.name_length && memcmp(name, variable.name, variable.name_length) == 0)
            return variable.size ? add_global(image, &variable) : NULL;
    return NULL;
}

static CUresult address_of(struct sim_image *image, struct sim_global *global, CUdeviceptr *address)
{
    struct sim_context *context;
    CUresult result = CUDA_SUCCESS;
    if (global->stored) {
        result = sim_context_resolve(NULL, &context);
        if (!result)
            result = sim_image_place(image, context);
        *address = result ? 0 : image->storage->base + global->offset;
        return result;
    }
    if (!global->address)
        result = cuMemAlloc_v2(&global->address, global->size);
    *address = global->address;
    return result;
}

CUresult sim_image_global(struct sim_image *image, const char *name, CUdeviceptr *address, size_t *size)
{
    CUdeviceptr found = 0;
    pthread_mutex_lock(&image->mutex);
    struct sim_global *global = find_global(image, name);
    CUresult result = global ? address_of(image, global, &found) : CUDA_ERROR_NOT_FOUND;
    if (!result && address)
        *address = found;
    if (!result && size)
        *size = global->size;
    pthread_mutex_unlock(&image->mutex);
    return result;
}
