/*
 * MIG profiles: from their spelling to slices, and from slices to the devices of a card. See mig.h.
 *
 * Instance IDs count from 1 and a GPU instance holds one compute instance. A MIG device's UUID is its card's
 * with its place mixed in, so it is the same each time a machine of that name is made from the same cards.
 */
#include "mig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMPUTE_SLICES 7
#define MEMORY_SLICES 8
#define GIB (SIM_MIB * 1024)

struct profile {
    uint32_t compute_slices, memory_slices, count;
};

/* False when the name has no MIG part; *valid says whether the part that is there can be made. */
static bool parse(const struct sim_model *model, const char *machine, struct profile *found, bool *valid)
{
    unsigned int compute, gigabytes, count;
    int length = 0;
    const char *part = strchr(machine, ',');
    *valid = true;
    if (!part)
        return false;
    *valid = false;
    if (sscanf(part, ",mig=%2ug.%3ugb*%2u%n", &compute, &gigabytes, &count, &length) != 3 || part[length] != 0)
        return true;
    uint64_t slice = model->total_bytes / MEMORY_SLICES;
    *found = (struct profile){compute, (uint32_t)((gigabytes * GIB + slice / 2) / slice), count};
    bool known = compute == 1 || compute == 2 || compute == 3 || compute == 4 || compute == COMPUTE_SLICES;
    *valid = model->mig && known && found->memory_slices >= 1 && count >= 1 &&
             compute * count <= COMPUTE_SLICES && found->memory_slices * count <= MEMORY_SLICES;
    return true;
}

int sim_mig_check(const struct sim_model *model, const char *machine)
{
    struct profile profile;
    bool valid;
    parse(model, machine, &profile, &valid);
    return valid ? 0 : -EINVAL;
}

void sim_mig_make(struct sim_state *state, const struct sim_model *model)
{
    struct profile profile;
    bool valid;
    if (!parse(model, state->machine, &profile, &valid) || !valid)
        return;
    for (uint32_t card = 0; card < state->device_count; card++) {
        struct sim_device *device = &state->devices[card];
        device->mig_mode = 1;
        for (uint32_t i = 0; i < profile.count; i++) {
            struct sim_mig *mig = &device->mig[i];
            *mig = (struct sim_mig){.in_use = 1, .compute_slices = profile.compute_slices,
                                    .memory_slices = profile.memory_slices, .gpu_instance = i + 1};
            memcpy(mig->uuid, device->uuid, sizeof mig->uuid);
            mig->uuid[15] ^= (uint8_t)(0x80 | i);
        }
    }
}
