/*
 * Questions about memory are answered with the slice's numbers: total is the limit, free is what may still be
 * charged. Both stay within the card's own, free never wraps below 0 when the limit was lowered, and a device
 * without a limit, or outside the slice, gets the card's own answer. Output pointers may be NULL.
 */
#include <string.h>

#include "account.h"
#include "ledger.h"
#include "pools.h"

struct view {
    uint64_t total;
    uint64_t free; /* less than total − used where the card itself is fuller than the slice */
    uint64_t used;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The slice's view of a card; false: the card's own answer stands. */
static bool view_of(int device, uint64_t card_total, uint64_t card_free, struct view *view)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_control_device control;
    if (!slice || device < 0)
        return false;
    uint64_t limit = weir_memory_limit(slice, (uint32_t)device); /* less what is held but not accounted for */
    if (limit == WEIR_NO_LIMIT)
        return false;
    weir_reap(slice); /* what the dead held is free already: nobody has to run out of memory first */
    weir_control_read(slice, (uint32_t)device, &control, NULL);
    uint64_t total = control.memory_limit;
    if (weir_in_force(control.lease_deadline, weir_coarse_now()))
        total = smaller(total, control.lease_memory_limit);
    uint64_t used = weir_ledger_used(slice, (uint32_t)device);
    view->total = smaller(total, card_total);
    limit = smaller(limit, view->total);
    uint64_t left = limit > used ? limit - used : 0;
    view->free = smaller(left, card_free);
    view->used = view->total - left;
    return true;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    size_t card_free = 0, card_total = 0;
    struct view view;
    CUresult result = WEIR_CALL(cuMemGetInfo_v2, &card_free, &card_total);
    if (result != CUDA_SUCCESS)
        return result;
    weir_pools_refresh();
    bool ours = !weir_inside && view_of(weir_current_device(), card_total, card_free, &view);
    if (free_bytes)
        *free_bytes = ours ? view.free : card_free;
    if (total_bytes)
        *total_bytes = ours ? view.total : card_total;
    return result;
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
    size_t card_total = 0;
    struct view view;
    CUresult result = WEIR_CALL(cuDeviceTotalMem_v2, &card_total, ordinal);
    if (result != CUDA_SUCCESS || !bytes)
        return bytes ? result : WEIR_REAL(cuDeviceTotalMem_v2)(bytes, ordinal);
    bool ours = !weir_inside && view_of(weir_device_of(ordinal), card_total, 0, &view);
    *bytes = ours ? view.total : card_total;
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
    nvmlReturn_t result = WEIR_CALL(nvmlDeviceGetMemoryInfo, device, memory);
    if (weir_inside || result != NVML_SUCCESS || !memory)
        return result;
    if (view_of(device_of_nvml(device), memory->total, memory->free, &view)) {
        memory->total = view.total;
        memory->free = view.free;
        memory->used = view.used;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct view view;
    nvmlReturn_t result = WEIR_CALL(nvmlDeviceGetMemoryInfo_v2, device, memory);
    if (weir_inside || result != NVML_SUCCESS || !memory)
        return result;
    if (view_of(device_of_nvml(device), memory->total, memory->free, &view)) {
        memory->total = view.total;
        memory->free = view.free;
        memory->reserved = 0; /* the driver's own part is the card's, not the slice's */
        memory->used = view.used;
    }
    return result;
}
