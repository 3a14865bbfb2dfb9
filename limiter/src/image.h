/*
 * How much device memory the variables of an image take: what cuModuleLoadData and its kin are given.
 *
 * Read are PTX, cubins, and fat binaries as far as what they hold is not compressed; of all else the answer is 0,
 * and so it is for code, which lies in what a context holds already or shows in the agent's reconciliation.
 */
#ifndef WEIR_IMAGE_H
#define WEIR_IMAGE_H

#include <stdint.h>

/* Bytes of all variables at module scope. The image's end is known from itself, as it is to the driver. */
uint64_t weir_image_bytes(const void *image);
uint64_t weir_image_file_bytes(const char *path);

#endif
