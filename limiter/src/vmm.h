/*
 * What vmm.c, which keeps handles and mappings of this process, lends to vmm_share.c, which brings in others'.
 */
#ifndef WEIR_VMM_H
#define WEIR_VMM_H

#include "hooks.h"
#include "physical.h"

/* The slice's device that memory lies on; the host's is nobody's. */
int weir_vmm_device(const CUmemAllocationProp *properties);
/*
 * New memory with its first handle. Where neither `charged` nor the `lock` of a sibling's is set, each mapping is
 * charged instead.
 */
void weir_vmm_add(CUmemGenericAllocationHandle handle, const struct weir_object *physical);
/* A handle, or one reference of it more, for memory that is held. */
void weir_vmm_name(CUmemGenericAllocationHandle handle, uint64_t number);
/* The number of a handle's memory; 0: it is not known. */
uint64_t weir_vmm_number(CUmemGenericAllocationHandle handle);

#endif
