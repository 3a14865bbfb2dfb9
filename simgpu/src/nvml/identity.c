/*
 * Which cards there are and what each is: handles, names, numbers, places. Nothing here changes while the
 * machine stands, so what depends on load is elsewhere (memory.c, activity.c).
 */
#include "library.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void uuid_text(char text[48], const char *prefix, const uint8_t uuid[16]) {
    int length = snprintf(text, 48, "%s", prefix);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[length++] = '-';
        length += snprintf(text + length, 48 - (size_t)length, "%02x", uuid[i]);
    }
}

static void uuid_of(const struct nvml_handle *at, char text[48]) {
    const struct sim_device *card = &sim_machine->devices[at->device];
    if (at->mig == NVML_WHOLE_CARD)
        uuid_text(text, "GPU-", card->uuid);
    else
        uuid_text(text, "MIG-", card->mig[at->mig].uuid);
}

/* Boards have no printed serial number here: theirs is made of the card's UUID, so it is stable and unique. */
static void serial_of(uint32_t device, char text[32]) {
    const uint8_t *uuid = sim_machine->devices[device].uuid;
    unsigned int number = (unsigned int)(uuid[0] << 24 | uuid[1] << 16 | uuid[2] << 8 | uuid[3]);
    snprintf(text, 32, "165%010u", number);
}

/* ---- handles ---- */

static nvmlReturn_t count(const char *function, unsigned int *number) {
    nvmlReturn_t result = nvml_ready(function);
    if (result == NVML_SUCCESS && !number)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *number = sim_machine->device_count;
    return result;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *number) {
    return count(__func__, number);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *number) {
    return count(__func__, number);
}

static nvmlReturn_t give(uint32_t index, nvmlDevice_t *device) {
    if (sim_device_lost(index))
        return NVML_ERROR_GPU_IS_LOST;
    *device = nvml_handle_of(index, NVML_WHOLE_CARD);
    return NVML_SUCCESS;
}

static nvmlReturn_t by_index(const char *function, unsigned int index, nvmlDevice_t *device) {
    nvmlReturn_t result = nvml_ready(function);
    if (result != NVML_SUCCESS)
        return result;
    if (!device || index >= sim_machine->device_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return by_index(__func__, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    return by_index(__func__, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    nvmlReturn_t result = nvml_ready(__func__);
    if (result != NVML_SUCCESS)
        return result;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t card = 0; card < sim_machine->device_count; card++)
        for (int32_t mig = NVML_WHOLE_CARD; mig < SIM_MIG_SLICES; mig++) {
            char text[48];
            struct nvml_handle at = {card, mig};
            if (mig != NVML_WHOLE_CARD && !sim_machine->devices[card].mig[mig].in_use)
                continue;
            uuid_of(&at, text);
            if (strcasecmp(text, uuid) != 0)
                continue;
            *device = nvml_handle_of(card, mig);
            return sim_device_lost(card) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    nvmlReturn_t result = nvml_ready(__func__);
    if (result != NVML_SUCCESS)
        return result;
    if (!serial || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t card = 0; card < sim_machine->device_count; card++) {
        char text[32];
        serial_of(card, text);
        if (strcmp(text, serial) == 0)
            return give(card, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t by_bus(const char *function, const char *bus, nvmlDevice_t *device) {
    unsigned int domain, number, slot;
    nvmlReturn_t result = nvml_ready(function);
    if (result != NVML_SUCCESS)
        return result;
    if (!bus || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(bus, "%x:%x:%x", &domain, &number, &slot) != 3) {
        domain = 0;
        if (sscanf(bus, "%x:%x", &number, &slot) != 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t card = 0; card < sim_machine->device_count; card++) {
        const struct sim_device *at = &sim_machine->devices[card];
        if (at->pci_domain == domain && at->pci_bus == number && at->pci_device == slot)
            return give(card, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device) {
    return by_bus(__func__, bus, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
    return by_bus(__func__, bus, device);
}

/* ---- names and numbers ---- */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    return result == NVML_SUCCESS ? nvml_text(name, length, sim_hardware->name) : result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    char text[48];
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    uuid_of(at, text);
    return nvml_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length) {
    char text[32];
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    serial_of(at->device, text);
    return nvml_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    return result == NVML_SUCCESS ? nvml_text(version, length, "00.00.00.00.00") : result;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && (!major || !minor))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        *major = (int)sim_hardware->compute_major;
        *minor = (int)sim_hardware->compute_minor;
    }
    return result;
}

NVML_VALUE(nvmlDeviceGetIndex, unsigned int, at->mig == NVML_WHOLE_CARD ? at->device : (uint32_t)at->mig)
NVML_VALUE(nvmlDeviceGetMinorNumber, unsigned int, at->device)
NVML_VALUE(nvmlDeviceGetModuleId, unsigned int, at->device)
NVML_VALUE(nvmlDeviceGetBoardId, unsigned int, card->pci_bus << 8)
NVML_VALUE(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
NVML_VALUE(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, sim_hardware->nvml_architecture)
NVML_VALUE(nvmlDeviceGetNumGpuCores, unsigned int,
           sim_hardware->multiprocessors *sim_hardware->cores_per_multiprocessor)
NVML_VALUE(nvmlDeviceGetMemoryBusWidth, unsigned int, sim_hardware->memory_bus_bits)
NVML_VALUE(nvmlDeviceGetBrand, nvmlBrandType_t, NVML_BRAND_NVIDIA)
NVML_VALUE(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)
NVML_VALUE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NVML_VALUE(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
NVML_VALUE(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, sim_hardware->pcie_generation)
NVML_VALUE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, sim_hardware->pcie_generation)
NVML_VALUE(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, sim_hardware->pcie_width)
NVML_VALUE(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, sim_hardware->pcie_width)

/* ---- the bus ---- */

static void fill_pci(const struct sim_device *card, nvmlPciInfo_t *pci) {
    *pci = (nvmlPciInfo_t){.domain = card->pci_domain, .bus = card->pci_bus, .device = card->pci_device,
                           .pciDeviceId = sim_hardware->pci_device_id,
                           .pciSubSystemId = sim_hardware->pci_subsystem_id};
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
             card->pci_domain & 0xffff, card->pci_bus & 0xff, card->pci_device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, card->pci_domain, card->pci_bus,
             card->pci_device);
}

/* The first two versions of the struct end before busId: `size` is how much the caller has room for. */
static nvmlReturn_t pci_info(const char *function, nvmlDevice_t device, nvmlPciInfo_t *pci, size_t size) {
    nvmlPciInfo_t whole;
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result == NVML_SUCCESS && !pci)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    fill_pci(&sim_machine->devices[at->device], &whole);
    memcpy(pci, &whole, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    return pci_info(__func__, device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    return pci_info(__func__, device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    return pci_info(__func__, device, pci, sizeof *pci);
}
