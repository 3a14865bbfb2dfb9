/*
 * Contexts: half a gigabyte each on a large card, charged once per context before the driver makes it. How much
 * one costs is measured by the agent and stands in the control page.
 *
 * A primary context is made by the first retain and goes with the last release or with a reset; the driver is
 * asked which it was. Whatever was allocated in a context goes with it. Two threads that retain at once both
 * charge, and the second gives back; so for a moment too much is charged, never too little.
 */
#include "account.h"
#include "internal.h"
#include "memory.h"
#include "objects.h"
#include "pacing.h"
#include "pools.h"

#define ORDINALS 64

static struct primary {
    _Atomic uint64_t charged; /* bytes; 0: no context, or none that costs anything */
    void *_Atomic context;
} primaries[ORDINALS];

void weir_contexts_forget(void)
{
    for (int ordinal = 0; ordinal < ORDINALS; ordinal++) {
        atomic_store(&primaries[ordinal].charged, 0);
        atomic_store(&primaries[ordinal].context, NULL);
    }
}

static uint64_t context_bytes(int device)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_control_device control;
    if (!slice || device < 0)
        return 0;
    weir_control_read(slice, (uint32_t)device, &control, NULL);
    return weir_round_up(control.context_bytes, WEIR_UNIT);
}

/* Everything that was allocated in a context has gone with it. */
static void context_gone(void *context, int device, uint64_t charged)
{
    if (context) {
        weir_objects_of_context(context, weir_pointer_freed);
        weir_pacing_forget_context(context);
    }
    weir_give_back(device, WEIR_KIND_CONTEXT, charged);
    weir_pools_refresh();
}

static struct primary *primary_of(CUdevice ordinal)
{
    return !weir_inside && ordinal >= 0 && ordinal < ORDINALS ? &primaries[ordinal] : NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
    struct primary *primary = primary_of(ordinal);
    if (!primary)
        return WEIR_REAL(cuDevicePrimaryCtxRetain)(context, ordinal);
    int device = weir_device_of(ordinal);
    uint64_t bytes = context_bytes(device);
    uint64_t charged = atomic_load(&primary->charged) ? 0 : bytes;
    if (device >= 0)
        weir_slot(weir_slice()); /* whoever uses the card is seen in the slice, even where nothing is charged */
    if ((charged || device < 0) && !weir_charge(device, WEIR_KIND_CONTEXT, charged))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuDevicePrimaryCtxRetain, context, ordinal);
    if (result != CUDA_SUCCESS) {
        weir_give_back(device, WEIR_KIND_CONTEXT, charged);
        return result;
    }
    atomic_store(&primary->context, *context);
    if (!charged && bytes && !atomic_load(&primary->charged)) { /* released by another thread meanwhile */
        weir_charge_anyway(device, WEIR_KIND_CONTEXT, bytes);
        charged = bytes;
    }
    uint64_t none = 0;
    if (charged && !atomic_compare_exchange_strong(&primary->charged, &none, charged))
        weir_give_back(device, WEIR_KIND_CONTEXT, charged);
    return result;
}

/* After a release or a reset: if the context is gone, so is its charge. */
static CUresult after_release(CUresult result, CUdevice ordinal)
{
    struct primary *primary = primary_of(ordinal);
    unsigned int flags;
    int active = 1;
    if (!primary || result != CUDA_SUCCESS || !weir_slice() ||
        WEIR_REAL(cuDevicePrimaryCtxGetState)(ordinal, &flags, &active) != CUDA_SUCCESS || active)
        return result;
    uint64_t charged = atomic_exchange(&primary->charged, 0);
    context_gone(atomic_exchange(&primary->context, NULL), weir_device_of(ordinal), charged);
    return result;
}

#define LET_GO(symbol)                                                                                       \
    CUresult symbol(CUdevice ordinal)                                                                        \
    {                                                                                                        \
        return after_release(WEIR_CALL(symbol, ordinal), ordinal);                                           \
    }

LET_GO(cuDevicePrimaryCtxRelease)
LET_GO(cuDevicePrimaryCtxRelease_v2)
LET_GO(cuDevicePrimaryCtxReset)
LET_GO(cuDevicePrimaryCtxReset_v2)

static CUresult after_create(CUresult result, const CUcontext *context, int device, uint64_t bytes)
{
    struct weir_object object = {.charged = bytes, .device = (int16_t)device, .kind = WEIR_KIND_CONTEXT};
    if (result != CUDA_SUCCESS)
        weir_give_back(device, WEIR_KIND_CONTEXT, bytes);
    else if (device >= 0 && !weir_object_put(WEIR_TAG_CONTEXT, (uintptr_t)*context, &object))
        weir_count_error(device);
    return result;
}

#define CREATE(symbol, ...)                                                                                  \
    {                                                                                                        \
        if (weir_inside)                                                                                     \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        int slice_device = weir_device_of(device);                                                           \
        uint64_t bytes = context_bytes(slice_device);                                                        \
        if (!weir_charge(slice_device, WEIR_KIND_CONTEXT, bytes))                                            \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        return after_create(WEIR_CALL(symbol, __VA_ARGS__), context, slice_device, bytes);                   \
    }

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
CREATE(cuCtxCreate, context, flags, device)

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
CREATE(cuCtxCreate_v2, context, flags, device)

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags,
                        CUdevice device)
CREATE(cuCtxCreate_v3, context, affinity, count, flags, device)

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
CREATE(cuCtxCreate_v4, context, params, flags, device)

/* The same with a graphics system's help. */
CUresult cuGLCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
CREATE(cuGLCtxCreate, context, flags, device)

CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
CREATE(cuGLCtxCreate_v2, context, flags, device)

CUresult cuVDPAUCtxCreate(CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau, void *lookup)
CREATE(cuVDPAUCtxCreate, context, flags, device, vdpau, lookup)

CUresult cuVDPAUCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau, void *lookup)
CREATE(cuVDPAUCtxCreate_v2, context, flags, device, vdpau, lookup)

static bool gone(CUcontext context)
{
    (void)context;
    return true;
}

/* A context is detached while it is current; once it has no user left, it is current no longer. */
static bool left(CUcontext context)
{
    CUcontext current = NULL;
    return WEIR_CALL(cuCtxGetCurrent, &current) != CUDA_SUCCESS || current != context;
}

#define DESTROY(symbol, destroyed)                                                                           \
    CUresult symbol(CUcontext context)                                                                       \
    {                                                                                                        \
        struct weir_object object;                                                                           \
        bool known = !weir_inside && weir_object_take(WEIR_TAG_CONTEXT, (uintptr_t)context, &object);        \
        CUresult result = WEIR_CALL(symbol, context);                                                        \
        if (known && result == CUDA_SUCCESS && destroyed(context))                                           \
            context_gone(context, object.device, object.charged);                                            \
        else if (known)                                                                                      \
            weir_object_put(WEIR_TAG_CONTEXT, (uintptr_t)context, &object);                                  \
        return result;                                                                                       \
    }

DESTROY(cuCtxDestroy, gone)
DESTROY(cuCtxDestroy_v2, gone)
DESTROY(cuCtxDetach, left)
