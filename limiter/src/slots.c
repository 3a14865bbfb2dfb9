/*
 * This process's slot in the stats page, and the slots that dead processes left behind.
 *
 * A slot belongs to whoever holds the open-file-description lock on the byte at its own offset. The lock is
 * taken through a descriptor opened for it, that descriptor is mapped with MADV_DONTFORK and then closed: the
 * mapping alone keeps the lock. So a program that closes all descriptors keeps its slot, a fork child has
 * none, and the kernel drops the lock however the process dies, in any PID namespace.
 *
 * Slots never move. Who gets the lock of a slot that still says "attached" has found a dead process, and gives
 * back what it held. Nothing here waits: a lock that is taken is somebody alive.
 */
#define _GNU_SOURCE
#include "slice.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "ledger.h"

#define NO_SLOT (-1)
#ifndef WEIR_VERSION
#define WEIR_VERSION "unknown" /* the build names it */
#endif

static _Atomic int mine = NO_SLOT;
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

static bool lock_slot(const struct weir_slice *slice, int fd, uint32_t slot, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
    lock.l_start = (off_t)weir_slot_offset(slice, slot);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* For the holder of the slot's lock: whatever a dead process left in it goes back. */
static bool clean(const struct weir_slice *slice, uint32_t slot)
{
    struct weir_slot_header *header = weir_slot_header(slice, slot);
    if (atomic_load(&header->state) == WEIR_SLOT_FREE)
        return false;
    weir_ledger_recover(slice, slot);
    atomic_store(&header->state, WEIR_SLOT_FREE);
    atomic_fetch_add(&slice->stats->reaped, 1);
    return true;
}

/* Keeps the lock on `fd` for as long as this process lives, and no longer. */
static bool keep_alive(int fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *lease = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    if (lease == MAP_FAILED)
        return false;
    if (madvise(lease, page, MADV_DONTFORK) == 0)
        return true;
    munmap(lease, page);
    return false;
}

static int claim_on(const struct weir_slice *slice, int fd)
{
    for (uint32_t slot = 0; slot < slice->slot_count; slot++) {
        if (!lock_slot(slice, fd, slot, F_WRLCK))
            continue;
        clean(slice, slot);
        if (!keep_alive(fd))
            return NO_SLOT;
        struct weir_slot_header *header = weir_slot_header(slice, slot);
        header->pid = (uint32_t)getpid();
        header->attached = weir_coarse_now();
        memcpy(slice->stats->limiter_version, WEIR_VERSION, sizeof WEIR_VERSION);
        atomic_store(&header->state, WEIR_SLOT_ATTACHED);
        return (int)slot;
    }
    return NO_SLOT;
}

/*
 * A lock that another thread holds at a fork would stay locked in the child for ever. `forking` makes the handlers
 * harmless when they are registered twice, as they are in a child that was forked in the middle of it.
 */
static __thread unsigned forking;

static void before_fork(void)
{
    if (forking++)
        return;
    pthread_mutex_lock(&claiming);
    weir_slice_before_fork();
}

static void after_fork(void)
{
    if (--forking)
        return;
    weir_slice_after_fork();
    pthread_mutex_unlock(&claiming);
}

static void in_child(void)
{
    if (atomic_exchange(&mine, NO_SLOT) != NO_SLOT) {
        weir_objects_forget(); /* large tables, and empty where nothing was ever charged */
        weir_blocks_forget();
    }
    weir_pools_forget();
    weir_contexts_forget();
    weir_devices_forget();
    after_fork();
}

static bool watching_forks;

static void watch(void)
{
    watching_forks = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

bool weir_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return watching_forks;
}

static int claim(const struct weir_slice *slice)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    int fd = weir_watch_forks() ? weir_open_page("rw/stats", O_RDWR) : -1;
    int slot = NO_SLOT;
    if (fd >= 0) {
        slot = claim_on(slice, fd);
        close(fd);
    }
    if (slot == NO_SLOT)
        weir_complain(&said, "weir: rw/stats: no slot of %u could be claimed; GPU memory is refused to this process",
                      slice->slot_count);
    return slot;
}

int weir_slot(const struct weir_slice *slice)
{
    int slot = atomic_load_explicit(&mine, memory_order_acquire);
    if (__builtin_expect(slot != NO_SLOT, 1))
        return slot;
    int saved = errno;
    pthread_mutex_lock(&claiming);
    if (atomic_load(&mine) == NO_SLOT)
        atomic_store(&mine, claim(slice));
    pthread_mutex_unlock(&claiming);
    errno = saved;
    return atomic_load(&mine);
}

bool weir_reap(const struct weir_slice *slice)
{
    int saved = errno;
    bool found = false;
    int fd = weir_open_page("rw/stats", O_RDWR);
    for (uint32_t slot = 0; fd >= 0 && slot < slice->slot_count; slot++) {
        if (atomic_load(&weir_slot_header(slice, slot)->state) == WEIR_SLOT_FREE)
            continue;
        if (!lock_slot(slice, fd, slot, F_WRLCK))
            continue; /* alive; our own too, as it is locked through another description */
        found |= clean(slice, slot);
        lock_slot(slice, fd, slot, F_UNLCK);
    }
    if (fd >= 0)
        close(fd);
    errno = saved;
    return found;
}
