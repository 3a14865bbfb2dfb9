/*
 * Images: what modules and libraries are loaded from, and the kernels found in them.
 *
 * PTX text is read for its entries and their parameters; of a cubin or fatbin only the bytes are searched, so
 * any name that is in them resolves. What it does not do: compile or run code.
 */
#ifndef SIMGPU_IMAGE_H
#define SIMGPU_IMAGE_H

#include "driver.h"

struct sim_allocation;

struct sim_global { /* a variable at module scope */
    uint64_t offset; /* in the image's storage */
    size_t size;
    struct sim_global *next;
    char name[];
};

struct sim_image { /* a CUmodule or a CUlibrary */
    uint32_t magic;
    bool text; /* PTX */
    char *bytes;
    size_t size;
    struct sim_context *context; /* NULL: a library, used in any context */
    uint32_t device;             /* where `charged` bytes were taken */
    uint64_t charged;
    uint64_t stored;                /* bytes of all its variables; … */
    uint64_t storage_charge;        /* … what the card charges for them, … */
    struct sim_allocation *storage; /* … and where they lie; NULL: not loaded yet, or its context has ended */
    pthread_mutex_t mutex;
    struct sim_function *functions;
    struct sim_global *globals;
};

CUresult sim_image_load(const void *source, size_t size, struct sim_context *context, struct sim_image **image);
CUresult sim_image_read(const char *path, struct sim_context *context, struct sim_image **image);
void sim_image_unload(struct sim_image *image);
/* The kernel of that name; made on first demand if the image is binary and has the name in it. */
CUresult sim_image_function(struct sim_image *image, const char *name, struct sim_function **function);
unsigned sim_image_function_count(struct sim_image *image);
CUresult sim_image_global(struct sim_image *image, const char *name, CUdeviceptr *address, size_t *size);

/* variables.c: see what the variables need; give them memory (a library's: when it is used); take it back. */
CUresult sim_image_plan(struct sim_image *image);
CUresult sim_image_place(struct sim_image *image, struct sim_context *context);
void sim_image_displace(struct sim_image *image);

/* ptx.c */
void sim_ptx_parse(struct sim_image *image);
struct sim_variable { /* a declaration in PTX text */
    const char *name;
    size_t name_length, size, align;
    bool constant;
};
/* The next variable at or behind `at`; returns where to go on, NULL when there is none. */
const char *sim_ptx_next_variable(const char *at, struct sim_variable *variable);
struct sim_function *sim_function_add(struct sim_image *image, const char *name, size_t length);

#endif
