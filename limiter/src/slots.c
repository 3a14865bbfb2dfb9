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

#include "calls.h"
#include "glibc.h"
#include "internal.h"
#include "ledger.h"

#ifndef WEIR_VERSION
#define WEIR_VERSION "unknown" /* the build names it */
#endif

/*
 * Linux closes a dying process's descriptors before the files that it has mapped, and of these the lowest last (so
 * since 4.3, by the order of its task_work). So the card has back what it held when its lock says that it is dead;
 * else others would take it while it is still taken. A hint only: where it is in use, any place will do.
 */
#define LAST_TO_GO ((void *)0x10000)

static _Atomic bool ever_claimed;
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

bool weir_lock_range(int fd, uint64_t start, uint64_t length, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    lock.l_start = (off_t)start;
    lock.l_len = (off_t)length;
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool lock_slot(const struct weir_slice *slice, int fd, uint32_t slot, short type)
{
    return weir_lock_range(fd, weir_slot_offset(slice, slot), 1, type);
}

/*
 * For the holder of the slot's lock: whatever a dead process left in it goes back, but for what it had lent to
 * siblings that live. True: the slot is free.
 */
static bool clean(const struct weir_slice *slice, int fd, uint32_t slot)
{
    struct weir_slot_header *header = weir_slot_header(slice, slot);
    if (atomic_load(&header->state) == WEIR_SLOT_FREE)
        return true;
    bool alone = weir_lock_range(fd, weir_shared_offset(slot), WEIR_SHARED_NUMBERS, F_WRLCK);
    weir_ledger_recover(slice, slot, !alone);
    if (alone) {
        atomic_store(&header->state, WEIR_SLOT_FREE);
        atomic_fetch_add(&slice->stats->reaped, 1);
        weir_lock_range(fd, weir_shared_offset(slot), WEIR_SHARED_NUMBERS, F_UNLCK);
    }
    return alone;
}

void *weir_keep_locks(int fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *lease = mmap(LAST_TO_GO, page, PROT_NONE, MAP_SHARED, fd, 0);
    if (lease == MAP_FAILED)
        return NULL;
    if (madvise(lease, page, MADV_DONTFORK) == 0)
        return lease;
    munmap(lease, page);
    return NULL;
}

static int claim_on(const struct weir_slice *slice, int fd)
{
    for (uint32_t slot = 0; slot < slice->slot_count; slot++) {
        if (!lock_slot(slice, fd, slot, F_WRLCK))
            continue;
        if (!clean(slice, fd, slot)) {
            lock_slot(slice, fd, slot, F_UNLCK);
            continue;
        }
        if (!weir_keep_locks(fd))
            return WEIR_NO_SLOT;
        struct weir_slot_header *header = weir_slot_header(slice, slot);
        header->pid = (uint32_t)getpid();
        header->attached = weir_coarse_now();
        memcpy(slice->stats->limiter_version, WEIR_VERSION, sizeof WEIR_VERSION);
        atomic_store(&header->state, WEIR_SLOT_ATTACHED);
        return (int)slot;
    }
    return WEIR_NO_SLOT;
}

/* A page that was cut short is met under the lock too, and a bus error that is blocked would end the process. */
void weir_lock(pthread_mutex_t *lock, sigset_t *before)
{
    sigset_t most;
    sigfillset(&most);
    if (weir_guards_pages())
        sigdelset(&most, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &most, before);
    pthread_mutex_lock(lock);
}

void weir_unlock(pthread_mutex_t *lock, const sigset_t *before)
{
    pthread_mutex_unlock(lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/*
 * A lock that another thread holds at a fork would stay locked in the child for ever. `forking` makes the handlers
 * harmless when they are registered twice, as they are in a child that was forked in the middle of it.
 */
static __thread unsigned long forking;
static sigset_t signals_at_fork; /* of the thread that forks, which holds `claiming` */

static void before_fork(void)
{
    sigset_t before;
    if (forking++)
        return;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    weir_slice_before_fork();
    pthread_mutex_lock(&claiming);
    signals_at_fork = before;
}

static void after_fork(void)
{
    if (--forking)
        return;
    sigset_t before = signals_at_fork;
    weir_slice_after_fork();
    weir_unlock(&claiming, &before);
}

#define FORGET(table) weir_##table##_forget();

static void in_child(void)
{
    weir_slice_forget_slots();
    if (atomic_exchange(&ever_claimed, false)) {
        WEIR_LARGE_TABLES(FORGET)
    }
    WEIR_SMALL_TABLES(FORGET)
    after_fork();
}

static bool watching_forks;

static void watch(void)
{
    watching_forks = weir_at_fork(before_fork, after_fork, in_child) == 0;
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
    int fd = weir_watch_forks() ? weir_open_stats(slice) : -1;
    int slot = WEIR_NO_SLOT;
    if (fd >= 0) {
        slot = claim_on(slice, fd);
        weir_close(fd);
    }
    if (slot == WEIR_NO_SLOT)
        weir_complain(&said, "weir: rw/stats: no slot of %u could be claimed; GPU memory is refused to this process",
                      slice->slot_count);
    return slot;
}

int weir_slot(const struct weir_slice *slice)
{
    sigset_t before;
    if (__builtin_expect(atomic_load_explicit(&slice->own->lost, memory_order_relaxed), 0))
        return WEIR_NO_SLOT;
    int slot = atomic_load_explicit(&slice->own->slot, memory_order_acquire);
    if (__builtin_expect(slot != WEIR_NO_SLOT, 1))
        return slot;
    int saved = errno;
    weir_lock(&claiming, &before);
    if (atomic_load(&slice->own->slot) == WEIR_NO_SLOT) {
        atomic_store(&ever_claimed, true);
        atomic_store(&slice->own->slot, claim(slice));
    }
    weir_unlock(&claiming, &before);
    slot = atomic_load(&slice->own->slot);
    if (slot == WEIR_NO_SLOT && !atomic_load(&slice->own->lost))
        weir_slice_look_soon(); /* another page may have taken the place of this one */
    errno = saved;
    return slot;
}

bool weir_reap(const struct weir_slice *slice)
{
    int saved = errno, fd = -1, own = atomic_load(&slice->own->slot);
    bool found = false;
    for (uint32_t slot = 0; slot < slice->slot_count; slot++) {
        if (atomic_load(&weir_slot_header(slice, slot)->state) == WEIR_SLOT_FREE || (int)slot == own)
            continue;
        if (fd < 0 && (fd = weir_open_stats(slice)) < 0)
            break; /* opened only where there is somebody else: most slices hold one process */
        if (!lock_slot(slice, fd, slot, F_WRLCK))
            continue; /* alive */
        found |= clean(slice, fd, slot);
        lock_slot(slice, fd, slot, F_UNLCK);
    }
    if (fd >= 0)
        weir_close(fd);
    errno = saved;
    return found;
}
