/*
 * Finds and maps the two pages of the slice (page.h) and reads the control page under its sequence lock.
 *
 * The stats page is mapped here without any lock on it, so a child may inherit the mapping; what makes a
 * process count as alive is in slots.c. Nothing in a page is believed before its bounds are checked, once, when
 * it is mapped: sizes and strides are copied into struct weir_slice and read from there.
 * A page that cannot be used is said so in one line and looked at again at most every 100 ms.
 */
#include "slice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define FIXED_DIRECTORY "/run/weir/slice"
#define RETRY_NS UINT64_C(100000000)
#define READ_TRIES 1000 /* a write of the page takes about a microsecond */

enum state { UNKNOWN, ABSENT, PRESENT, OPEN, UNUSABLE };

static _Atomic int state;
static _Atomic uint64_t next_try;
static struct weir_slice current;
static char directory[PATH_MAX - 32]; /* leaves room for a page's name */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

void weir_complain(atomic_flag *once, const char *format, ...)
{
    if (atomic_flag_test_and_set(once))
        return;
    int saved = errno;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (length > 0 && poll(&error, 1, 0) == 1 && error.revents == POLLOUT) { /* neither full nor a broken pipe */
        line[length++] = '\n';
        ssize_t written = write(STDERR_FILENO, line, (size_t)length);
        (void)written; /* there is nobody else to tell */
    }
    errno = saved;
}

uint64_t weir_coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The directory that a container has, else the one that `weir run` names. */
static void find_directory(void)
{
    int saved = errno;
    const char *named = getenv("WEIR_SLICE_DIR");
    int expected = UNKNOWN;
    if (access(FIXED_DIRECTORY, F_OK) == 0)
        named = FIXED_DIRECTORY;
    bool found = named && *named && strlen(named) < sizeof directory;
    if (found) {
        weir_watch_forks();
        pthread_mutex_lock(&opening);
        strcpy(directory, named);
        atomic_compare_exchange_strong(&state, &expected, PRESENT);
        pthread_mutex_unlock(&opening);
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

int weir_open_page(const char *name, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe would keep us waiting */
}

/* Maps a whole page file; NULL if there is none or it is shorter than its header. */
static void *map_file(const char *name, int flags, int protection, size_t least, size_t *size)
{
    int fd = weir_open_page(name, flags);
    if (fd < 0)
        return NULL;
    off_t length = lseek(fd, 0, SEEK_END);
    void *page = MAP_FAILED;
    if (length >= (off_t)least)
        page = mmap(NULL, (size_t)length, protection, MAP_SHARED, fd, 0);
    close(fd);
    *size = (size_t)length;
    return page == MAP_FAILED ? NULL : page;
}

/* NULL, or what is wrong with the control page. */
static const char *check_control(const struct weir_control_header *header, size_t size, struct weir_slice *out)
{
    size_t stride = header->device_stride;
    if (header->magic != WEIR_CONTROL_MAGIC)
        return "control: not a control page";
    if (header->major != WEIR_PAGE_MAJOR)
        return "control: a format of another major version";
    if (header->header_size < offsetof(struct weir_control_header, reserved) || header->header_size % 8)
        return "control: header_size out of range";
    if (header->device_count < 1 || header->device_count > WEIR_MAX_DEVICES)
        return "control: device_count out of range";
    if (stride < offsetof(struct weir_control_device, lease_deadline) || stride % 8 || stride > size)
        return "control: device_stride out of range";
    if (header->header_size > size || header->device_count * stride > size - header->header_size)
        return "control: the file is too short";
    *out = (struct weir_slice){.control = header, .device_count = header->device_count};
    out->control_header = header->header_size;
    out->control_stride = header->device_stride;
    return NULL;
}

/* NULL, or what is wrong with the stats page. We write to it, so our structs must fit into its strides. */
static const char *check_stats(struct weir_stats_header *header, size_t size, struct weir_slice *out)
{
    size_t slot = sizeof(struct weir_slot_header) + out->device_count * sizeof(struct weir_slot_device);
    if (header->magic != WEIR_STATS_MAGIC)
        return "rw/stats: not a stats page";
    if (header->major != WEIR_PAGE_MAJOR)
        return "rw/stats: a format of another major version";
    if (header->device_count != out->device_count || header->generation != out->control->generation)
        return "rw/stats: does not belong to the control page";
    if (header->header_size < sizeof *header || header->header_size % 8 || header->header_size > size)
        return "rw/stats: header_size out of range";
    if (header->device_stride < sizeof(struct weir_stats_device) || header->device_stride % 8)
        return "rw/stats: device_stride out of range";
    if (header->slot_stride < slot || header->slot_stride % 8)
        return "rw/stats: slot_stride out of range";
    if (header->slot_count < 1 || header->slot_count > WEIR_SLOTS)
        return "rw/stats: slot_count out of range";
    out->stats = header;
    out->stats_header = header->header_size;
    out->stats_stride = header->device_stride;
    out->slot_stride = header->slot_stride;
    out->slot_count = header->slot_count;
    uint64_t end = weir_slot_offset(out, 0) + (uint64_t)out->slot_count * out->slot_stride;
    return end > size ? "rw/stats: the file is too short" : NULL;
}

/* Maps and checks both pages. On failure nothing stays mapped. */
static const char *map_pages(struct weir_slice *out)
{
    size_t control_size = 0, stats_size = 0;
    size_t least = offsetof(struct weir_control_header, reserved);
    void *control = map_file("control", O_RDONLY, PROT_READ, least, &control_size);
    void *stats = NULL;
    const char *wrong = control ? check_control(control, control_size, out) : "control: cannot be read";
    if (!wrong) {
        least = sizeof(struct weir_stats_header);
        stats = map_file("rw/stats", O_RDWR, PROT_READ | PROT_WRITE, least, &stats_size);
        wrong = stats ? check_stats(stats, stats_size, out) : "rw/stats: cannot be opened for writing";
    }
    if (wrong && control)
        munmap(control, control_size);
    if (wrong && stats)
        munmap(stats, stats_size);
    return wrong;
}

static const struct weir_slice *open_slice(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    uint64_t now = weir_coarse_now();
    if (!weir_present() || (atomic_load(&state) == UNUSABLE && now < atomic_load(&next_try)))
        return NULL;
    int saved = errno;
    pthread_mutex_lock(&opening);
    if (atomic_load(&state) != OPEN) {
        struct weir_slice fresh;
        const char *wrong = map_pages(&fresh);
        if (wrong) {
            weir_complain(&said, "weir: %s/%s; GPU memory is refused to this process", directory, wrong);
            atomic_store(&next_try, now + RETRY_NS);
        } else {
            current = fresh;
        }
        atomic_store(&state, wrong ? UNUSABLE : OPEN);
    }
    pthread_mutex_unlock(&opening);
    errno = saved;
    return atomic_load(&state) == OPEN ? &current : NULL;
}

const struct weir_slice *weir_slice(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now == OPEN, 1))
        return &current;
    return now == ABSENT ? NULL : open_slice();
}

