/*
 * Where device addresses come from: one huge private mapping, handed out in ranges.
 *
 * Pages appear when they are touched and go when their range is given back, so gigabytes that nobody writes
 * cost nothing. Ranges are placed behind the latest one, so that a stale pointer is refused for long and
 * not soon valid again. The calls of CUDA's first version, whose device pointers have 32 bits, get a small
 * arena below 4 GiB. What it does not do: charge a card.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define LARGEST (UINT64_C(1) << 45)
#define SMALLEST (UINT64_C(1) << 37)
#define LOW_SIZE (UINT64_C(1) << 29) /* the kernel looks for it in 1 GiB */
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

struct arena {
    uint64_t base, size, cursor;
    struct sim_ranges taken;
};

static struct arena high_arena, low_arena;

static bool within(const struct arena *arena, uint64_t address)
{
    return address - arena->base < arena->size;
}

static bool reserve(struct arena *arena, uint64_t size, int flags)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, PRIVATE | flags, -1, 0);
    if (base == MAP_FAILED)
        return false;
    madvise(base, size, MADV_DONTDUMP);
    *arena = (struct arena){.base = (uint64_t)base, .size = size, .cursor = (uint64_t)base};
    return true;
}

static bool ready(struct arena *arena)
{
    if (arena->size)
        return true;
    if (arena == &low_arena)
#ifdef MAP_32BIT
        return reserve(arena, LOW_SIZE, MAP_32BIT);
#else
        return false;
#endif
    for (uint64_t size = LARGEST; size >= SMALLEST; size /= 2)
        if (reserve(arena, size, 0))
            return true;
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        fputs("simgpu: no address space for device memory; it needs 128 GiB (see ulimit -v)\n", stderr);
    return false;
}

uint64_t sim_arena_take(uint64_t size, uint64_t align, bool low)
{
    struct arena *arena = low ? &low_arena : &high_arena;
    if (!ready(arena) || size > arena->size)
        return 0;
    uint64_t end = arena->base + arena->size;
    uint64_t base = sim_ranges_gap(&arena->taken, arena->cursor, end, size, align);
    if (!base)
        base = sim_ranges_gap(&arena->taken, arena->base, end, size, align);
    if (!base || !sim_ranges_insert(&arena->taken, base, size, NULL))
        return 0;
    arena->cursor = base + size;
    return base;
}

bool sim_arena_take_at(uint64_t address, uint64_t size)
{
    struct arena *arena = &high_arena;
    if (!ready(arena) || !within(arena, address) || size > arena->base + arena->size - address)
        return false;
    return sim_ranges_gap(&arena->taken, address, address + size, size, 1) == address &&
           sim_ranges_insert(&arena->taken, address, size, NULL);
}

void sim_arena_give(uint64_t base)
{
    struct arena *arena = within(&low_arena, base) ? &low_arena : &high_arena;
    struct sim_range *range = sim_ranges_find(&arena->taken, base);
    if (!range || range->base != base)
        return;
    sim_arena_clear(base, range->size);
    sim_ranges_remove(&arena->taken, base);
}

bool sim_arena_contains(uint64_t address)
{
    return within(&high_arena, address) || within(&low_arena, address);
}

int sim_arena_file(uint64_t size)
{
    int fd = (int)syscall(SYS_memfd_create, "simgpu-memory", MFD_CLOEXEC); /* glibc has it since 2.27 only */
    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int sim_arena_file_of(pid_t process, int number, uint64_t inode, uint64_t size)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file) || file.st_ino != inode || (uint64_t)file.st_size != size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool sim_arena_map(uint64_t address, uint64_t size, int fd, uint64_t offset)
{
    void *at = (void *)address;
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == at;
}

/* A new mapping and not MADV_DONTNEED, which would leave a file's pages in place. */
void sim_arena_clear(uint64_t address, uint64_t size)
{
    void *at = (void *)address;
    if (mmap(at, size, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED, -1, 0) == at)
        madvise(at, size, MADV_DONTDUMP);
}
