/*
 * What kind of machine is simulated: one table of constants for each name that SIMGPU_MACHINE may have.
 *
 * Immutable and the same in every process. The numbers' sources are beside them in models.c. What it does
 * not hold: anything about one card (UUID, bus address, memory in use); that is in engine.h's state.
 */
#ifndef SIMGPU_MODEL_H
#define SIMGPU_MODEL_H

#include <stdint.h>

#define SIM_MIB (UINT64_C(1) << 20)

struct sim_model {
    const char *key;  /* "h200" */
    const char *name; /* as CUDA and NVML give it */
    const char *architecture;
    const char *driver_version;
    uint32_t cuda_version;       /* 13000 */
    uint32_t nvml_architecture;  /* NVML_DEVICE_ARCH_… */
    uint32_t compute_major, compute_minor;
    uint32_t pci_device_id, pci_subsystem_id; /* as NVML packs them: device << 16 | vendor */
    /* memory, bytes */
    uint64_t total_bytes;    /* NVML's total, the reserve in it */
    uint64_t reserved_bytes; /* the driver's own */
    uint64_t context_bytes;  /* one bare context */
    uint64_t block_bytes;    /* allocations are made of whole blocks … */
    uint64_t packed_bytes;   /* … but up to this size share one */
    uint64_t pool_step_bytes; /* a memory pool grows by multiples of it; an assumption, not measured */
    uint64_t bar1_bytes;
    /* compute */
    uint32_t multiprocessors;
    uint32_t threads_per_multiprocessor;
    uint32_t blocks_per_multiprocessor;
    uint32_t registers_per_multiprocessor;
    uint32_t shared_per_multiprocessor;
    uint32_t shared_per_block_optin;
    uint32_t l2_bytes;
    uint32_t copy_engines;
    uint32_t cores_per_multiprocessor;
    /* clocks, MHz; power, mW */
    uint32_t sm_clock_max, memory_clock_max, video_clock_max;
    uint32_t memory_bus_bits;
    uint32_t power_idle, power_limit, power_min_limit;
    uint32_t ecc, mig, managed_concurrent; /* capabilities */
    uint32_t nvlinks, nvlink_version; /* 0: linked by PCIe only */
    uint32_t pcie_generation, pcie_width;
    /* time, ns */
    uint64_t launch_ns;       /* what a launch costs its caller, with SIMGPU_HOST_COSTS=1 */
    uint64_t word_ns;         /* … and a call that waits for a word or writes one; measured on an H200 only */
    uint64_t kernel_ns;       /* how long a kernel of no known duration runs */
    uint64_t turn_ns;         /* time slice of a process while others wait */
    uint64_t exchange_ns;     /* to turn from a process that has nothing to run to another: counted as use */
    uint32_t contended_permille; /* work done per time while two or more processes compete */
    uint64_t copy_ns;         /* a copy's fixed cost */
    uint64_t host_bandwidth, peer_bandwidth, device_bandwidth; /* bytes per second */
};

/*
 * The model of `machine` ("h200", "h200:2") and how many cards it has; NULL when nobody knows it. What follows
 * a comma is left to mig.h.
 */
const struct sim_model *sim_model_find(const char *machine, uint32_t *cards);
extern const char sim_model_names[]; /* "h200, a100-40g, t4", for messages */

#endif
