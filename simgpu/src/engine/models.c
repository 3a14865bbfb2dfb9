/*
 * The machines that can be simulated.
 *
 * h200: memory, context, rounding, contention and launch cost were measured on one (driver 580.159.04,
 * CUDA 13.0); the rest is NVIDIA's data sheet and device query. a100-40g and t4 are data sheet numbers
 * throughout: their context size, driver reserve and contention were not measured but set to what the H200
 * suggests, so use them for shapes (capacity, architecture, no NVLink), not for exact megabytes.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define GB_PER_S UINT64_C(1000000000)

const char sim_model_names[] = "h200, a100-40g, t4";

static const struct sim_model models[] = {
    {
        .key = "h200",
        .name = "NVIDIA H200",
        .architecture = "Hopper",
        .driver_version = "580.159.04",
        .cuda_version = 13000,
        .nvml_architecture = 9,
        .compute_major = 9,
        .compute_minor = 0,
        .pci_device_id = 0x233510de,
        .pci_subsystem_id = 0x18bf10de,
        .total_bytes = 143771 * SIM_MIB, /* 143,155 usable + the reserve */
        .reserved_bytes = 616 * SIM_MIB,
        .context_bytes = 518 * SIM_MIB,
        .block_bytes = 2 * SIM_MIB,
        .packed_bytes = SIM_MIB,
        .pool_step_bytes = 32 * SIM_MIB,
        .bar1_bytes = 262144 * SIM_MIB,
        .multiprocessors = 132,
        .threads_per_multiprocessor = 2048,
        .blocks_per_multiprocessor = 32,
        .registers_per_multiprocessor = 65536,
        .shared_per_multiprocessor = 228 * KIB,
        .shared_per_block_optin = 227 * KIB,
        .l2_bytes = 50 * SIM_MIB,
        .copy_engines = 3,
        .cores_per_multiprocessor = 128,
        .sm_clock_max = 1980,
        .memory_clock_max = 3201,
        .video_clock_max = 1545,
        .memory_bus_bits = 6144,
        .power_idle = 75000,
        .power_limit = 700000,
        .power_min_limit = 200000,
        .ecc = 1,
        .mig = 1,
        .managed_concurrent = 1,
        .nvlinks = 18,
        .nvlink_version = 4,
        .pcie_generation = 5,
        .pcie_width = 16,
        .launch_ns = 3500,
        .word_ns = 750,
        .kernel_ns = 2000,
        .turn_ns = 2000000,
        .exchange_ns = 133000, /* NVML showed 124 to 147 us for each */
        .contended_permille = 900, /* two greedy processes got 45 % each */
        .copy_ns = 2000,
        .host_bandwidth = 55 * GB_PER_S,
        .peer_bandwidth = 400 * GB_PER_S,
        .device_bandwidth = 2000 * GB_PER_S, /* read and written: half of the memory's 4.8 TB/s, less losses */
    },
    {
        .key = "a100-40g",
        .name = "NVIDIA A100-SXM4-40GB",
        .architecture = "Ampere",
        .driver_version = "580.159.04",
        .cuda_version = 13000,
        .nvml_architecture = 7,
        .compute_major = 8,
        .compute_minor = 0,
        .pci_device_id = 0x20b010de,
        .pci_subsystem_id = 0x134f10de,
        .total_bytes = 40960 * SIM_MIB,
        .reserved_bytes = 574 * SIM_MIB,
        .context_bytes = 424 * SIM_MIB,
        .block_bytes = 2 * SIM_MIB,
        .packed_bytes = SIM_MIB,
        .pool_step_bytes = 32 * SIM_MIB,
        .bar1_bytes = 65536 * SIM_MIB,
        .multiprocessors = 108,
        .threads_per_multiprocessor = 2048,
        .blocks_per_multiprocessor = 32,
        .registers_per_multiprocessor = 65536,
        .shared_per_multiprocessor = 164 * KIB,
        .shared_per_block_optin = 163 * KIB,
        .l2_bytes = 40 * SIM_MIB,
        .copy_engines = 3,
        .cores_per_multiprocessor = 64,
        .sm_clock_max = 1410,
        .memory_clock_max = 1215,
        .video_clock_max = 1290,
        .memory_bus_bits = 5120,
        .power_idle = 50000,
        .power_limit = 400000,
        .power_min_limit = 100000,
        .ecc = 1,
        .mig = 1,
        .managed_concurrent = 1,
        .nvlinks = 12,
        .nvlink_version = 3,
        .pcie_generation = 4,
        .pcie_width = 16,
        .launch_ns = 4000,
        .word_ns = 1000,
        .kernel_ns = 2000,
        .turn_ns = 2000000,
        .exchange_ns = 133000,
        .contended_permille = 900,
        .copy_ns = 2500,
        .host_bandwidth = 25 * GB_PER_S,
        .peer_bandwidth = 250 * GB_PER_S,
        .device_bandwidth = 650 * GB_PER_S,
    },
    {
        .key = "t4",
        .name = "Tesla T4",
        .architecture = "Turing",
        .driver_version = "580.159.04",
        .cuda_version = 13000,
        .nvml_architecture = 6,
        .compute_major = 7,
        .compute_minor = 5,
        .pci_device_id = 0x1eb810de,
        .pci_subsystem_id = 0x12a210de,
        .total_bytes = 15360 * SIM_MIB,
        .reserved_bytes = 450 * SIM_MIB,
        .context_bytes = 158 * SIM_MIB,
        .block_bytes = 2 * SIM_MIB,
        .packed_bytes = SIM_MIB,
        .pool_step_bytes = 32 * SIM_MIB,
        .bar1_bytes = 256 * SIM_MIB,
        .multiprocessors = 40,
        .threads_per_multiprocessor = 1024,
        .blocks_per_multiprocessor = 16,
        .registers_per_multiprocessor = 65536,
        .shared_per_multiprocessor = 64 * KIB,
        .shared_per_block_optin = 64 * KIB,
        .l2_bytes = 4 * SIM_MIB,
        .copy_engines = 3,
        .cores_per_multiprocessor = 64,
        .sm_clock_max = 1590,
        .memory_clock_max = 5001,
        .video_clock_max = 1470,
        .memory_bus_bits = 256,
        .power_idle = 10000,
        .power_limit = 70000,
        .power_min_limit = 60000,
        .ecc = 1,
        .mig = 0,
        .managed_concurrent = 1,
        .nvlinks = 0,
        .pcie_generation = 3,
        .pcie_width = 16,
        .launch_ns = 5000,
        .word_ns = 1000,
        .kernel_ns = 2000,
        .turn_ns = 2000000,
        .exchange_ns = 133000,
        .contended_permille = 900,
        .copy_ns = 3000,
        .host_bandwidth = 12 * GB_PER_S,
        .peer_bandwidth = 10 * GB_PER_S,
        .device_bandwidth = 130 * GB_PER_S,
    },
};

const struct sim_model *sim_model_find(const char *machine, uint32_t *cards)
{
    size_t length = strcspn(machine, ":,");
    *cards = 1;
    if (machine[length] == ':') {
        char *end;
        unsigned long count = strtoul(machine + length + 1, &end, 10);
        if ((*end != '\0' && *end != ',') || end == machine + length + 1 || count < 1 || count > 16)
            return NULL;
        *cards = (uint32_t)count;
    }
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strlen(models[i].key) == length && strncmp(models[i].key, machine, length) == 0)
            return &models[i];
    return NULL;
}
