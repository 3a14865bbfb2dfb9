/*
 * How cards are linked, whether they are healthy, and what they are cut into.
 *
 * The cards of a machine with NVLink hang on one switch, each by all its links; cards without meet at a PCIe
 * host bridge. All are near the same CPU socket. ECC is on where the model has it and has never corrected
 * anything. MIG devices are topology: they can be found, named and measured by size, and are made with the
 * machine, not at run time.
 */
#include "library.h"

#include <stddef.h>
#include <stdio.h>

#define MIG_MEMORY_SLICES 8

/* ---- pairs of cards ---- */

static nvmlReturn_t open_pair(const char *function, nvmlDevice_t one, nvmlDevice_t two, const void *out,
                              bool *same) {
    const struct nvml_handle *first, *second;
    nvmlReturn_t result = nvml_open(function, one, &first);
    if (result == NVML_SUCCESS)
        result = nvml_open(function, two, &second);
    if (result == NVML_SUCCESS && !out)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *same = first->device == second->device;
    return result;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two,
                                                 nvmlGpuTopologyLevel_t *level) {
    bool same;
    nvmlReturn_t result = open_pair(__func__, one, two, level, &same);
    if (result == NVML_SUCCESS)
        *level = same ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE;
    return result;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, nvmlGpuP2PCapsIndex_t capability,
                                    nvmlGpuP2PStatus_t *status) {
    bool same, linked;
    nvmlReturn_t result = open_pair(__func__, one, two, status, &same);
    if (result != NVML_SUCCESS)
        return result;
    linked = sim_hardware->nvlinks > 0;
    if (capability == NVML_P2P_CAPS_INDEX_PCI)
        linked = !linked;
    *status = linked && !same ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t two, int *on_same_board) {
    bool same;
    nvmlReturn_t result = open_pair(__func__, one, two, on_same_board, &same);
    if (result == NVML_SUCCESS)
        *on_same_board = same;
    return result;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                              unsigned int *count, nvmlDevice_t *nearest) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !count)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = nearest ? *count : 0;
    *count = 0;
    for (uint32_t other = 0; level == NVML_TOPOLOGY_HOSTBRIDGE && other < sim_machine->device_count; other++) {
        if (other == at->device)
            continue;
        if (*count < room)
            nearest[*count] = nvml_handle_of(other, NVML_WHOLE_CARD);
        ++*count;
    }
    return nearest && *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* ---- links ---- */

static nvmlReturn_t open_link(const char *function, nvmlDevice_t device, unsigned int link, const void *out) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    if (sim_hardware->nvlinks == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return out && link < sim_hardware->nvlinks ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active) {
    nvmlReturn_t result = open_link(__func__, device, link, active);
    if (result == NVML_SUCCESS)
        *active = NVML_FEATURE_ENABLED;
    return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version) {
    nvmlReturn_t result = open_link(__func__, device, link, version);
    if (result == NVML_SUCCESS)
        *version = sim_hardware->nvlink_version;
    return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                           nvmlNvLinkCapability_t capability, unsigned int *has) {
    nvmlReturn_t result = open_link(__func__, device, link, has);
    if (result == NVML_SUCCESS)
        *has = capability != NVML_NVLINK_CAP_SLI_BRIDGE;
    return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *type) {
    nvmlReturn_t result = open_link(__func__, device, link, type);
    if (result == NVML_SUCCESS)
        *type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return result;
}

#define SWITCH_BUS 5 /* in front of all cards */
#define SWITCH_ID 0x22a310de

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
    nvmlReturn_t result = open_link(__func__, device, link, pci);
    if (result != NVML_SUCCESS)
        return result;
    *pci = (nvmlPciInfo_t){.bus = SWITCH_BUS, .pciDeviceId = SWITCH_ID};
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, 0, SWITCH_BUS, 0);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, 0, SWITCH_BUS, 0);
    return NVML_SUCCESS;
}

/* ---- ECC ---- */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_hardware->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long *errors) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    (void)type;
    (void)counter;
    if (result == NVML_SUCCESS && !errors)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && !sim_hardware->ecc)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *errors = 0;
    return result;
}

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_hardware->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = sim_machine->devices[at->device].mig_mode;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    if (!mig || index >= SIM_MIG_SLICES || at->mig != NVML_WHOLE_CARD)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_machine->devices[at->device].mig[index].in_use)
        return NVML_ERROR_NOT_FOUND;
    *mig = nvml_handle_of(at->device, (int32_t)index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, mig, &at);
    if (result == NVML_SUCCESS && (!device || at->mig == NVML_WHOLE_CARD))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *device = nvml_handle_of(at->device, NVML_WHOLE_CARD);
    return result;
}

static nvmlReturn_t open_mig(const char *function, nvmlDevice_t device, const void *out,
                             const struct sim_mig **mig) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result == NVML_SUCCESS && (!out || at->mig == NVML_WHOLE_CARD))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *mig = &sim_machine->devices[at->device].mig[at->mig];
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    const struct sim_mig *mig;
    nvmlReturn_t result = open_mig(__func__, device, id, &mig);
    if (result == NVML_SUCCESS)
        *id = mig->gpu_instance;
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
    const struct sim_mig *mig;
    nvmlReturn_t result = open_mig(__func__, device, id, &mig);
    if (result == NVML_SUCCESS)
        *id = mig->compute_instance;
    return result;
}

NVML_VALUE(nvmlDeviceIsMigDeviceHandle, unsigned int, at->mig != NVML_WHOLE_CARD)
NVML_VALUE(nvmlDeviceGetMaxMigDeviceCount, unsigned int, card->mig_mode ? SIM_MIG_SLICES : 0)

/* An eighth of the card in whole pairs: 16 of an H200's 132, 14 of an A100's 108. */
static unsigned int multiprocessors_of_slice(void) {
    return (sim_hardware->multiprocessors + 8) / 16 * 2;
}

static nvmlReturn_t attributes_of(const char *function, nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    const struct sim_mig *mig;
    nvmlReturn_t result = open_mig(function, device, attributes, &mig);
    if (result != NVML_SUCCESS)
        return result;
    uint64_t usable = sim_hardware->total_bytes - sim_hardware->reserved_bytes;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = multiprocessors_of_slice() * mig->compute_slices,
        .sharedCopyEngineCount = mig->compute_slices,
        .gpuInstanceSliceCount = mig->compute_slices,
        .computeInstanceSliceCount = mig->compute_slices,
        .memorySizeMB = usable / MIG_MEMORY_SLICES * mig->memory_slices / SIM_MIB,
    };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    return attributes_of(__func__, device, attributes);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    return attributes_of(__func__, device, attributes);
}
