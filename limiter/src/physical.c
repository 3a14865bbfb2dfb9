/*
 * The entries of physical.h. What was shown to others has a second entry (WEIR_TAG_SHARE), by the same number: the
 * probe for its label, and the lock under which its handle is found.
 *
 * Nobody says when the last sibling lets go, so what only siblings hold lingers in a list, which is looked through
 * before a charge is refused and when the program asks for its memory. Until then too much is charged, never too
 * little. A list that is full, or a label that cannot be put, leaves memory charged until the process ends.
 */
#include "physical.h"

#include "account.h"
#include "internal.h"
#include "memory.h"

#define LINGERING 1024
#define DEAD UINT32_C(0x80000000) /* in refs: it is being given back, and nobody may hold it again */
#define NO_PROBE (-1)

static _Atomic uint64_t last_number;
static _Atomic uint64_t lingering[LINGERING]; /* numbers; 0: free */
static _Atomic uint32_t lingering_count;

void weir_physical_forget(void)
{
    for (uint32_t i = 0; atomic_load(&lingering_count) && i < LINGERING; i++)
        atomic_store(&lingering[i], 0);
    atomic_store(&lingering_count, 0);
}

uint64_t weir_physical_number(void)
{
    return atomic_fetch_add(&last_number, 1) + 1;
}

bool weir_physical_put(uint64_t number, const struct weir_object *physical)
{
    struct weir_object object = *physical;
    atomic_store(&object.refs, 1);
    bool put = weir_object_put(WEIR_TAG_PHYSICAL, number, &object);
    if (!put)
        weir_count_error(physical->device);
    return put;
}

bool weir_physical_hold(uint64_t number)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    uint32_t refs = physical ? atomic_load(&physical->refs) : DEAD;
    while (!(refs & DEAD))
        if (atomic_compare_exchange_weak(&physical->refs, &refs, refs + 1))
            return true;
    return false;
}

/* ---- shown to others ---- */

static bool begin(uint64_t number, const struct weir_object *physical, const struct weir_object *share)
{
    weir_lend(weir_slice(), physical->device, (int64_t)physical->charged); /* before anybody can hold it */
    if (weir_object_put(WEIR_TAG_SHARE, number, share))
        return true;
    weir_lend(weir_slice(), physical->device, -(int64_t)physical->charged);
    return false;
}

bool weir_physical_share(uint64_t number, const struct weir_object *physical, int fd)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_object share = {.lent = physical->charged, .probe = NO_PROBE, .device = physical->device};
    struct weir_label label;
    bool named = weir_label_make(slice, number, physical->charged, &label) && weir_label_put(fd, label);
    if (weir_object_find(WEIR_TAG_SHARE, number))
        return named;
    if (named)
        share.probe = weir_label_probe(fd, &share.probed_file);
    return begin(number, physical, &share) && share.probe != NO_PROBE;
}

bool weir_physical_name(uint64_t number, const struct weir_object *physical, const void *handle, size_t size)
{
    struct weir_object share = {.lent = physical->charged, .device = physical->device, .is_bytes = 1};
    if (weir_object_find(WEIR_TAG_SHARE, number))
        return true;
    if (!begin(number, physical, &share))
        return false;
    struct weir_object *kept = weir_object_find(WEIR_TAG_SHARE, number);
    if (kept)
        kept->lock = weir_lock_name(weir_slice(), handle, size, (uint32_t)number);
    return kept && kept->lock;
}

static bool is_held_elsewhere(uint64_t number)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_object *share = weir_object_find(WEIR_TAG_SHARE, number);
    struct weir_label label;
    if (!share || !slice)
        return false;
    if (weir_share_is_held(slice, (uint32_t)number))
        return true;
    if (share->is_bytes)
        return false;
    return share->probe == NO_PROBE || !weir_label_make(slice, number, share->lent, &label) ||
           weir_label_is_open((int)share->probe, share->probed_file, label);
}

static void end_share(uint64_t number)
{
    struct weir_object share;
    if (!weir_object_take(WEIR_TAG_SHARE, number, &share))
        return;
    weir_lend(weir_slice(), share.device, -(int64_t)share.lent);
    weir_unlock_share(share.lock);
    if (!share.is_bytes)
        weir_label_close((int)share.probe);
}

/* ---- given back ---- */

static void give_back(uint64_t number)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    struct weir_object object;
    uint32_t unheld = 0;
    if (!physical || !atomic_compare_exchange_strong(&physical->refs, &unheld, DEAD) ||
        !weir_object_take(WEIR_TAG_PHYSICAL, number, &object))
        return;
    end_share(number);
    if (object.kind == WEIR_KIND_BUFFER) {
        atomic_store(&object.number, 0);
        weir_pointer_freed(WEIR_TAG_POINTER, object.pointer, &object);
        return;
    }
    weir_unlock_share(object.lock);
    weir_count_free(object.device);
    weir_give_back(object.device, (enum weir_kind)object.kind, object.charged);
}

/* False: there is no room to remember it, so it stays charged. */
static bool linger(uint64_t number)
{
    for (uint32_t i = 0; i < LINGERING; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&lingering[i], &none, number))
            continue;
        atomic_fetch_add(&lingering_count, 1);
        return true;
    }
    return false;
}

void weir_physical_drop(uint64_t number)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    if (!physical || atomic_fetch_sub(&physical->refs, 1) != 1)
        return;
    if (!is_held_elsewhere(number))
        give_back(number);
    else if (!linger(number))
        weir_count_error(WEIR_NO_DEVICE);
}

void weir_physical_retire(uint64_t number, uint64_t pointer, const struct weir_object *buffer)
{
    struct weir_object physical = *buffer;
    physical.pointer = pointer;
    if (weir_physical_put(number, &physical))
        weir_physical_drop(number);
}

void weir_physical_refresh(void)
{
    for (uint32_t i = 0; atomic_load_explicit(&lingering_count, memory_order_relaxed) && i < LINGERING; i++) {
        uint64_t number = atomic_load(&lingering[i]);
        if (!number || is_held_elsewhere(number) || !atomic_compare_exchange_strong(&lingering[i], &number, 0))
            continue;
        atomic_fetch_sub(&lingering_count, 1);
        give_back(number);
    }
}
