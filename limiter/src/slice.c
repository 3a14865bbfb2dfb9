/*
 * Which slice this process lives in: its directory, the pages that are mapped, and those that replace them.
 *
 * A page that cannot be used is said so in one line and looked at again at most every 100 ms. Pages in use are
 * looked at as often: an agent may have made new ones, of a newer minor version or after somebody deleted them.
 * Then the new ones are mapped beside the old, this process takes a slot there and charges what it holds, and later
 * calls get the new. Pages that are merely gone, or of another set of cards, change nothing: the old ones stay.
 */
#define _GNU_SOURCE
#include "slice.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "glibc.h"
#include "internal.h"

#define FIXED_DIRECTORY "/run/weir/slice"
#define RETRY_NS UINT64_C(100000000)
#define ATTACHMENTS 64 /* times that pages may be replaced under one process; after that it keeps the last */

enum state { UNKNOWN, ABSENT, PRESENT, OPEN, LOST, UNUSABLE };

static _Atomic int state;
static _Atomic uint64_t next_look;
static struct weir_own owns[ATTACHMENTS];
static struct weir_slice slices[ATTACHMENTS];
static _Atomic unsigned newest;
static char directory[PATH_MAX - 32]; /* leaves room for a page's name */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* The directory that a container has, else the one that `weir run` names. */
static void find_directory(void)
{
    int saved = errno;
    sigset_t before;
    const char *named = getenv("WEIR_SLICE_DIR");
    int expected = UNKNOWN;
    if (access(FIXED_DIRECTORY, F_OK) == 0)
        named = FIXED_DIRECTORY;
    bool found = weir_on_glibc() && named && *named && strlen(named) < sizeof directory;
    if (found) {
        weir_watch_forks();
        weir_lock(&opening, &before);
        if (atomic_load(&state) == UNKNOWN) { /* or others read it already */
            strcpy(directory, named);
            atomic_store(&state, PRESENT);
        }
        weir_unlock(&opening, &before);
    } else {
        atomic_compare_exchange_strong(&state, &expected, ABSENT);
    }
    errno = saved;
}

bool weir_present(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) == UNKNOWN)
        find_directory();
    return atomic_load_explicit(&state, memory_order_acquire) != ABSENT;
}

const char *weir_slice_directory(void)
{
    return directory;
}

/* Maps both pages into a place that is not in use yet. */
static const char *map_into(unsigned place)
{
    slices[place] = (struct weir_slice){.own = &owns[place]};
    atomic_store(&owns[place].slot, WEIR_NO_SLOT);
    atomic_store(&owns[place].lost, false);
    atomic_store(&owns[place].torn, 0);
    memset(owns[place].kept, 0, sizeof owns[place].kept);
    return weir_map_pages(&slices[place]);
}

static const struct weir_slice *open_slice(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    sigset_t before;
    uint64_t now = weir_coarse_now();
    if (!weir_present() || (atomic_load(&state) == UNUSABLE && now < atomic_load(&next_look)))
        return NULL;
    int saved = errno;
    weir_lock(&opening, &before);
    if (atomic_load(&state) < OPEN || atomic_load(&state) == UNUSABLE) {
        const char *wrong = map_into(0);
        if (wrong)
            weir_complain(&said, "weir: %s/%s; GPU memory is refused to this process", directory, wrong);
        else
            weir_guard_pages();
        atomic_store(&next_look, now + RETRY_NS);
        atomic_store(&state, wrong ? UNUSABLE : OPEN);
    }
    weir_unlock(&opening, &before);
    errno = saved;
    return atomic_load(&state) == UNUSABLE ? NULL : &slices[atomic_load(&newest)];
}

static const struct weir_slice *latest(void)
{
    return &slices[atomic_load_explicit(&newest, memory_order_acquire)];
}

const struct weir_slice *weir_slice(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now == OPEN, 1))
        return latest();
    if (now == LOST)
        return weir_slice_latest(weir_coarse_now());
    return now == ABSENT ? NULL : open_slice();
}

bool weir_refusing(void)
{
    return weir_present() && weir_slice() == NULL;
}

/* ---- pages that are replaced ---- */

