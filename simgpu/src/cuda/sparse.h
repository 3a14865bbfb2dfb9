/*
 * Between array.c, whose entry points make and destroy arrays of all kinds, and sparse.c.
 */
#ifndef SIMGPU_SPARSE_H
#define SIMGPU_SPARSE_H

#include "driver.h"

CUresult sim_sparse_create(CUarray *made);
bool sim_sparse_is(CUarray handle);
CUresult sim_sparse_destroy(CUarray handle);

#endif
