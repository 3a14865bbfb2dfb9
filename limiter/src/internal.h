/*
 * What the files of the limiter share among themselves and nobody else needs: opening pages, and forgetting
 * everything in a fork child.
 *
 * Fork: the handlers hold the locks of slice.c and slots.c while the process forks, so that a child never sees
 * one half-taken. A child has no GPU context and no slot; it starts from nothing.
 */
#ifndef WEIR_INTERNAL_H
#define WEIR_INTERNAL_H

#include <stdbool.h>

/* Opens a file of the slice directory by its name there; −1 with errno. */
int weir_open_page(const char *name, int flags);

/* Before a lock is first taken: forks wait for it from now on. False: that could not be arranged. */
bool weir_watch_forks(void);
void weir_slice_before_fork(void);
void weir_slice_after_fork(void);

/* Each forgets what belonged to the parent; called in the child, where no other thread exists. */
void weir_objects_forget(void);
void weir_blocks_forget(void);
void weir_pools_forget(void);
void weir_contexts_forget(void);
void weir_devices_forget(void);

#endif
