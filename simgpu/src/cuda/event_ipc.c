/*
 * Events of one process opened in another (cuIpc…EventHandle).
 *
 * Events live in the machine, so a handle is the slot and the serial number of what is in it; whoever opened it
 * records and waits as its maker does. Nothing is counted: once the maker has destroyed it or died, it is an
 * invalid handle everywhere. What it does not do: keep an event alive for its importers.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "objects.h"

#define MARK 0x53455649u

struct handle { /* lies in a CUipcEventHandle */
    uint32_t mark;
    uint32_t event, device;
    uint64_t serial;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "the handle must fit");

static bool alive(uint32_t event, uint64_t serial)
{
    sim_lock();
    const struct sim_event *slot = &sim_machine->events[event];
    bool same = slot->in_use && !slot->destroyed && slot->serial == serial;
    sim_unlock();
    return same;
}

CUresult sim_event_imported(const struct sim_recorder *recorder)
{
    return alive(recorder->event, recorder->imported) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    struct sim_recorder *recorder;
    CUresult result = sim_enter_event(__func__, event, &recorder);
    if (result || !handle)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (!(recorder->flags & CU_EVENT_INTERPROCESS) || recorder->imported)
        return CUDA_ERROR_INVALID_HANDLE;
    struct handle contents = {.mark = MARK, .event = recorder->event, .device = recorder->context->device};
    sim_lock();
    contents.serial = sim_machine->events[recorder->event].serial;
    sim_unlock();
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &contents, sizeof(contents));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    struct sim_context *context;
    struct handle contents;
    CUresult result = sim_enter_context(__func__, &context);
    memcpy(&contents, &handle, sizeof(contents));
    if (result || !event)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (contents.mark != MARK || contents.event >= SIM_EVENTS || contents.device != context->device ||
        !alive(contents.event, contents.serial))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_recorder *recorder = calloc(1, sizeof(*recorder));
    if (!recorder)
        return CUDA_ERROR_OUT_OF_MEMORY;
    recorder->magic = SIM_EVENT_MAGIC;
    recorder->event = contents.event;
    recorder->context = context;
    recorder->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    recorder->imported = contents.serial;
    *event = (CUevent)recorder;
    return CUDA_SUCCESS;
}
