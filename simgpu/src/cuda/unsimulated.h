/*
 * How the simulated driver says that it cannot do something: one line by name, once for each place that says it.
 *
 * What it does not do: include cuda.h, see unsimulated.c.
 */
#ifndef SIMGPU_UNSIMULATED_H
#define SIMGPU_UNSIMULATED_H

#include <stdatomic.h>

int sim_unsimulated(const char *what, atomic_flag *said); /* returns CUDA_ERROR_NOT_SUPPORTED */

/* For an option of a call that is simulated otherwise. */
#define SIM_UNSIMULATED(what)                                                                                  \
    ({                                                                                                         \
        static atomic_flag said = ATOMIC_FLAG_INIT;                                                            \
        (CUresult)sim_unsimulated(what, &said);                                                                \
    })

#endif
