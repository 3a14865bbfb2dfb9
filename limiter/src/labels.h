/*
 * Labels on descriptors of exported memory: a read lock that the open file description owns, in whose range stands
 * what the memory is and who pays for it. So a label goes wherever the descriptor is sent, and ends with its last
 * copy in any process, however that dies. It is a hint, never a limit (see shares.h for forging).
 */
#ifndef WEIR_LABELS_H
#define WEIR_LABELS_H

#include "shares.h"

struct weir_label { /* the locked range */
    uint64_t start;
    uint64_t length;
};

/* Of memory of this process; false: it cannot be said in a label. */
bool weir_label_make(const struct weir_slice *slice, uint64_t number, uint64_t bytes, struct weir_label *label);
bool weir_label_put(int fd, struct weir_label label);
/* False: there is none, or /proc does not say. */
bool weir_label_read(int fd, struct weir_label *label);

uint64_t weir_label_bytes(struct weir_label label);
/* Whose it is. False: another slice's, or a process's that has ended. */
bool weir_label_share(const struct weir_slice *slice, struct weir_label label, struct weir_share *share);

/* A descriptor of ours through which labels on this descriptor's file are seen; -1: it cannot be had. */
int weir_label_probe(int fd, uint64_t *file);
/* Whether a descriptor with this label is open anywhere. Also if nobody can say. */
bool weir_label_is_open(int probe, uint64_t file, struct weir_label label);
void weir_label_close(int probe);

#endif
