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
#include "packs.h"
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
        weir_pack_leave(context);
        weir_pacing_forget_context(context);
    }
    weir_give_back(device, WEIR_KIND_CONTEXT, charged);
    weir_pools_refresh();
}

static struct primary *primary_of(CUdevice ordinal)
{
    return !weir_inside && ordinal >= 0 && ordinal < ORDINALS ? &primaries[ordinal] : NULL;
}

struct retained { /* a call that may make the primary context */
    int device;
    uint64_t bytes;   /* what it would cost */
    uint64_t charged; /* before the call, where there was none */
};

static bool before_retain(const struct primary *primary, CUdevice ordinal, struct retained *retained)
{
    retained->device = weir_device_of(ordinal);
    retained->bytes = context_bytes(retained->device);
    retained->charged = atomic_load(&primary->charged) ? 0 : retained->bytes;
    if (retained->device >= 0)
        weir_slot(weir_slice()); /* whoever uses the card is seen in the slice, even where nothing is charged */
    bool asks = retained->charged || retained->device < 0;
    return !asks || weir_charge(retained->device, WEIR_KIND_CONTEXT, retained->charged);
}

/* The context is there: charged once, whoever came first. */
static void charge_primary(struct primary *primary, int device, uint64_t charged)
{
    uint64_t none = 0;
    if (charged && !atomic_compare_exchange_strong(&primary->charged, &none, charged))
        weir_give_back(device, WEIR_KIND_CONTEXT, charged);
}

static void after_retain(CUresult result, struct primary *primary, struct retained *retained)
{
    if (result != CUDA_SUCCESS) {
        weir_give_back(retained->device, WEIR_KIND_CONTEXT, retained->charged);
        return;
    }
    if (!retained->charged && !atomic_load(&primary->charged)) { /* released by another thread meanwhile */
        weir_charge_anyway(retained->device, WEIR_KIND_CONTEXT, retained->bytes);
        retained->charged = retained->bytes;
    }
    charge_primary(primary, retained->device, retained->charged);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
    struct primary *primary = primary_of(ordinal);
    struct retained retained;
    if (!primary)
        return WEIR_REAL(cuDevicePrimaryCtxRetain)(context, ordinal);
    if (!before_retain(primary, ordinal, &retained))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuDevicePrimaryCtxRetain, context, ordinal);
    if (result == CUDA_SUCCESS)
        atomic_store(&primary->context, *context);
    after_retain(result, primary, &retained);
    return result;
}

static bool active(CUdevice ordinal)
{
    unsigned int flags;
    int is_active = 1;
    return WEIR_ASK(cuDevicePrimaryCtxGetState, ordinal, &flags, &is_active) != CUDA_SUCCESS || is_active;
}

/* After a release or a reset: if the context is gone, so is its charge. */
static void after_release(CUdevice ordinal)
{
    struct primary *primary = primary_of(ordinal);
    if (!primary || !weir_slice() || active(ordinal))
        return;
    int device = weir_device_of(ordinal);
    uint64_t charged = atomic_exchange(&primary->charged, 0);
    context_gone(atomic_exchange(&primary->context, NULL), device, charged);
    if (charged && active(ordinal)) { /* another thread has retained it, and believed that it was charged */
        weir_charge_anyway(device, WEIR_KIND_CONTEXT, charged);
        charge_primary(primary, device, charged);
    }
}

#define LET_GO(symbol)                                                                                       \
    CUresult symbol(CUdevice ordinal)                                                                        \
    {                                                                                                        \
        CUresult result = WEIR_CALL(symbol, ordinal);                                                        \
        if (result == CUDA_SUCCESS)                                                                          \
            after_release(ordinal);                                                                          \
        return result;                                                                                       \
    }

LET_GO(cuDevicePrimaryCtxRelease)
LET_GO(cuDevicePrimaryCtxRelease_v2)
LET_GO(cuDevicePrimaryCtxReset)
LET_GO(cuDevicePrimaryCtxReset_v2)

/* A green context is a part of the primary one, which it keeps; by itself it costs what nobody has measured. */
CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc resources, CUdevice ordinal, unsigned int flags)
{
    struct primary *primary = primary_of(ordinal);
    struct retained retained;
    if (!primary)
        return WEIR_REAL(cuGreenCtxCreate)(context, resources, ordinal, flags);
    if (!before_retain(primary, ordinal, &retained))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuGreenCtxCreate, context, resources, ordinal, flags);
    after_retain(result, primary, &retained);
    struct weir_object object = {.link = (uint64_t)ordinal, .device = (int16_t)retained.device};
    if (result == CUDA_SUCCESS && retained.device >= 0)
        weir_keep(WEIR_TAG_GREEN, (uintptr_t)*context, &object);
    return result;
}