bool weir_refusing(void)
{
    return weir_present() && weir_slice() == NULL;
}

void weir_slice_before_fork(void)
{
    pthread_mutex_lock(&opening);
}

void weir_slice_after_fork(void)
{
    pthread_mutex_unlock(&opening);
}

uint32_t weir_control_read(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy)
{
    const char *source = (const char *)slice->control + slice->control_header;
    source += (size_t)device * slice->control_stride;
    size_t known = offsetof(struct weir_control_device, reserved);
    size_t length = slice->control_stride < known ? slice->control_stride : known;
    uint32_t before = 0;
    if (out)
        memset((char *)out + length, 0, known - length);
    for (int tries = 0; tries < READ_TRIES; tries++) {
        before = weir_control_sequence(slice);
        if (out)
            memcpy(out, source, length);
        if (policy)
            *policy = slice->control->policy;
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && atomic_load_explicit(&slice->control->sequence, memory_order_relaxed) == before)
            return before;
    }
    return before;
}

uint64_t weir_memory_limit(const struct weir_slice *slice, uint32_t device)
{
    struct weir_control_device control;
    uint64_t now = weir_coarse_now();
    weir_control_read(slice, device, &control, NULL);
    uint64_t limit = control.memory_limit;
    if (weir_in_force(control.lease_deadline, now) && control.lease_memory_limit < limit)
        limit = control.lease_memory_limit;
    if (limit == WEIR_NO_LIMIT || !weir_in_force(control.unaccounted_deadline, now))
        return limit;
    return limit > control.unaccounted ? limit - control.unaccounted : 0;
}

bool weir_refuse_unknown(const struct weir_slice *slice)
{
    return slice->control->refuse_unknown != 0;
}
