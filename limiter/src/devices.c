/*
 * Which of the slice's devices a CUDA device is. Ordinals depend on CUDA_VISIBLE_DEVICES and say nothing; the
 * UUID does. The answer for an ordinal never changes while the process lives, so it is kept.
 *
 * A process that sees one card, which is the slice's only one, is not asked for its current context at all.
 */
#include <string.h>

#include "hooks.h"
#include "internal.h"
#include "slice.h"

#define ORDINALS 64
#define UNKNOWN 0 /* kept values are device + KEPT */
#define KEPT 3

static _Atomic int kept[ORDINALS];
static _Atomic int sole; /* 0 not known, 1 yes, 2 no */

void weir_devices_forget(void)
{
    for (int ordinal = 0; ordinal < ORDINALS; ordinal++)
        atomic_store(&kept[ordinal], UNKNOWN);
    atomic_store(&sole, 0);
}

int weir_device_of_uuid(const struct weir_slice *slice, const uint8_t uuid[16])
{
    for (uint32_t device = 0; device < slice->device_count; device++) {
        struct weir_control_device control;
        weir_control_read(slice, device, &control, NULL);
        if (memcmp(control.uuid, uuid, sizeof control.uuid) == 0)
            return (int)device;
    }
    return WEIR_OTHER_DEVICE;
}

static CUresult uuid_of(CUdevice ordinal, CUuuid *uuid)
{
    if (weir_has_real(WEIR_ID_cuDeviceGetUuid_v2)) /* a MIG instance has its own */
        return WEIR_REAL(cuDeviceGetUuid_v2)(uuid, ordinal);
    return WEIR_REAL(cuDeviceGetUuid)(uuid, ordinal);
}

int weir_device_of(int ordinal)
{
    const struct weir_slice *slice = weir_slice();
    if (!slice)
        return WEIR_NO_DEVICE;
    bool keepable = ordinal >= 0 && ordinal < ORDINALS;
    int known = keepable ? atomic_load_explicit(&kept[ordinal], memory_order_relaxed) : UNKNOWN;
    if (known != UNKNOWN)
        return known - KEPT;
    CUuuid uuid;
    if (uuid_of(ordinal, &uuid) != CUDA_SUCCESS)
        return WEIR_NO_DEVICE;
    int device = weir_device_of_uuid(slice, (const uint8_t *)uuid.bytes);
    if (keepable)
        atomic_store_explicit(&kept[ordinal], device + KEPT, memory_order_relaxed);
    return device;
}

static bool only_one(const struct weir_slice *slice)
{
    int known = atomic_load_explicit(&sole, memory_order_relaxed);
    int count = 0;
    if (known)
        return known == 1;
    if (WEIR_REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
        return false; /* cuInit has not been called yet */
    bool yes = count == 1 && slice->device_count == 1 && weir_device_of(0) == 0;
    atomic_store_explicit(&sole, yes ? 1 : 2, memory_order_relaxed);
    return yes;
}

int weir_current_device(void)
{
    const struct weir_slice *slice = weir_slice();
    CUdevice ordinal;
    if (!slice)
        return WEIR_NO_DEVICE;
    if (only_one(slice))
        return 0;
    return WEIR_REAL(cuCtxGetDevice)(&ordinal) == CUDA_SUCCESS ? weir_device_of(ordinal) : WEIR_NO_DEVICE;
}
