/*
 * The table behind cuGetProcAddress: every exported symbol of libcuda, sorted by name and version.
 *
 * Read-only, made by the compiler from generated_entry_points.h. It holds no name that is not in cuda.h.
 */
#ifndef SIMGPU_PROC_TABLE_H
#define SIMGPU_PROC_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct sim_proc {
    const char *name; /* without version and variant: "cuMemAlloc" */
    void *address;
    int version; /* CUDA version that brought it: 3020 */
    bool per_thread;
};

extern const struct sim_proc sim_proc_table[];
extern const size_t sim_proc_count;

#endif
