/*
 * The locks of shares.h. The place of a name, in bits from the top: mark 1, hash 31, slot 9, number 22 (of 63).
 * All are owned by descriptions of the stats page that a mapping keeps (slots.c), so they are this process's alone.
 */
#define _GNU_SOURCE
#include "shares.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "internal.h"

#define NAMES (UINT64_C(1) << 62)
#define NUMBER_BITS 22
#define PLACE_BITS 31

static void *lock_byte(const struct weir_slice *slice, uint64_t offset)
{
    int saved = errno, fd = weir_open_stats(slice);
    void *lock = fd >= 0 && weir_lock_range(fd, offset, 1, F_RDLCK) ? weir_keep_locks(fd) : NULL;
    if (fd >= 0)
        weir_close(fd);
    errno = saved;
    return lock;
}

/* The first lock of others in a range; false: there is none. */
static bool first_lock(const struct weir_slice *slice, uint64_t start, uint64_t length, uint64_t *found)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)start, .l_len = (off_t)length};
    int saved = errno, fd = weir_open_stats(slice);
    bool asked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0;
    if (fd >= 0)
        weir_close(fd);
    errno = saved;
    *found = (uint64_t)lock.l_start;
    return asked && lock.l_type != F_UNLCK;
}

void *weir_lock_share(const struct weir_slice *slice, struct weir_share share)
{
    return lock_byte(slice, weir_shared_offset(share.slot) + share.number);
}

void weir_unlock_share(void *lock)
{
    if (lock)
        munmap(lock, (size_t)sysconf(_SC_PAGESIZE));
}

bool weir_share_is_held(const struct weir_slice *slice, uint32_t number)
{
    uint64_t found;
    int slot = weir_slot(slice);
    return slot < 0 || first_lock(slice, weir_shared_offset((uint32_t)slot) + number, 1, &found);
}

void weir_lend(const struct weir_slice *slice, int device, int64_t bytes)
{
    int slot = weir_slot(slice);
    if (slot < 0 || device < 0)
        return;
    _Atomic uint64_t *lent = &weir_slot_device(slice, (uint32_t)slot, (uint32_t)device)->lent;
    uint64_t seen = atomic_load(lent), next;
    do /* a page that has taken the place of another knows of nothing that was lent before */
        next = bytes < 0 && seen < (uint64_t)-bytes ? 0 : seen + (uint64_t)bytes;
    while (!atomic_compare_exchange_weak(lent, &seen, next));
}

/* ---- names ---- */

/* FNV-1a: driver handles differ in few bytes. */
static uint64_t place_of(const void *handle, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)handle)[i]) * UINT64_C(0x100000001b3);
    return NAMES + (hash >> (64 - PLACE_BITS) << PLACE_BITS);
}

void *weir_lock_name(const struct weir_slice *slice, const void *handle, size_t size, uint32_t number)
{
    int slot = weir_slot(slice);
    if (slot < 0 || number >> NUMBER_BITS)
        return NULL;
    return lock_byte(slice, place_of(handle, size) + ((uint64_t)slot << NUMBER_BITS) + number);
}

bool weir_find_name(const struct weir_slice *slice, const void *handle, size_t size, struct weir_share *share)
{
    uint64_t place = place_of(handle, size), found;
    if (!first_lock(slice, place, UINT64_C(1) << PLACE_BITS, &found) || found < place)
        return false;
    share->slot = (uint32_t)((found - place) >> NUMBER_BITS);
    share->number = (uint32_t)((found - place) & ((UINT64_C(1) << NUMBER_BITS) - 1));
    return share->slot < slice->slot_count;
}