static bool lose(struct weir_own *own, struct weir_mapping *mapping)
{
    atomic_store(&own->lost, true); /* first: nothing may be charged to memory of our own */
    if (own == &owns[atomic_load(&newest)])
        atomic_store(&state, LOST);
    return weir_mapping_replace(mapping);
}

static bool holds(const struct weir_mapping *mapping, const void *address)
{
    return mapping->start && (uintptr_t)address - (uintptr_t)mapping->start < mapping->size;
}

bool weir_slice_lost(const void *address)
{
    for (unsigned i = 0; i < ATTACHMENTS; i++) {
        if (holds(&owns[i].control, address))
            return lose(&owns[i], &owns[i].control);
        if (holds(&owns[i].stats, address))
            return lose(&owns[i], &owns[i].stats);
    }
    return false;
}

static bool same_cards(const struct weir_slice *a, const struct weir_slice *b)
{
    for (int device = 0; device < WEIR_MAX_DEVICES; device++) /* none has a UUID of 0 */
        if (memcmp(a->own->kept[device].uuid, b->own->kept[device].uuid, sizeof a->own->kept[0].uuid) != 0)
            return false;
    return a->device_count == b->device_count;
}

/* The process's slot and charges in the pages that replace `old`. False: no slot there. */
static bool move_in(struct weir_slice *fresh, const struct weir_slice *old)
{
    bool same = fresh->own->stats.file == old->own->stats.file && fresh->own->stats.device == old->own->stats.device;
    int slot = atomic_load(&old->own->slot);
    if (slot == WEIR_NO_SLOT)
        return true; /* it takes one when it needs one */
    if (same && !atomic_load(&old->own->stats.replaced)) {
        atomic_store(&fresh->own->slot, slot);
        return true;
    }
    slot = weir_slot(fresh);
    if (slot >= 0)
        weir_held_charge(fresh, (uint32_t)slot);
    return slot >= 0;
}

/* What has become of a page; one that was cut short is let go before anybody runs into it. */
static bool is_replaced(const char *name, struct weir_own *own, struct weir_mapping *mapping)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    enum weir_page_change change = weir_page_change(name, mapping);
    if (change == WEIR_PAGE_CUT && !atomic_load(&mapping->replaced))
        lose(own, mapping);
    if (atomic_load(&mapping->replaced))
        weir_complain(&said, "weir: %s/%s: cut short; GPU memory is refused until it is made anew", directory, name);
    return change == WEIR_PAGE_REPLACED;
}

static void look(void)
{
    unsigned next = atomic_load(&newest) + 1;
    struct weir_own *own = &owns[next - 1];
    bool control = is_replaced("control", own, &own->control), stats = is_replaced("rw/stats", own, &own->stats);
    if (next == ATTACHMENTS || !(control || stats || atomic_load(&own->lost)) || map_into(next) != NULL)
        return;
    if (!same_cards(&slices[next - 1], &slices[next]) || !move_in(&slices[next], &slices[next - 1])) {
        weir_unmap_pages(&owns[next]);
        return;
    }
    atomic_store_explicit(&newest, next, memory_order_release);
    atomic_store(&state, OPEN);
}

const struct weir_slice *weir_slice_latest(uint64_t now)
{
    uint64_t due = atomic_load_explicit(&next_look, memory_order_relaxed);
    sigset_t before;
    if (now >= due && atomic_compare_exchange_strong(&next_look, &due, now + RETRY_NS)) {
        int saved = errno;
        weir_lock(&opening, &before);
        look();
        weir_unlock(&opening, &before);
        errno = saved;
    }
    return latest();
}

void weir_slice_look_soon(void)
{
    atomic_store(&next_look, 0);
}

/* ---- forks ---- */

void weir_slice_before_fork(void)
{
    pthread_mutex_lock(&opening);
}

void weir_slice_after_fork(void)
{
    pthread_mutex_unlock(&opening);
}

void weir_slice_forget_slots(void)
{
    for (unsigned i = 0; i < ATTACHMENTS; i++)
        atomic_store(&owns[i].slot, WEIR_NO_SLOT);
}
