/*
 * The primary context of each card, which all libraries of a process share, and green contexts, which are parts of it.
 *
 * It is made by the first retain and goes with the last release or with a reset; the driver is asked which it was. Who
 * is the first to charge it says so: others who retain it meanwhile wait until he has been answered, as they would in
 * the driver, so it is charged once and nobody is refused for what another thread charges too. Users are counted only
 * to foresee the last release, before which what was made in the context is set apart (contexts.h); where that was
 * wrong, it is put back.
 */
#include "account.h"
#include "clock.h"
#include "contexts.h"
#include "internal.h"
#include "memory.h"
#include "objects.h"
#include "pacing.h"

#define ORDINALS 64
#define MAKING 1 /* no size of a context */
#define PATIENCE (5 * WEIR_S) /* for another thread's call; after that both charge, and one gives back */
#define GLANCE (100 * WEIR_US)

static struct primary {
    _Atomic uint64_t charged; /* bytes; 0: no context, or none that costs anything; MAKING: somebody charges it */
    void *_Atomic context;
    _Atomic int users;
} primaries[ORDINALS];

void weir_primaries_forget(void)
{
    for (int ordinal = 0; ordinal < ORDINALS; ordinal++) {
        atomic_store(&primaries[ordinal].charged, 0);
        atomic_store(&primaries[ordinal].context, NULL);
        atomic_store(&primaries[ordinal].users, 0);
    }
}

static struct primary *primary_of(CUdevice ordinal)
{
    return !weir_inside && ordinal >= 0 && ordinal < ORDINALS ? &primaries[ordinal] : NULL;
}

struct retained { /* a call that may make the primary context */
    int device;
    uint64_t bytes;   /* what it would cost */
    uint64_t charged; /* before the call, where there was none */
    bool first;       /* `charged` says MAKING until this call is over */
};

/* Whether the context is to be charged; not if it was, or another thread that does so has come through. */
static bool begin_making(struct primary *primary, struct retained *retained)
{
    uint64_t now = weir_now(), patience = now + PATIENCE, seen = 0;
    while (!(retained->first = atomic_compare_exchange_strong(&primary->charged, &seen, MAKING))) {
        if (seen != MAKING || now > patience)
            return seen == MAKING;
        weir_sleep_until(now + GLANCE);
        now = weir_now();
        seen = 0;
    }
    return true;
}

/* The charge stands, or (0) there is none after all. False: not to be kept, for it is charged already. */
static bool end_making(struct primary *primary, const struct retained *retained, uint64_t charged)
{
    uint64_t seen = retained->first ? MAKING : 0;
    return atomic_compare_exchange_strong(&primary->charged, &seen, charged);
}

static bool before_retain(struct primary *primary, CUdevice ordinal, struct retained *retained)
{
    *retained = (struct retained){.device = weir_device_of(ordinal)};
    retained->bytes = weir_context_bytes(retained->device);
    if (retained->device >= 0)
        weir_slot(weir_slice()); /* whoever uses the card is seen in the slice, even where nothing is charged */
    if (retained->bytes && begin_making(primary, retained))
        retained->charged = retained->bytes;
    bool asks = retained->charged || retained->device < 0;
    if (!asks || weir_charge(retained->device, WEIR_KIND_CONTEXT, retained->charged))
        return true;
    end_making(primary, retained, 0);
    return false;
}

