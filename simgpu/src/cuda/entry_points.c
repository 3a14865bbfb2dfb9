/*
 * cuGetProcAddress: which exported symbol a program gets for a name, a CUDA version and a kind of default
 * stream.
 *
 * The answer is the newest symbol that came with the asked version or before it: a program keeps the ABI it
 * was compiled for. With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM it is a per-thread variant (_ptsz,
 * _ptds) where the function has one, of which the first came with CUDA 7. Functions for OpenGL, EGL and VDPAU
 * are not in cuda.h and are not found. The table lies in its own file (proc_table.c), because there the
 * symbols are mere addresses.
 */
#include <limits.h>
#include <string.h>

#include "driver.h"
#include "proc_table.h"

#define STREAM_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* Index of the first entry with this name, or where it would be. */
static size_t first_of(const char *name)
{
    size_t low = 0, high = sim_proc_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(sim_proc_table[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct sim_proc *newest(size_t first, int version, bool per_thread)
{
    const struct sim_proc *found = NULL;
    const char *name = sim_proc_table[first].name;
    for (size_t i = first; i < sim_proc_count && !strcmp(sim_proc_table[i].name, name); i++)
        if (sim_proc_table[i].version <= version && sim_proc_table[i].per_thread == per_thread)
            found = &sim_proc_table[i];
    return found;
}

/* An H200's driver gives no other variant in place of a per-thread one that is too new for the program. */
static const struct sim_proc *variant(size_t first, int version, cuuint64_t flags)
{
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && newest(first, INT_MAX, true);
    return newest(first, version, per_thread);
}

static CUdriverProcAddressQueryResult look_up(const char *name, int version, cuuint64_t flags, void **address)
{
    *address = NULL;
    size_t first = first_of(name);
    if (first == sim_proc_count || strcmp(sim_proc_table[first].name, name))
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const struct sim_proc *found = variant(first, version, flags);
    if (!found)
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    *address = found->address;
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

static bool acceptable(const char *name, void **address, int version, cuuint64_t flags)
{
    return name && address && version >= 0 && version <= CUDA_VERSION && !(flags & ~(cuuint64_t)STREAM_FLAGS) &&
           (flags & STREAM_FLAGS) != STREAM_FLAGS;
}

/* As CUDA 12 documents it: success with no address when there is none; `status`, if wanted, says why. */
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    if (!acceptable(symbol, pfn, cudaVersion, flags))
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult status = look_up(symbol, cudaVersion, flags, pfn);
    if (symbolStatus)
        *symbolStatus = status;
    return CUDA_SUCCESS;
}

/* As CUDA 11.3 documents it: a name without an address is an error. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    if (!acceptable(symbol, pfn, cudaVersion, flags))
        return CUDA_ERROR_INVALID_VALUE;
    bool found = look_up(symbol, cudaVersion, flags, pfn) == CU_GET_PROC_ADDRESS_SUCCESS;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
