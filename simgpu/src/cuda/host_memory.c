/*
 * Page-locked host memory: allocated by the driver, or the program's own and registered.
 *
 * It takes nothing from a card, so a full card refuses none of it. Device and host address are the same, as
 * with unified addressing. What it does not do: lock pages; the simulated card needs no DMA.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

#define HOST_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                         \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |                \
     CU_MEMHOSTREGISTER_READ_ONLY)

static uint64_t whole_pages(uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

static CUresult record(enum sim_use use, struct sim_context *context, void *base, size_t size, unsigned flags)
{
    struct sim_allocation fields = {
        .base = (uint64_t)base, .size = size, .use = use, .context = context, .device = SIM_NONE, .flags = flags};
    sim_memory_lock();
    bool added = sim_allocation_add(&fields);
    sim_memory_unlock();
    return added ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate(const char *function, void **pp, size_t size, unsigned flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    if (!result && (!pp || !size || flags & ~(unsigned)HOST_FLAGS))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_forbids();
    if (result)
        return result;
    void *base = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = record(SIM_USE_HOST, context, base, size, flags);
    if (result)
        munmap(base, whole_pages(size));
    else
        *pp = base;
    return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return allocate(__func__, pp, bytesize, 0);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return allocate(__func__, pp, bytesize, 0);
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    return allocate(__func__, pp, bytesize, Flags);
}

void sim_host_destroy(struct sim_allocation *allocation)
{
    munmap((void *)allocation->base, whole_pages(allocation->size));
    sim_allocation_remove(allocation);
}

CUresult cuMemFreeHost(void *p)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result)
        result = sim_context_drain(context); /* a copy may still read it */
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at((uint64_t)p);
    if (allocation && allocation->use == SIM_USE_HOST)
        sim_host_destroy(allocation);
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unlock();
    return result;
}

/* ---- the program's own memory ---- */

static bool known_in_part(uint64_t base, uint64_t size)
{
    sim_memory_lock();
    bool none = sim_allocation_none_in(base, size);
    sim_memory_unlock();
    return !none;
}

static CUresult host_register(const char *function, void *p, size_t size, unsigned flags)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(function, &context);
    if (result)
        return result;
    bool range = p && size && size <= UINT64_MAX - (uint64_t)p;
    if (!range || flags & ~(unsigned)REGISTER_FLAGS || sim_arena_contains((uint64_t)p))
        return CUDA_ERROR_INVALID_VALUE;
    if (known_in_part((uint64_t)p, size))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return record(SIM_USE_REGISTERED, NULL, p, size, flags);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    return host_register(__func__, p, bytesize, Flags);
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return host_register(__func__, p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (result)
        return result;
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_at((uint64_t)p);
    if (allocation && allocation->use == SIM_USE_REGISTERED)
        sim_allocation_remove(allocation);
    else
        result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_memory_unlock();
    return result;
}

/* The flags of the page-locked memory at `p`; false when it is none. */
static bool page_locked(void *p, unsigned *flags)
{
    sim_memory_lock();
    struct sim_allocation *allocation = sim_allocation_find((uint64_t)p);
    bool found = allocation && (allocation->use == SIM_USE_HOST || allocation->use == SIM_USE_REGISTERED);
    if (found)
        *flags = allocation->flags;
    sim_memory_unlock();
    return found;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct sim_context *context;
    unsigned flags;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!pdptr || Flags || !page_locked(p, &flags)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pdptr = (CUdeviceptr)p;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(__func__, &context);
    if (!result && (!pFlags || !page_locked(p, pFlags)))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}
