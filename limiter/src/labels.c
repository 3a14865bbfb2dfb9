/*
 * The labels of labels.h. In bits from the top:  start = mark 7, slice 14, slot 9, number 32;  length = life 20 (which
 * process had the slot), pages of 2 MiB 21.
 *
 * A probe is a second description of the same file. Descriptors of a driver's device are all of one file, so one
 * probe serves them, for as long as the process lives. A program that closes all descriptors closes probes too;
 * what they told of then stays charged until the process ends.
 */
#define _GNU_SOURCE
#include "labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"
#include "calls.h"
#include "hash.h"
#include "internal.h"

#define MARK UINT64_C(0x35)
#define SLICE_MASK UINT64_C(0x3fff)
#define SLOT_MASK UINT64_C(0x1ff)
#define NUMBER_MASK UINT64_C(0xffffffff)
#define LIFE_MASK UINT64_C(0xfffff)
#define PAGES_MASK UINT64_C(0x1fffff)
#define LOWEST_PROBE 200 /* out of the way of programs that count on small descriptors */

static _Atomic int device_probe = -1;

static uint64_t mixed(uint64_t value)
{
    return weir_hash(value) >> 32;
}

/* Tells the process that has this slot from those that had it before. */
static uint64_t life_of(const struct weir_slice *slice, uint32_t slot)
{
    const struct weir_slot_header *header = weir_slot_header(slice, slot);
    return mixed(header->attached + header->pid) & LIFE_MASK;
}

static uint64_t slice_of(const struct weir_slice *slice)
{
    return mixed(slice->control->generation) & SLICE_MASK;
}

bool weir_label_make(const struct weir_slice *slice, uint64_t number, uint64_t bytes, struct weir_label *label)
{
    int slot = weir_slot(slice);
    if (slot < 0 || number > NUMBER_MASK || bytes / WEIR_BLOCK > PAGES_MASK)
        return false;
    label->start = MARK << 55 | slice_of(slice) << 41 | (uint64_t)slot << 32 | number;
    label->length = life_of(slice, (uint32_t)slot) << 21 | bytes / WEIR_BLOCK;
    return true;
}

uint64_t weir_label_bytes(struct weir_label label)
{
    return (label.length & PAGES_MASK) * WEIR_BLOCK;
}

bool weir_label_share(const struct weir_slice *slice, struct weir_label label, struct weir_share *share)
{
    share->slot = (uint32_t)(label.start >> 32 & SLOT_MASK);
    share->number = (uint32_t)(label.start & NUMBER_MASK);
    return (label.start >> 41 & SLICE_MASK) == slice_of(slice) && share->slot < slice->slot_count &&
           (label.length >> 21 & LIFE_MASK) == life_of(slice, share->slot) &&
           atomic_load(&weir_slot_header(slice, share->slot)->state) == WEIR_SLOT_ATTACHED;
}

bool weir_label_put(int fd, struct weir_label label)
{
    int saved = errno;
    bool done = weir_lock_range(fd, label.start, label.length, F_RDLCK);
    errno = saved;
    return done;
}

/* A label among the locks that the kernel lists of a file: "lock: 1: OFDLCK ADVISORY READ -1 0:5:9 FIRST LAST" */
static bool parse(const char *text, struct weir_label *label)
{
    unsigned long long first, last;
    for (; (text = strstr(text, "OFDLCK")); text++)
        if (sscanf(text, "OFDLCK %*s READ %*s %*s %llu %llu", &first, &last) == 2 && first >> 55 == MARK &&
            last >= first) {
            *label = (struct weir_label){first, last - first + 1};
            return true;
        }
    return false;
}

bool weir_label_read(int fd, struct weir_label *label)
{
    char text[4096];
    int saved = errno;
    snprintf(text, sizeof text, "/proc/self/fdinfo/%d", fd);
    int info = weir_open(text, O_RDONLY | O_CLOEXEC);
    ssize_t length = info < 0 ? -1 : weir_read(info, text, sizeof text - 1);
    if (info >= 0)
        weir_close(info);
    errno = saved;
    if (length <= 0)
        return false;
    text[length] = 0;
    return parse(text, label);
}

/* ---- probes ---- */

static bool is_file(int fd, uint64_t file, bool *device)
{
    struct stat found;
    if (fstat(fd, &found) != 0)
        return false;
    *device = S_ISCHR(found.st_mode);
    return found.st_ino == file;
}

static int open_probe(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int low = weir_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int probe = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, LOWEST_PROBE);
    if (low >= 0)
        weir_close(low);
    return probe;
}

int weir_label_probe(int fd, uint64_t *file)
{
    struct stat found;
    bool device;
    int saved = errno, none = -1, known = atomic_load(&device_probe);
    if (fstat(fd, &found) != 0)
        return -1;
    *file = found.st_ino;
    if (S_ISCHR(found.st_mode) && known >= 0 && is_file(known, *file, &device) && device)
        return known;
    int probe = open_probe(fd);
    if (S_ISCHR(found.st_mode))
        atomic_compare_exchange_strong(&device_probe, &none, probe);
    errno = saved;
    return probe;
}

bool weir_label_is_open(int probe, uint64_t file, struct weir_label label)
{
    bool device;
    int saved = errno;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    lock.l_start = (off_t)label.start;
    lock.l_len = (off_t)label.length;
    bool closed = is_file(probe, file, &device) && fcntl(probe, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    errno = saved;
    return !closed;
}

void weir_label_close(int probe)
{
    int saved = errno;
    if (probe >= 0 && probe != atomic_load(&device_probe))
        weir_close(probe);
    errno = saved;
}