/* What is made while `part` is current belongs to the primary context, whose own handle may not be known yet. */
static void name_part(CUcontext part, CUdevice ordinal)
{
    CUcontext whole = NULL;
    if (WEIR_ASK(cuDevicePrimaryCtxRetain, &whole, ordinal) != CUDA_SUCCESS)
        return;
    WEIR_ASK(cuDevicePrimaryCtxRelease_v2, ordinal);
    atomic_store(&primaries[ordinal].context, whole);
    if (part != whole && !weir_object_find(WEIR_TAG_PART, (uintptr_t)part))
        weir_context_is_part(part, whole);
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    struct weir_object object;
    CUresult result = WEIR_CALL(cuCtxFromGreenCtx, context, green);
    if (!weir_inside && result == CUDA_SUCCESS && weir_object_take(WEIR_TAG_GREEN, (uintptr_t)green, &object)) {
        name_part(*context, (CUdevice)object.link);
        object.context = *context;
        weir_keep(WEIR_TAG_GREEN, (uintptr_t)green, &object);
    }
    return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    struct weir_object object, part;
    bool known = !weir_inside && weir_object_take(WEIR_TAG_GREEN, (uintptr_t)green, &object);
    CUresult result = WEIR_CALL(cuGreenCtxDestroy, green);
    if (known && result == CUDA_SUCCESS) {
        if (weir_object_take(WEIR_TAG_PART, (uintptr_t)object.context, &part))
            weir_pacing_forget_context(object.context);
        after_release((CUdevice)object.link);
    } else if (known)
        weir_keep(WEIR_TAG_GREEN, (uintptr_t)green, &object);
    return result;
}

static CUresult after_create(CUresult result, const CUcontext *context, int device, uint64_t bytes)
{
    struct weir_object object = {
        .charged = bytes, .device = (int16_t)device, .kind = WEIR_KIND_CONTEXT, .refs = 1};
    if (result != CUDA_SUCCESS)
        weir_give_back(device, WEIR_KIND_CONTEXT, bytes);
    else if (device >= 0)
        weir_keep(WEIR_TAG_CONTEXT, (uintptr_t)*context, &object);
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

#define DESTROY(symbol)                                                                                      \
    CUresult symbol(CUcontext context)                                                                       \
    {                                                                                                        \
        struct weir_object object;                                                                           \
        bool known = !weir_inside && weir_object_take(WEIR_TAG_CONTEXT, (uintptr_t)context, &object);        \
        CUresult result = WEIR_CALL(symbol, context);                                                        \
        if (known && result == CUDA_SUCCESS)                                                                 \
            context_gone(context, object.device, object.charged);                                            \
        else if (known)                                                                                      \
            weir_keep(WEIR_TAG_CONTEXT, (uintptr_t)context, &object);                                        \
        return result;                                                                                       \
    }

DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* ---- users of a context that the program created: it counts as the first ---- */

static void attach(CUcontext context)
{
    struct weir_object *named = weir_object_find(WEIR_TAG_CONTEXT, (uintptr_t)context);
    if (named)
        atomic_fetch_add(&named->refs, 1);
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    CUresult result = WEIR_CALL(cuCtxAttach, context, flags);
    if (!weir_inside && result == CUDA_SUCCESS)
        attach(*context);
    return result;
}

CUresult cuCtxDetach(CUcontext context)
{
    struct weir_object object;
    uint64_t name = (uintptr_t)context;
    struct weir_object *named = weir_inside ? NULL : weir_object_find(WEIR_TAG_CONTEXT, name);
    bool last = named && atomic_fetch_sub(&named->refs, 1) == 1 && weir_object_take(WEIR_TAG_CONTEXT, name, &object);
    CUresult result = WEIR_CALL(cuCtxDetach, context);
    if (last && result == CUDA_SUCCESS) {
        context_gone(context, object.device, object.charged);
    } else if (last) {
        atomic_store(&object.refs, 1);
        weir_keep(WEIR_TAG_CONTEXT, name, &object);
    } else if (named && result != CUDA_SUCCESS) {
        attach(context);
    }
    return result;
}
