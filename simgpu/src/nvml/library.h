/*
 * What the NVML entry points share: the handles they give out, and the checks each of them begins with.
 *
 * A handle points into a fixed table (card, or MIG device of a card), so a pointer that NVML never gave out
 * is refused and not followed. Every entry point opens its handle first; nvml_open says uninitialised, the
 * injected fault, a bad handle and a lost card, in this order. Entry points look at the machine with the
 * engine's lock held and never keep it while they wait. NVML here only looks: it charges and owns nothing.
 */
#ifndef SIMGPU_NVML_LIBRARY_H
#define SIMGPU_NVML_LIBRARY_H

/* Both the unversioned symbols (the first ABI) and the newest are exported, as the real library does. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

#include "../engine/engine.h"

#define NVML_WHOLE_CARD (-1)

struct nvml_handle {
    uint32_t device;
    int32_t mig; /* place in the card's table of MIG devices, or NVML_WHOLE_CARD */
};

/* The handle behind `device`, or why there is none. `function` is the entry point's name, for faults. */
nvmlReturn_t nvml_open(const char *function, nvmlDevice_t device, const struct nvml_handle **handle);
/* For entry points without a device. */
nvmlReturn_t nvml_ready(const char *function);
nvmlDevice_t nvml_handle_of(uint32_t device, int32_t mig);

/* Copies text into the caller's buffer, or says that it is too small. */
nvmlReturn_t nvml_text(char *buffer, unsigned int length, const char *text);

/*
 * An entry point that writes one value of a card: `at` is the open handle, `card` the card's state, read with
 * the lock held. There is nothing else in it.
 */
#define NVML_VALUE(function, type, expression)                                                                 \
    nvmlReturn_t function(nvmlDevice_t device, type *value) {                                                  \
        const struct nvml_handle *at;                                                                          \
        nvmlReturn_t result = nvml_open(#function, device, &at);                                               \
        if (result == NVML_SUCCESS && !value)                                                                  \
            result = NVML_ERROR_INVALID_ARGUMENT;                                                              \
        if (result == NVML_SUCCESS) {                                                                          \
            uint64_t now = sim_lock();                                                                         \
            const struct sim_device *card = &sim_machine->devices[at->device];                                 \
            (void)now;                                                                                         \
            (void)card;                                                                                        \
            *value = (type)(expression);                                                                       \
            sim_unlock();                                                                                      \
        }                                                                                                      \
        return result;                                                                                         \
    }

#endif
