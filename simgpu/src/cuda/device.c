/*
 * Questions about a card that its model or its place in the machine answers: names, UUID, bus, links.
 *
 * They need cuInit but no context. Attributes are in attributes.c, memory is not here at all. Cards of one
 * machine are linked to each other: by NVLink where the model has it, otherwise by PCIe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    CUresult result = sim_enter(__func__);
    if (result || !count)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_visible_count();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    uint32_t index;
    CUresult result = sim_enter(__func__);
    if (result || !device)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_device_resolve(ordinal, &index);
    if (!result)
        *device = ordinal;
    return result;
}

/* The checks all questions about one card begin with. */
static CUresult ask(const char *function, const void *answer, CUdevice ordinal, struct sim_device **device)
{
    uint32_t index = 0;
    CUresult result = sim_enter(function);
    if (!result && !answer)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_device_resolve(ordinal, &index);
    *device = result ? NULL : &sim_machine->devices[index];
    return result;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, name, ordinal, &device);
    if (result || length <= 0)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", sim_hardware->name);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, uuid, ordinal, &device);
    if (!result)
        memcpy(uuid->bytes, device->uuid, sizeof(device->uuid));
    return result;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal)
{
    return cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult CUDAAPI cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, luid && mask ? luid : NULL, ordinal, &device);
    return result ? result : CUDA_ERROR_NOT_SUPPORTED; /* Windows only */
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, id, ordinal, &device);
    if (result || length <= 12)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)length, "%04X:%02X:%02X.0", device->pci_domain, device->pci_bus, device->pci_device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *ordinal, const char *id)
{
    CUresult result = sim_enter(__func__);
    if (result || !ordinal || !id)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    unsigned domain = 0, bus, device;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(id, "%x:%x", &bus, &device) != 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < sim_device_visible_count(); i++) {
        uint32_t index = 0;
        sim_device_resolve(i, &index);
        const struct sim_device *card = &sim_machine->devices[index];
        if (card->pci_domain == domain && card->pci_bus == bus && card->pci_device == device) {
            *ordinal = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, major && minor ? major : NULL, ordinal, &device);
    if (result)
        return result;
    *major = (int)sim_hardware->compute_major;
    *minor = (int)sim_hardware->compute_minor;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *properties, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, properties, ordinal, &device);
    if (result)
        return result;
    *properties = (CUdevprop){
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .sharedMemPerBlock = 49152,
        .totalConstantMemory = 65536,
        .SIMDWidth = 32,
        .memPitch = 2147483647,
        .regsPerBlock = (int)sim_hardware->registers_per_multiprocessor,
        .clockRate = (int)sim_hardware->sm_clock_max * 1000,
        .textureAlign = 512,
    };
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels,
                                                    CUdevice ordinal)
{
    struct sim_device *device;
    (void)format;
    CUresult result = ask(__func__, width, ordinal, &device);
    if (result || channels == 0)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *width = (size_t)1 << 28;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult result = ask(__func__, supported, ordinal, &device);
    if (result || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *supported = 0; /* needs MPS */
    return CUDA_SUCCESS;
}

/* ---- links ---- */

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer)
{
    struct sim_device *device, *other;
    CUresult result = ask(__func__, can, ordinal, &device);
    if (!result)
        result = ask(__func__, can, peer, &other);
    if (!result)
        *can = device != other;
    return result;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice ordinal,
                                         CUdevice peer)
{
    struct sim_device *device, *other;
    CUresult result = ask(__func__, value, ordinal, &device);
    if (!result)
        result = ask(__func__, value, peer, &other);
    if (result || device == other)
        return result ? result : CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = sim_hardware->nvlinks > 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = sim_hardware->nvlinks == 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult change_peer(const char *function, CUcontext peer, bool enable)
{
    struct sim_context *context, *other;
    CUresult result = sim_enter_context(function, &context);
    if (!result)
        result = peer ? sim_context_resolve(peer, &other) : CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    if (context->device == other->device)
        return CUDA_ERROR_INVALID_DEVICE;
    unsigned bit = 1u << other->ordinal;
    if (((context->peers & bit) != 0) == enable)
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers ^= bit;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : change_peer(__func__, peer, true);
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer)
{
    return change_peer(__func__, peer, false);
}
