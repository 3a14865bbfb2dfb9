/*
 * Memory that outlives a name of it: physical allocations, which handles and mappings share, and buffers that were
 * freed here while a sibling still has them open. Each has a number of this process and one entry (WEIR_TAG_PHYSICAL)
 * that counts its users; it is given back when the last is gone, here and among those that it was shown to.
 */
#ifndef WEIR_PHYSICAL_H
#define WEIR_PHYSICAL_H

#include "labels.h"
#include "objects.h"

/* A number for something that may be shared; never 0. */
uint64_t weir_physical_number(void);
/* Puts the entry, with one user. False: no memory for it, so it stays charged. */
bool weir_physical_put(uint64_t number, const struct weir_object *physical);
/* One user more. False: it is gone. */
bool weir_physical_hold(uint64_t number);
/* One user less. */
void weir_physical_drop(uint64_t number);

/*
 * From now on siblings may hold it: it stays charged while one does, or while a descriptor with its label is open.
 * Without a descriptor that can be labelled (false) it stays charged until the process ends.
 */
bool weir_physical_share(uint64_t number, const struct weir_object *physical, int fd);
/* The same for a handle of plain bytes. */
bool weir_physical_name(uint64_t number, const struct weir_object *physical, const void *handle, size_t size);

/* A buffer that has a number was freed here: gives it back once no sibling has it open. */
void weir_physical_retire(uint64_t number, uint64_t pointer, const struct weir_object *buffer);

/* Gives back what nobody holds any more. One load while nothing lingers. */
void weir_physical_refresh(void);

#endif
