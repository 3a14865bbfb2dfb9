/*
 * Between context.c, primary.c and stream.c: how contexts and streams come and go.
 *
 * What it does not do: serve the other files; they use driver.h.
 */
#ifndef SIMGPU_CONTEXT_H
#define SIMGPU_CONTEXT_H

#include "driver.h"

#define SIM_KNOWN_FLAGS (CU_CTX_FLAGS_MASK)

CUresult sim_context_open(struct sim_context *context, CUdevice ordinal, unsigned flags); /* fill, charge */
void sim_context_close(struct sim_context *context); /* drain, give back; the struct stays for stale handles */

CUresult sim_stream_open(struct sim_context *context, unsigned flags, int priority, struct sim_stream **stream);
void sim_streams_close(struct sim_context *context);

#endif
