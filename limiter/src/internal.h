/*
 * What the files of the limiter share among themselves and nobody else needs: the pages as they are mapped, what
 * the process holds in them, and forgetting everything in a fork child.
 *
 * Locks: only while pages are opened, replaced, or a slot is claimed. Signals are blocked meanwhile, but for our
 * own guard's, so a handler that uses the GPU never waits for the thread it interrupted, and cannot leave with
 * siglongjmp; nothing there is a point of cancellation (calls.h). The order is slice.c's lock, then that of slots.c;
 * forks hold both, so that a child never sees one half-taken. A child has no GPU context and no slot; it starts from
 * nothing.
 */
#ifndef WEIR_INTERNAL_H
#define WEIR_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "slice.h"

/* ---- the pages (map.c) ---- */

struct weir_mapping {
    void *start; /* never unmapped once it was in use: other threads may look at it */
    size_t size;
    dev_t device; /* with `file`: which file it is */
    ino_t file;
    _Atomic bool replaced; /* by private memory, for the file was cut short */
};

struct weir_own {
    struct weir_mapping control;
    struct weir_mapping stats;
    struct weir_control_device kept[WEIR_MAX_DEVICES]; /* the control page as it was when it was mapped */
    _Atomic int slot;      /* WEIR_NO_SLOT until claimed */
    _Atomic uint32_t torn; /* odd sequence of a write of the control page that nobody ends */
    _Atomic bool lost;     /* one of the pages is replaced: nothing may be charged */
};

#define WEIR_NO_SLOT (-1)

/* Maps and checks both pages; out->own is the caller's. On failure says what is wrong, and nothing stays mapped. */
const char *weir_map_pages(struct weir_slice *out);
void weir_unmap_pages(struct weir_own *own);
/* A device's control fields as they stand; those that an older page does not have read as 0. */
void weir_control_copy(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out);
/* Opens the stats page that is mapped; −1 with errno, also where another has taken its place. */
int weir_open_stats(const struct weir_slice *slice);

enum weir_page_change { WEIR_PAGE_SAME, WEIR_PAGE_GONE, WEIR_PAGE_REPLACED, WEIR_PAGE_CUT };
/* What has become of the file that was mapped under this name. */
enum weir_page_change weir_page_change(const char *name, const struct weir_mapping *mapping);
/* Puts private memory, all 0, where the page was. Safe in a signal handler. */
bool weir_mapping_replace(struct weir_mapping *mapping);

const char *weir_slice_directory(void);

/* ---- the slice (slice.c) ---- */

/* The newest pages, after looking at most every 100 ms whether they have been replaced. */
const struct weir_slice *weir_slice_latest(uint64_t now);
/* The next call of it looks at once. */
void weir_slice_look_soon(void);
/* If `address` lies in a page that was cut short: replaces it, and charges nothing to it any more. */
bool weir_slice_lost(const void *address);
/* Lets the program outlive a page that is cut short; once, and only where it has no SIGBUS handler of its own. */
void weir_guard_pages(void);
/* Whether a bus error would come to it. */
bool weir_guards_pages(void);

/* ---- what this process holds, whatever becomes of the page (held.c) ---- */

void weir_held_add(uint32_t device, enum weir_kind kind, int64_t bytes);
/* Charges all of it to a page that has replaced the one it was charged to. */
void weir_held_charge(const struct weir_slice *slice, uint32_t slot);

/* ---- locks on the stats page (slots.c), owned by an open file description ---- */

bool weir_lock_range(int fd, uint64_t start, uint64_t length, short type);
/* Keeps all locks of `fd` until it is unmapped or this process ends, and no longer; NULL: it cannot. */
void *weir_keep_locks(int fd);
static inline uint64_t weir_shared_offset(uint32_t slot)
{
    return WEIR_SHARED_OFFSET + slot * WEIR_SHARED_NUMBERS;
}

/* ---- locks and forks ---- */

void weir_lock(pthread_mutex_t *lock, sigset_t *before);
void weir_unlock(pthread_mutex_t *lock, const sigset_t *before);
/* Before a lock is first taken: forks wait for it from now on. False: that could not be arranged. */
bool weir_watch_forks(void);
void weir_slice_before_fork(void);
void weir_slice_after_fork(void);
void weir_slice_forget_slots(void);

/*
 * Each forgets what belonged to the parent; called in the child, where no other thread exists. The large tables
 * are empty where nothing was ever charged.
 */
#define WEIR_LARGE_TABLES(X) X(objects) X(blocks) X(packs)
#define WEIR_SMALL_TABLES(X) X(held) X(intents) X(pools) X(primaries) X(devices) X(physical)
#define WEIR_DECLARE_FORGET(table) void weir_##table##_forget(void);
WEIR_LARGE_TABLES(WEIR_DECLARE_FORGET)
WEIR_SMALL_TABLES(WEIR_DECLARE_FORGET)

#endif
