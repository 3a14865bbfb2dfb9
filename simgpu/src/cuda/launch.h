/*
 * Between launch.c and the graph files: what a launch is, apart from where it goes.
 *
 * What it does not do: submit. A launch becomes an operation of a stream or a node of a graph.
 */
#ifndef SIMGPU_LAUNCH_H
#define SIMGPU_LAUNCH_H

#include "driver.h"

/* Checks grid, block and shared memory as the driver does; finds the function. */
CUresult sim_launch_check(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_function **function);
/* How long it will run, from its parameters; reads them now. */
uint64_t sim_launch_duration(const struct sim_function *function, void **params, void **extra);
/* The parameter buffer that `extra` names; NULL: none. */
const void *sim_launch_buffer(void **extra);
/* What a call costs its caller on the machine, spent if SIMGPU_HOST_COSTS=1. */
void sim_spend_host(uint64_t ns);

#endif
