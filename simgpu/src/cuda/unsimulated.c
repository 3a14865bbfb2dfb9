/*
 * A function for every entry point that is not simulated: it says so by name, once, and returns
 * CUDA_ERROR_NOT_SUPPORTED.
 *
 * They are weak, so that writing the real one in any other file replaces it with nothing else to change.
 * cuda.h is not included: all of them ignore their arguments, which the calling conventions of the
 * platforms libcuda exists for allow.
 */
#include <stdio.h>

#include "unsimulated.h"

#define NOT_SUPPORTED 801 /* CUDA_ERROR_NOT_SUPPORTED */

int sim_unsimulated(const char *what, atomic_flag *said)
{
    if (!atomic_flag_test_and_set(said))
        fprintf(stderr, "simgpu: %s is not simulated\n", what);
    return NOT_SUPPORTED;
}

#define ENTRY(name, symbol, version, per_thread)                                                               \
    int symbol(void);                                                                                          \
    __attribute__((weak, visibility("default"))) int symbol(void) {                                            \
        static atomic_flag said = ATOMIC_FLAG_INIT;                                                            \
        return sim_unsimulated(#symbol, &said);                                                                \
    }
#include "generated_entry_points.h"
