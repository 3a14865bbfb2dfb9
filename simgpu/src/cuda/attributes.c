/*
 * cuDeviceGetAttribute: one table from attribute to value.
 *
 * A value is a constant, a field of the machine's model (times a factor), or a field of the card. An attribute
 * that is not in the table but in cuda.h reads 0, which is what the driver says of what a card cannot do.
 */
#include <stddef.h>

#include "driver.h"

enum source { CONSTANT, MODEL, CARD };

struct attribute {
    enum source source;
    int value;     /* or the factor */
    size_t offset; /* of a uint32_t */
};

#define A(name) [CU_DEVICE_ATTRIBUTE_##name]
#define M(field, factor) {MODEL, factor, offsetof(struct sim_model, field)}
#define C(field) {CARD, 1, offsetof(struct sim_device, field)}
#define TEXTURE 131072

static const struct attribute attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
    /* limits of a launch */
    A(MAX_THREADS_PER_BLOCK) = {CONSTANT, 1024, 0},
    A(MAX_BLOCK_DIM_X) = {CONSTANT, 1024, 0},
    A(MAX_BLOCK_DIM_Y) = {CONSTANT, 1024, 0},
    A(MAX_BLOCK_DIM_Z) = {CONSTANT, 64, 0},
    A(MAX_GRID_DIM_X) = {CONSTANT, 2147483647, 0},
    A(MAX_GRID_DIM_Y) = {CONSTANT, 65535, 0},
    A(MAX_GRID_DIM_Z) = {CONSTANT, 65535, 0},
    A(MAX_SHARED_MEMORY_PER_BLOCK) = {CONSTANT, 49152, 0},
    A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) = M(shared_per_block_optin, 1),
    A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) = M(shared_per_multiprocessor, 1),
    A(RESERVED_SHARED_MEMORY_PER_BLOCK) = {CONSTANT, 1024, 0},
    A(TOTAL_CONSTANT_MEMORY) = {CONSTANT, 65536, 0},
    A(WARP_SIZE) = {CONSTANT, 32, 0},
    A(MAX_PITCH) = {CONSTANT, 2147483647, 0},
    A(MAX_REGISTERS_PER_BLOCK) = M(registers_per_multiprocessor, 1),
    A(MAX_REGISTERS_PER_MULTIPROCESSOR) = M(registers_per_multiprocessor, 1),
    A(MAX_THREADS_PER_MULTIPROCESSOR) = M(threads_per_multiprocessor, 1),
    A(MAX_BLOCKS_PER_MULTIPROCESSOR) = M(blocks_per_multiprocessor, 1),
    A(MULTIPROCESSOR_COUNT) = M(multiprocessors, 1),
    A(COMPUTE_CAPABILITY_MAJOR) = M(compute_major, 1),
    A(COMPUTE_CAPABILITY_MINOR) = M(compute_minor, 1),
    /* clocks and memory */
    A(CLOCK_RATE) = M(sm_clock_max, 1000),
    A(MEMORY_CLOCK_RATE) = M(memory_clock_max, 1000),
    A(GLOBAL_MEMORY_BUS_WIDTH) = M(memory_bus_bits, 1),
    A(L2_CACHE_SIZE) = M(l2_bytes, 1),
    A(MAX_PERSISTING_L2_CACHE_SIZE) = M(l2_bytes, 1),
    A(MAX_ACCESS_POLICY_WINDOW_SIZE) = {CONSTANT, 134213632, 0},
    A(ECC_ENABLED) = M(ecc, 1),
    A(ASYNC_ENGINE_COUNT) = M(copy_engines, 1),
    A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) = {CONSTANT, 2, 0},
    /* the card's place */
    A(PCI_BUS_ID) = C(pci_bus),
    A(PCI_DEVICE_ID) = C(pci_device),
    A(PCI_DOMAIN_ID) = C(pci_domain),
    A(GPU_PCI_DEVICE_ID) = M(pci_device_id, 1),
    A(GPU_PCI_SUBSYSTEM_ID) = M(pci_subsystem_id, 1),
    A(NUMA_ID) = {CONSTANT, -1, 0},
    A(HOST_NUMA_ID) = {CONSTANT, 0, 0},
    /* textures and surfaces */
    A(TEXTURE_ALIGNMENT) = {CONSTANT, 512, 0},
    A(TEXTURE_PITCH_ALIGNMENT) = {CONSTANT, 32, 0},
    A(SURFACE_ALIGNMENT) = {CONSTANT, 512, 0},
    A(MAXIMUM_TEXTURE1D_WIDTH) = {CONSTANT, TEXTURE, 0},
    A(MAXIMUM_TEXTURE2D_WIDTH) = {CONSTANT, TEXTURE, 0},
    A(MAXIMUM_TEXTURE2D_HEIGHT) = {CONSTANT, TEXTURE / 2, 0},
    A(MAXIMUM_TEXTURE3D_WIDTH) = {CONSTANT, 16384, 0},
    A(MAXIMUM_TEXTURE3D_HEIGHT) = {CONSTANT, 16384, 0},
    A(MAXIMUM_TEXTURE3D_DEPTH) = {CONSTANT, 16384, 0},
    A(MAXIMUM_TEXTURE2D_LAYERED_WIDTH) = {CONSTANT, 32768, 0},
    A(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT) = {CONSTANT, 32768, 0},
    A(MAXIMUM_TEXTURE2D_LAYERED_LAYERS) = {CONSTANT, 2048, 0},
    A(MAXIMUM_TEXTURE1D_LINEAR_WIDTH) = {CONSTANT, 1 << 28, 0},
    A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH) = {CONSTANT, TEXTURE, 0},
    A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) = {CONSTANT, 65000, 0},
    A(MAXIMUM_TEXTURE2D_LINEAR_PITCH) = {CONSTANT, 2097120, 0},
    A(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH) = {CONSTANT, 32768, 0},
    A(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT) = {CONSTANT, 32768, 0},
    A(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH) = {CONSTANT, 32768, 0},
    A(MAXIMUM_SURFACE1D_WIDTH) = {CONSTANT, 32768, 0},
    A(MAXIMUM_SURFACE2D_WIDTH) = {CONSTANT, TEXTURE, 0},
    A(MAXIMUM_SURFACE2D_HEIGHT) = {CONSTANT, TEXTURE / 2, 0},
    A(MAXIMUM_SURFACE3D_WIDTH) = {CONSTANT, 16384, 0},
    A(MAXIMUM_SURFACE3D_HEIGHT) = {CONSTANT, 16384, 0},
    A(MAXIMUM_SURFACE3D_DEPTH) = {CONSTANT, 16384, 0},
    A(CAN_TEX2D_GATHER) = {CONSTANT, 1, 0},
    A(MAXIMUM_TEXTURE2D_GATHER_WIDTH) = {CONSTANT, 32768, 0},
    A(MAXIMUM_TEXTURE2D_GATHER_HEIGHT) = {CONSTANT, 32768, 0},
    /* what it can do */
    A(GPU_OVERLAP) = {CONSTANT, 1, 0},
    A(CAN_MAP_HOST_MEMORY) = {CONSTANT, 1, 0},
    A(CONCURRENT_KERNELS) = {CONSTANT, 1, 0},
    A(UNIFIED_ADDRESSING) = {CONSTANT, 1, 0},
    A(STREAM_PRIORITIES_SUPPORTED) = {CONSTANT, 1, 0},
    A(GLOBAL_L1_CACHE_SUPPORTED) = {CONSTANT, 1, 0},
    A(LOCAL_L1_CACHE_SUPPORTED) = {CONSTANT, 1, 0},
    A(MANAGED_MEMORY) = {CONSTANT, 1, 0},
    A(CONCURRENT_MANAGED_ACCESS) = M(managed_concurrent, 1),
    A(COMPUTE_PREEMPTION_SUPPORTED) = {CONSTANT, 1, 0},
    A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) = {CONSTANT, 1, 0},
    A(COOPERATIVE_LAUNCH) = {CONSTANT, 1, 0},
    A(HOST_REGISTER_SUPPORTED) = {CONSTANT, 1, 0},
    A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) = {CONSTANT, 1, 0},
    A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) = {CONSTANT, 1, 0},
    A(MEMORY_POOLS_SUPPORTED) = {CONSTANT, 1, 0},
    A(MEMPOOL_SUPPORTED_HANDLE_TYPES) = {CONSTANT, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0},
    A(READ_ONLY_HOST_REGISTER_SUPPORTED) = {CONSTANT, 1, 0},
    A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED) = {CONSTANT, 1, 0},
    /* Without the kernel module's NVreg_EnableStreamMemOPs the first versions of these calls are not supported,
     * and their attributes (…_V1) read 0; so does CAN_FLUSH_REMOTE_WRITES. */
    A(CAN_USE_64_BIT_STREAM_MEM_OPS) = {CONSTANT, 1, 0},
    A(CAN_USE_STREAM_WAIT_VALUE_NOR) = {CONSTANT, 1, 0},
    A(IPC_EVENT_SUPPORTED) = {CONSTANT, 1, 0},
    A(UNIFIED_FUNCTION_POINTERS) = {CONSTANT, 1, 0},
};

static CUresult look_up(CUdevice_attribute attribute, uint32_t device, int *value)
{
    const struct attribute *entry = &attributes[attribute];
    const char *base = entry->source == MODEL ? (const char *)sim_hardware
                                              : (const char *)&sim_machine->devices[device];
    if (entry->source == CONSTANT)
        *value = entry->value;
    else
        *value = (int)*(const uint32_t *)(base + entry->offset) * entry->value;
    if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH || attribute == CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED)
        *value = sim_hardware->compute_major >= 9;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal)
{
    uint32_t device = 0;
    CUresult result = sim_enter(__func__);
    if (!result && (!value || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_device_resolve(ordinal, &device);
    return result ? result : look_up(attribute, device, value);
}