static void after_retain(CUresult result, struct primary *primary, struct retained *retained)
{
    bool made = result == CUDA_SUCCESS;
    if (made)
        atomic_fetch_add(&primary->users, 1);
    if (made && !retained->charged && !atomic_load(&primary->charged)) { /* released by another thread meanwhile */
        weir_charge_anyway(retained->device, WEIR_KIND_CONTEXT, retained->bytes);
        retained->charged = retained->bytes;
    }
    if (retained->charged && (!end_making(primary, retained, made ? retained->charged : 0) || !made))
        weir_give_back(retained->device, WEIR_KIND_CONTEXT, retained->charged);
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

/* What is charged for it; what another thread is charging meanwhile is not for this one to take. */
static uint64_t take_charge(struct primary *primary)
{
    uint64_t charged = atomic_load(&primary->charged);
    while (charged != MAKING && !atomic_compare_exchange_weak(&primary->charged, &charged, 0))
        ;
    return charged == MAKING ? 0 : charged;
}

struct leaving { /* a call that may end the primary context */
    struct primary *primary;
    CUdevice ordinal;
    void *context; /* NULL: not known to us */
    bool ends;     /* expected to */
};

static struct leaving before_release(CUdevice ordinal, bool surely)
{
    struct leaving leaving = {.primary = weir_slice() ? primary_of(ordinal) : NULL, .ordinal = ordinal};
    if (!leaving.primary)
        return leaving;
    leaving.context = atomic_load(&leaving.primary->context);
    leaving.ends = leaving.context && (surely || atomic_load(&leaving.primary->users) == 1);
    if (leaving.ends)
        weir_context_ends(leaving.context, true);
    return leaving;
}

/* The driver says that it is gone: so is its charge. */
static void primary_gone(const struct leaving *leaving)
{
    struct primary *primary = leaving->primary;
    int device = weir_device_of(leaving->ordinal);
    uint64_t charged = take_charge(primary), none = 0;
    if (leaving->context && !leaving->ends)
        weir_context_ends(leaving->context, false);
    weir_context_gone(leaving->context, device, charged);
    if (!charged || !active(leaving->ordinal))
        return;
    weir_charge_anyway(device, WEIR_KIND_CONTEXT, charged); /* another thread has retained it, and believed … */
    if (!atomic_compare_exchange_strong(&primary->charged, &none, charged)) /* … that it was charged */
        weir_give_back(device, WEIR_KIND_CONTEXT, charged);
}

static CUresult after_release(CUresult result, const struct leaving *leaving, bool all)
{
    struct primary *primary = leaving->primary;
    if (!primary)
        return result;
    int users = atomic_load(&primary->users);
    while (result == CUDA_SUCCESS && users > 0 &&
           !atomic_compare_exchange_weak(&primary->users, &users, all ? 0 : users - 1))
        ;
    if (result == CUDA_SUCCESS && !active(leaving->ordinal))
        primary_gone(leaving);
    else if (leaving->ends)
        weir_context_stays(leaving->context);
    return result;
}

#define LET_GO(symbol, all)                                                                                  \
    CUresult symbol(CUdevice ordinal)                                                                        \
    {                                                                                                        \
        struct leaving leaving = before_release(ordinal, all);                                               \
        return after_release(WEIR_CALL(symbol, ordinal), &leaving, all);                                     \
    }

LET_GO(cuDevicePrimaryCtxRelease, false)
LET_GO(cuDevicePrimaryCtxRelease_v2, false)
LET_GO(cuDevicePrimaryCtxReset, true)
LET_GO(cuDevicePrimaryCtxReset_v2, true)

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
    if (weir_inside || !weir_object_take(WEIR_TAG_GREEN, (uintptr_t)green, &object))
        return WEIR_CALL(cuGreenCtxDestroy, green);
    bool named = weir_object_take(WEIR_TAG_PART, (uintptr_t)object.context, &part);
    if (named)
        weir_pacing_forget_context(object.context, true);
    struct leaving leaving = before_release((CUdevice)object.link, false);
    CUresult result = after_release(WEIR_CALL(cuGreenCtxDestroy, green), &leaving, false);
    if (result != CUDA_SUCCESS && named)
        weir_keep(WEIR_TAG_PART, (uintptr_t)object.context, &part);
    if (result != CUDA_SUCCESS)
        weir_keep(WEIR_TAG_GREEN, (uintptr_t)green, &object);
    return result;
}
