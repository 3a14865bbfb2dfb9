/*
 * Loading an image: how long it is, what is in it, what it costs.
 *
 * Images of up to 1 MiB fit into what a context has reserved already; larger ones take whole blocks of the
 * card's memory while they are loaded. A module's arrays of 1 MiB and more take their memory at load, as on an
 * H200; smaller variables and a library's take theirs when they are asked for (not measured).
 * What it does not do: check that the code is for this card.
 */
#define _GNU_SOURCE /* memmem */
#include "image.h"

#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

struct fatbin_wrapper { /* what nvcc puts around a fatbin in a program */
    uint32_t magic, version;
    const void *data;
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};

static size_t elf_size(const Elf64_Ehdr *header)
{
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    size_t programs = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
    size = programs > size ? programs : size;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)((const char *)header + header->e_shoff);
    for (int i = 0; header->e_shoff && i < header->e_shnum; i++)
        if (sections[i].sh_type != SHT_NOBITS && sections[i].sh_offset + sections[i].sh_size > size)
            size = sections[i].sh_offset + sections[i].sh_size;
    return size;
}

/* Where an image that comes as a bare address begins and ends, by its own headers. */
static CUresult measure(const void **source, size_t *size, bool *text)
{
    uint32_t magic;
    memcpy(&magic, *source, *size && *size < sizeof(magic) ? *size : sizeof(magic));
    if (magic == WRAPPER_MAGIC) {
        *source = ((const struct fatbin_wrapper *)*source)->data;
        memcpy(&magic, *source, sizeof(magic));
        *size = 0;
    }
    *text = false;
    if (magic == FATBIN_MAGIC) {
        const struct fatbin_header *header = *source;
        *size = header->header_size + header->size;
    } else if (memcmp(*source, ELFMAG, SELFMAG) == 0) {
        *size = *size ? *size : elf_size(*source);
    } else {
        *text = true;
        *size = *size ? strnlen(*source, *size) : strlen(*source);
        if (!memmem(*source, *size, ".version", 8))
            return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

static CUresult charge(struct sim_image *image)
{
    if (!image->context || image->size <= sim_hardware->packed_bytes)
        return CUDA_SUCCESS;
    uint64_t block = sim_hardware->block_bytes, bytes = (image->size + block - 1) / block * block;
    image->device = image->context->device;
    if (sim_memory_take(image->device, SIM_MEMORY_MODULE, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->charged = bytes;
    return CUDA_SUCCESS;
}

/* Kernels of a binary have a section each, named for them. */
static void find_sections(struct sim_image *image)
{
    const char *at = image->bytes, *end = image->bytes + image->size;
    while ((at = memmem(at, (size_t)(end - at), ".text.", 6))) {
        at += 6;
        size_t length = strnlen(at, (size_t)(end - at));
        struct sim_function *found = image->functions;
        while (found && (strlen(found->name) != length || memcmp(found->name, at, length) != 0))
            found = found->next;
        if (length > 0 && !found)
            sim_function_add(image, at, length);
    }
}

static CUresult place_large_globals(struct sim_image *image);

CUresult sim_image_load(const void *source, size_t size, struct sim_context *context, struct sim_image **loaded)
{
    bool text;
    if (!source)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = measure(&source, &size, &text);
    struct sim_image *image = result ? NULL : calloc(1, sizeof(*image));
    char *bytes = image ? malloc(size + 1) : NULL;
    if (!bytes) {
        free(image);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(bytes, source, size);
    bytes[size] = '\0';
    *image = (struct sim_image){
        .magic = SIM_IMAGE_MAGIC, .text = text, .bytes = bytes, .size = size, .context = context};
    pthread_mutex_init(&image->mutex, NULL);
    result = charge(image);
    if (!result && text && context)
        result = place_large_globals(image);
    if (result) {
        sim_image_unload(image);
        return result;
    }
    if (text)
        sim_ptx_parse(image);
    else
        find_sections(image);
    *loaded = image;
    return CUDA_SUCCESS;
}

CUresult sim_image_read(const char *path, struct sim_context *context, struct sim_image **image)
{
    FILE *file = path ? fopen(path, "rbe") : NULL;
    if (!file)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    char *bytes = NULL;
    size_t size = 0, room = 0, got;
    do {
        room = room ? room * 2 : 65536;
        char *larger = realloc(bytes, room);
        if (!larger)
            break;
        bytes = larger;
        got = fread(bytes + size, 1, room - size - 1, file);
        size += got;
        bytes[size] = '\0';
    } while (got > 0);
    fclose(file);
    CUresult result = size > 4 ? sim_image_load(bytes, size, context, image) : CUDA_ERROR_INVALID_IMAGE;
    free(bytes);
    return result;
}

void sim_image_unload(struct sim_image *image)
{
    for (struct sim_function *f = image->functions, *next; f; f = next) {
        next = f->next;
        f->magic = 0;
        free(f->old_launch);
        free(f);
    }
    for (struct sim_global *g = image->globals, *next; g; g = next) {
        next = g->next;
        if (g->address)
            cuMemFree_v2(g->address);
        free(g);
    }
    if (image->charged)
        sim_memory_give(image->device, SIM_MEMORY_MODULE, image->charged);
    image->magic = 0;
    pthread_mutex_destroy(&image->mutex);
    free(image->bytes);
    free(image);
}

/* ---- kernels ---- */

struct sim_function *sim_function_add(struct sim_image *image, const char *name, size_t length)
{
    struct sim_function *function = calloc(1, sizeof(*function) + length + 1);
    if (!function)
        return NULL;
    memcpy(function->name, name, length);
    function->magic = image->context ? SIM_FUNCTION_MAGIC : SIM_KERNEL_MAGIC;
    function->timed = strncmp(function->name, "weir_spin", 9) == 0;
    function->image = image;
    function->next = image->functions;
    image->functions = function;
    return function;
}

/* Is the name in a binary, by itself? */
static bool mentioned(const struct sim_image *image, const char *name)
{
    size_t length = strlen(name);
    const char *at = image->bytes, *end = image->bytes + image->size;
    while (length && (at = memmem(at, (size_t)(end - at), name, length))) {
        char before = at > image->bytes ? at[-1] : '\0', after = at[length];
        if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) && after != '_')
            return true;
        at += length;
    }
    return false;
}

CUresult sim_image_function(struct sim_image *image, const char *name, struct sim_function **found)
{
    pthread_mutex_lock(&image->mutex);
    struct sim_function *function = image->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function && !image->text && mentioned(image, name))
        function = sim_function_add(image, name, strlen(name));
    pthread_mutex_unlock(&image->mutex);
    *found = function;
    return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

unsigned sim_image_function_count(struct sim_image *image)
{
    unsigned count = 0;
    for (struct sim_function *f = image->functions; f; f = f->next)
        count++;
    return count;
}

/* ---- variables ---- */

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

CUresult sim_image_global(struct sim_image *image, const char *name, CUdeviceptr *address, size_t *size)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&image->mutex);
    struct sim_global *global = find_global(image, name);
    if (!global)
        result = CUDA_ERROR_NOT_FOUND;
    else if (!global->address)
        result = cuMemAlloc_v2(&global->address, global->size);
    if (!result && address)
        *address = global->address;
    if (!result && size)
        *size = global->size;
    pthread_mutex_unlock(&image->mutex);
    return result;
}

/* Large arrays take the card's memory as soon as the module is there, asked for or not. */
static CUresult place_large_globals(struct sim_image *image)
{
    struct sim_variable variable;
    CUresult result = CUDA_SUCCESS;
    for (const char *at = image->bytes; !result && (at = sim_ptx_next_variable(at, &variable));) {
        if (variable.size < sim_hardware->packed_bytes)
            continue;
        struct sim_global *global = add_global(image, &variable);
        result = global ? cuMemAlloc_v2(&global->address, global->size) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}
