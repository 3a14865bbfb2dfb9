/*
 * Questions about memory are answered with the slice's numbers: total is the limit, free is what may still be
 * charged. Both stay within the card's own, free never wraps below 0 when the limit was lowered, and a device
 * without a limit, or outside the slice, gets the card's own answer. Output pointers may be NULL.
 *
 * The driver needs microseconds to say what is free on the card, and of the answer only this is its own. So the agent
 * looks once a second and puts into the page how much the slice could hold if it took all of that: what the slice
 * itself takes and gives back does not change it. While that figure is fresh no driver is asked for more than
 * whether the call is a valid one; without an agent the driver is asked for the rest. That a kernel failed earlier,
 * which the driver may say at any call, shows at the next that works or waits.
 */
#include <string.h>

#include "account.h"
#include "ledger.h"
#include "physical.h"
#include "pools.h"

#define REAP_NS UINT64_C(100000000) /* questions look no more often for what the dead held */

struct view {
    uint64_t total;
    uint64_t free; /* less than total − used where the card itself is fuller than the slice */
    uint64_t used;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What the dead held, and what siblings have let go, is free already: nobody has to run out of memory first. */
static void reap(const struct weir_slice *slice, uint64_t now)
{
    static _Atomic uint64_t next;
    uint64_t due = atomic_load_explicit(&next, memory_order_relaxed);
    if (now < due || !atomic_compare_exchange_strong(&next, &due, now + REAP_NS))
        return;
    weir_reap(slice);
    weir_physical_refresh();
}

/* The control fields of a card that has a limit; false: the card's own answer stands. */
static bool limited(int device, struct weir_control_device *control, uint64_t now)
{
    const struct weir_slice *slice = weir_slice();
    if (!slice || device < 0)
        return false;
    weir_control_read(slice, (uint32_t)device, control, NULL);
    return weir_memory_size(control, now) != WEIR_NO_LIMIT;
}

/* The slice's view of a card of `card_total` bytes, of which it would hold `room` if it took all that is free. */
static struct view view_of(const struct weir_control_device *control, uint64_t now, uint64_t used,
                           uint64_t card_total, uint64_t room)
{
    struct view view = {.total = smaller(weir_memory_size(control, now), card_total)};
    uint64_t left = beyond(smaller(weir_memory_chargeable(control, now), view.total), used);
    view.free = smaller(left, beyond(room, used));
    view.used = view.total - left;
    return view;
}

static uint64_t used_by_living(int device, uint64_t now)
{
    const struct weir_slice *slice = weir_slice();
    reap(slice, now);
    return weir_ledger_used(slice, (uint32_t)device);
}

/* The view as the pages alone give it; false: the driver has to be asked. */
static bool paged_view(int device, struct view *view)
{
    struct weir_control_device control;
    uint64_t now = weir_coarse_now();
    if (!limited(device, &control, now) || !weir_in_force(control.card_deadline, now))
        return false;
    *view = view_of(&control, now, used_by_living(device, now), control.card_total, control.card_room);
    return true;
}

/* The view of a card that has been asked; false: its own answer stands. */
static bool asked_view(int device, uint64_t card_total, uint64_t card_free, struct view *view)
{
    struct weir_control_device control;
    uint64_t now = weir_coarse_now();
    if (!limited(device, &control, now))
        return false;
    uint64_t used = used_by_living(device, now);
    *view = view_of(&control, now, used, card_total, card_free + used);
    return true;
}

/* The current context's device, asked even where there is only one: without a context there is no answer. */
static int device_of_context(void)
{
    CUdevice ordinal;
    return WEIR_REAL(cuCtxGetDevice)(&ordinal) == CUDA_SUCCESS ? weir_device_of(ordinal) : WEIR_NO_DEVICE;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    size_t card_free = 0, card_total = 0;
    struct view view;
    if (weir_inside || !weir_slice())
        return WEIR_REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    int device = device_of_context();
    weir_pools_refresh();
    if (!paged_view(device, &view)) {
        CUresult result = WEIR_CALL(cuMemGetInfo_v2, &card_free, &card_total);
        if (result != CUDA_SUCCESS)
            return result;
        if (!asked_view(device, card_total, card_free, &view))
            view = (struct view){.total = card_total, .free = card_free};
    }
    if (free_bytes)
        *free_bytes = view.free;
    if (total_bytes)
        *total_bytes = view.total;
    return CUDA_SUCCESS;
}

/* The first version counts in 32 bits. */
CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
    size_t wide_free = 0, wide_total = 0;
    if (weir_inside || !weir_slice())
        return WEIR_REAL(cuMemGetInfo)(free_bytes, total_bytes);
    CUresult result = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (result == CUDA_SUCCESS && free_bytes)
        *free_bytes = (unsigned int)smaller(wide_free, UINT32_MAX);
    if (result == CUDA_SUCCESS && total_bytes)
        *total_bytes = (unsigned int)smaller(wide_total, UINT32_MAX);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
    struct weir_control_device control;
    uint64_t now = weir_coarse_now();
    CUresult result = WEIR_CALL(cuDeviceTotalMem_v2, bytes, ordinal);
    if (!weir_inside && bytes && result == CUDA_SUCCESS && limited(weir_device_of(ordinal), &control, now))
        *bytes = smaller(weir_memory_size(&control, now), *bytes);
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice ordinal)
{
    size_t wide = 0;
    if (weir_inside || !weir_slice() || !bytes)
        return WEIR_REAL(cuDeviceTotalMem)(bytes, ordinal);
    CUresult result = cuDeviceTotalMem_v2(&wide, ordinal);
    if (result == CUDA_SUCCESS)
        *bytes = (unsigned int)smaller(wide, UINT32_MAX);
    return result;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* NVML writes a UUID as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or MIG-… */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    int digits = 0;
    for (text += strcspn(text, "-"); *text && digits < 32; text++) {
        int value = digit(*text);
        if (value < 0 && *text != '-')
            return false;
        if (value >= 0) {
            uuid[digits / 2] = (uint8_t)(digits % 2 ? uuid[digits / 2] << 4 | value : value);
            digits++;
        }
    }
    return digits == 32;
}

