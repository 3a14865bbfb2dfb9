/*
 * Contexts that the program creates: half a gigabyte each on a large card, charged before the driver makes one. How
 * much one costs is measured by the agent and stands in the control page.
 *
 * Whatever was allocated in a context goes with it, and so do the meter's events there. Both are set apart before the
 * driver destroys it: the next context may have the same handle, and be another thread's before this one is back.
 * Not here: the primary context of a card, and its parts (primary.c).
 */
#include "contexts.h"

#include "account.h"
#include "gate.h"
#include "internal.h"
#include "memory.h"
#include "objects.h"
#include "packs.h"
#include "pacing.h"
#include "pools.h"

uint64_t weir_context_bytes(int device)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_control_device control;
    if (!slice || device < 0)
        return 0;
    weir_control_read(slice, (uint32_t)device, &control, NULL);
    return weir_round_up(control.context_bytes, WEIR_UNIT);
}

void weir_context_ends(void *context, bool alive)
{
    weir_pacing_forget_context(context, alive);
    weir_objects_condemn(context);
}

void weir_context_stays(void *context)
{
    weir_objects_spare(context);
}

void weir_context_gone(void *context, int device, uint64_t charged)
{
    if (context) {
        gate_context_gone(context);
        weir_objects_of_context(context, weir_pointer_freed);
        weir_pack_leave(context);
    }
    weir_give_back(device, WEIR_KIND_CONTEXT, charged);
    weir_pools_refresh();
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
        uint64_t bytes = weir_context_bytes(slice_device);                                                        \
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

static void after_destroy(CUresult result, CUcontext context, const struct weir_object *object)
{
    if (result == CUDA_SUCCESS) {
        weir_context_gone(context, object->device, object->charged);
    } else {
        weir_context_stays(context);
        weir_keep(WEIR_TAG_CONTEXT, (uintptr_t)context, object);
    }
}

#define DESTROY(symbol)                                                                                      \
    CUresult symbol(CUcontext context)                                                                       \
    {                                                                                                        \
        struct weir_object object;                                                                           \
        bool known = !weir_inside && weir_object_take(WEIR_TAG_CONTEXT, (uintptr_t)context, &object);        \
        if (known)                                                                                           \
            weir_context_ends(context, true);                                                                \
        CUresult result = WEIR_CALL(symbol, context);                                                        \
        if (known)                                                                                           \
            after_destroy(result, context, &object);                                                         \
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
    if (last) {
        atomic_store(&object.refs, 1);
        weir_context_ends(context, true);
    }
    CUresult result = WEIR_CALL(cuCtxDetach, context);
    if (last)
        after_destroy(result, context, &object);
    else if (named && result != CUDA_SUCCESS)
        attach(context);
    return result;
}
