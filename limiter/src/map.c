/*
 * Maps the two pages of the slice and checks them; says what has become of a page's file.
 *
 * Nothing in a page is believed before its bounds are checked, once, when it is mapped: sizes and strides are copied
 * into struct weir_slice and read from there. The stats page is mapped here without any lock on it, so a child may
 * inherit the mapping; what makes a process count as alive is in slots.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"
#include "internal.h"

#define MOST 65536 /* of a header or a stride: far more than any version will have */

static bool path_of(const char *name, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s", weir_slice_directory(), name);
    return length > 0 && length < PATH_MAX;
}

static int open_page(const char *name, int flags)
{
    char path[PATH_MAX];
    if (!path_of(name, path))
        return -1;
    return weir_open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe would keep us waiting */
}

/* Maps a whole page file; false if there is none or it is shorter than its header. */
static bool map_file(const char *name, int flags, int protection, size_t least, struct weir_mapping *mapping)
{
    struct stat file;
    int fd = open_page(name, flags);
    if (fd < 0)
        return false;
    void *page = MAP_FAILED;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= (off_t)least)
        page = mmap(NULL, (size_t)file.st_size, protection, MAP_SHARED, fd, 0);
    weir_close(fd);
    if (page == MAP_FAILED)
        return false;
    mapping->device = file.st_dev;
    mapping->file = file.st_ino;
    mapping->start = page;
    mapping->size = (size_t)file.st_size;
    return true;
}

static bool is_file(const struct weir_mapping *mapping, const struct stat *file)
{
    return file->st_dev == mapping->device && file->st_ino == mapping->file;
}

static void unmap(struct weir_mapping *mapping)
{
    if (mapping->start)
        munmap(mapping->start, mapping->size);
    *mapping = (struct weir_mapping){.start = NULL};
}

void weir_unmap_pages(struct weir_own *own)
{
    unmap(&own->control);
    unmap(&own->stats);
}

int weir_open_stats(const struct weir_slice *slice)
{
    struct stat file;
    int fd = open_page("rw/stats", O_RDWR);
    if (fd < 0)
        return -1;
    if (fstat(fd, &file) == 0 && is_file(&slice->own->stats, &file))
        return fd;
    weir_close(fd);
    errno = ESTALE;
    return -1;
}

enum weir_page_change weir_page_change(const char *name, const struct weir_mapping *mapping)
{
    char path[PATH_MAX];
    struct stat file;
    if (!path_of(name, path) || lstat(path, &file) != 0)
        return WEIR_PAGE_GONE;
    if (!is_file(mapping, &file))
        return WEIR_PAGE_REPLACED;
    return file.st_size < (off_t)mapping->size ? WEIR_PAGE_CUT : WEIR_PAGE_SAME;
}

bool weir_mapping_replace(struct weir_mapping *mapping)
{
    atomic_store(&mapping->replaced, true);
    return mmap(mapping->start, mapping->size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* NULL, or what is wrong with the control page. */
static const char *check_control(const struct weir_control_header *header, size_t size, struct weir_slice *out)
{
    size_t stride = header->device_stride;
    if (header->magic != WEIR_CONTROL_MAGIC)
        return "control: not a control page";
    if (header->major != WEIR_PAGE_MAJOR)
        return "control: a format of another major version";
    if (header->header_size < offsetof(struct weir_control_header, reserved) || header->header_size % 8 ||
        header->header_size > MOST)
        return "control: header_size out of range";
    if (header->device_count < 1 || header->device_count > WEIR_MAX_DEVICES)
        return "control: device_count out of range";
    if (stride < offsetof(struct weir_control_device, lease_deadline) || stride % 8 || stride > MOST)
        return "control: device_stride out of range";
    if (header->header_size > size || header->device_count * stride > size - header->header_size)
        return "control: the file is too short";
    out->control = header;
    out->device_count = header->device_count;
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
    if (header->header_size < sizeof *header || header->header_size % 8 || header->header_size > MOST)
        return "rw/stats: header_size out of range";
    if (header->device_stride < sizeof(struct weir_stats_device) || header->device_stride % 8 ||
        header->device_stride > MOST)
        return "rw/stats: device_stride out of range";
    if (header->slot_stride < slot || header->slot_stride % 8 || header->slot_stride > MOST)
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

const char *weir_map_pages(struct weir_slice *out)
{
    struct weir_own *own = out->own;
    size_t least = offsetof(struct weir_control_header, reserved);
    const char *wrong = "control: cannot be read";
    if (map_file("control", O_RDONLY, PROT_READ, least, &own->control))
        wrong = check_control(own->control.start, own->control.size, out);
    if (!wrong) {
        least = sizeof(struct weir_stats_header);
        wrong = "rw/stats: cannot be opened for writing";
        if (map_file("rw/stats", O_RDWR, PROT_READ | PROT_WRITE, least, &own->stats))
            wrong = check_stats(own->stats.start, own->stats.size, out);
    }
    if (wrong)
        weir_unmap_pages(own);
    for (uint32_t device = 0; !wrong && device < out->device_count; device++)
        weir_control_copy(out, device, &own->kept[device]);
    return wrong;
}
