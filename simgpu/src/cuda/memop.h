/*
 * Between memop.c and the graph files: operations on words, as the calls and the nodes describe them.
 *
 * What it does not do: say what a word may be; that is checked when they are described and again when submitted.
 */
#ifndef SIMGPU_MEMOP_H
#define SIMGPU_MEMOP_H

#include "driver.h"

CUresult sim_memops_check(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch);
CUresult sim_memops_submit(struct sim_stream *stream, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch);

#endif
