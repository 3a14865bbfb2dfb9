/*
 * A weak definition of every function that hooks.h names, which returns success; null_driver.c overrides
 * some.
 *
 * Aliases made by the assembler: the functions' types do not matter to a caller that ignores all outputs. The limiter
 * knows functions by their addresses and cannot tell these apart: what a benchmark calls is in null_driver.c.
 */
#include "hooks.h"

__attribute__((visibility("default"))) CUresult null_success(void);

CUresult null_success(void)
{
    return CUDA_SUCCESS;
}

#define WEAK(symbol, ...)                                                                                    \
    __asm__(".weak " #symbol "\n.type " #symbol ", @function\n.set " #symbol ", null_success");
WEIR_CUDA_HOOKS(WEAK)
WEIR_CALLED_CUDA(WEAK)
