/*
 * What memory.c lends to the other hooks: remembering what was charged, and freeing it, whichever call does that.
 */
#ifndef WEIR_MEMORY_H
#define WEIR_MEMORY_H

#include "hooks.h"
#include "objects.h"

/* The context that what the calling thread allocates belongs to, or NULL. */
void *weir_current_context(void);
/* From now on what is allocated in one belongs to the other. */
void weir_context_is_part(void *part, void *whole);

/* Remembers what was charged. Where there is no memory for that, it stays charged until the process ends. */
void weir_keep(enum weir_tag tag, uint64_t name, const struct weir_object *object);

/* Before the driver frees: takes the pointer's entry out. False: not one of ours. */
bool weir_forget_pointer(CUdeviceptr pointer, struct weir_object *object, enum weir_tag *tag);
/* After it: gives back what the pointer (or array, module, …) was charged; if the driver refused, keeps it. */
CUresult weir_after_free(CUresult result, bool known, enum weir_tag tag, uint64_t pointer,
                         const struct weir_object *object);
/* Before and after an array is destroyed: if it is gone, what is mapped into it is kept by it no more. */
void weir_tiles_end(const void *array);
void weir_tiles_ended(const void *array, bool gone);
/* What was opened by its handle is closed. */
void weir_import_gone(const struct weir_object *object);
/* An array is gone; `freed`: and the page with it, if it is a small one. */
void weir_array_gone(const struct weir_object *object, bool freed);
/* A pointer, array or module is gone, freed or with its context. */
void weir_pointer_freed(enum weir_tag tag, uint64_t pointer, const struct weir_object *object);

#endif
