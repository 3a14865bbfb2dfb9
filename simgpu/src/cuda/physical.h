/*
 * Physical memory that a program maps by hand: what physical.c (handles) and mapping.c (addresses) share.
 *
 * It lives while a handle of it is unreleased or an address mapped to it; until then the card is charged.
 * Guarded by the memory lock.
 */
#ifndef SIMGPU_PHYSICAL_H
#define SIMGPU_PHYSICAL_H

#include "memory.h"

struct sim_physical {
    CUmemGenericAllocationHandle id;
    uint64_t size;
    uint32_t device; /* SIM_NONE: host memory, which charges no card */
    CUmemAllocationProp properties;
    unsigned handles;  /* unreleased */
    unsigned mappings;
    struct sim_share_ref share; /* exportable memory of a card: who else holds it, and who is charged */
    int fd;            /* where its bytes are: a file of its own if it may be exported, else the common one … */
    uint64_t offset;   /* … from here on */
    uint64_t inode;    /* of a file of its own */
};

/* One mapping: the owner of an allocation record. */
struct sim_mapping {
    struct sim_physical *physical;
    CUmemAccess_flags access[SIM_DEVICES]; /* by the machine's index */
    CUmemAccess_flags host_access;
};

CUresult sim_physical_resolve(CUmemGenericAllocationHandle handle, struct sim_physical **physical);
void sim_physical_drop_if_unused(struct sim_physical *physical);

/* Between physical.c and physical_share.c. */
bool sim_physical_exportable(const struct sim_physical *physical);
bool sim_physical_place_in_own_file(struct sim_physical *physical);
CUresult sim_physical_charge(struct sim_physical *physical);
void sim_physical_uncharge(const struct sim_physical *physical);
bool sim_physical_enlist(struct sim_physical *physical); /* give it an ID and its first handle */
struct sim_physical *sim_physical_of_inode(uint64_t inode);

#endif
