/*
 * cuInit, which cards this process sees, and the check at the top of every entry point.
 *
 * CUDA_VISIBLE_DEVICES is read once, at cuInit, as the driver does: indices or UUIDs (a prefix will do), up to
 * the first that is unknown. A fork's child of an initialised process gets CUDA_ERROR_NOT_INITIALIZED for ever.
 * What it does not do: make a context; nothing is charged before one exists.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static pthread_mutex_t initialising = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool initialised;
static uint32_t visible[SIM_DEVICES];
static int visible_count;

static void format_uuid(char text[41], const uint8_t uuid[16])
{
    char *out = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        out += sprintf(out, "%02x", uuid[i]);
    }
}

/* The card that one entry of the list names, or SIM_NONE. */
static uint32_t named_device(const char *entry, size_t length)
{
    char *end, uuid[41];
    unsigned long index = strtoul(entry, &end, 10);
    if (length > 0 && end == entry + length)
        return index < sim_machine->device_count ? (uint32_t)index : SIM_NONE;
    for (uint32_t d = 0; d < sim_machine->device_count; d++) {
        format_uuid(uuid, sim_machine->devices[d].uuid);
        if (length > 4 && length <= 40 && strncmp(uuid, entry, length) == 0)
            return d;
    }
    return SIM_NONE;
}

static bool already_visible(uint32_t device)
{
    for (int i = 0; i < visible_count; i++)
        if (visible[i] == device)
            return true;
    return false;
}

static void read_visible_devices(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!list) {
        for (uint32_t d = 0; d < sim_machine->device_count; d++)
            visible[visible_count++] = d;
        return;
    }
    while (*list) {
        size_t length = strcspn(list, ",");
        uint32_t device = named_device(list, length);
        if (device == SIM_NONE)
            return;
        if (already_visible(device)) {
            visible_count = 0; /* a card named twice: the driver shows none */
            return;
        }
        visible[visible_count++] = device;
        list += length + (list[length] == ',');
    }
}

static CUresult initialise(void)
{
    int error = sim_attach(SIM_CLIENT);
    if (error == -ECHILD)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (error)
        return error == -EAGAIN ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
    read_visible_devices();
    if (visible_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    initialised = true;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_forked())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&initialising);
    CUresult result = initialised ? CUDA_SUCCESS : initialise();
    pthread_mutex_unlock(&initialising);
    return result ? result : (CUresult)sim_fault(__func__);
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult sim_enter(const char *function)
{
    if (!initialised || !sim_attached())
        return CUDA_ERROR_NOT_INITIALIZED;
    return (CUresult)sim_fault(function);
}

CUresult sim_enter_context(const char *function, struct sim_context **context)
{
    CUresult result = sim_enter(function);
    if (result)
        return result;
    *context = sim_current();
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if ((*context)->destroyed)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return sim_device_lost((*context)->device) ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

CUresult sim_device_resolve(CUdevice ordinal, uint32_t *device)
{
    if (ordinal < 0 || ordinal >= visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = visible[ordinal];
    return CUDA_SUCCESS;
}

CUdevice sim_device_ordinal(uint32_t device)
{
    for (int i = 0; i < visible_count; i++)
        if (visible[i] == device)
            return i;
    return -1;
}

int sim_device_visible_count(void)
{
    return visible_count;
}