static int device_of_nvml(nvmlDevice_t device)
{
    char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
    uint8_t uuid[16];
    const struct weir_slice *slice = weir_slice();
    if (!slice || WEIR_REAL(nvmlDeviceGetUUID)(device, text, sizeof text) != NVML_SUCCESS)
        return WEIR_NO_DEVICE;
    return parse_uuid(text, uuid) ? weir_device_of_uuid(slice, uuid) : WEIR_OTHER_DEVICE;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct view view;
    if (weir_inside || !memory)
        return WEIR_REAL(nvmlDeviceGetMemoryInfo)(device, memory);
    int index = device_of_nvml(device);
    if (!paged_view(index, &view)) {
        nvmlReturn_t result = WEIR_CALL(nvmlDeviceGetMemoryInfo, device, memory);
        if (result != NVML_SUCCESS || !asked_view(index, memory->total, memory->free, &view))
            return result;
    }
    memory->total = view.total;
    memory->free = view.free;
    memory->used = view.used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct view view;
    if (weir_inside || !memory || memory->version != nvmlMemory_v2)
        return WEIR_REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    int index = device_of_nvml(device);
    if (!paged_view(index, &view)) {
        nvmlReturn_t result = WEIR_CALL(nvmlDeviceGetMemoryInfo_v2, device, memory);
        if (result != NVML_SUCCESS || !asked_view(index, memory->total, memory->free, &view))
            return result;
    }
    memory->total = view.total;
    memory->free = view.free;
    memory->reserved = 0; /* the driver's own part is the card's, not the slice's */
    memory->used = view.used;
    return NVML_SUCCESS;
}
