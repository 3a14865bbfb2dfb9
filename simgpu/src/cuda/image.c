/*
 * Loading an image: how long it is, what is in it, what it costs.
 *
 * Images of up to 1 MiB fit into what a context has reserved already; larger ones take whole blocks of the
 * card's memory while they are loaded. What its variables cost is in variables.c.
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
    if (!result && text)
        result = sim_image_plan(image);
    if (!result && context)
        result = sim_image_place(image, context);
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
    sim_image_displace(image);
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
