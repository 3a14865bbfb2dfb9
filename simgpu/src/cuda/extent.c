/*
 * Card memory as the driver hands it out: up to model.packed_bytes packed into blocks, more in whole blocks.
 *
 * A block belongs to one context, one kind and one shelf, and goes back to the card when its last part is freed. Inside
 * it a bitmap with a bit for every 512 bytes says what is taken. Measured on the H200: 64 x 512 B takes 2 MiB, 64 x
 * 1 MiB takes 64 MiB, 64 x (1 MiB + 1 B) takes 128 MiB; arrays up to a whole block go where there is room.
 * What it does not do: record addresses.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

struct sim_block {
    uint64_t base;
    struct sim_context *context;
    enum sim_memory_kind kind;
    enum sim_shelf shelf;
    unsigned units, used;
    int shared_fd; /* -1: its bytes are private */
    struct sim_block *next;
    uint64_t taken[]; /* a bit for each unit */
};

static struct sim_block *blocks; /* of all contexts; the newest first */

CUresult sim_card_take(uint32_t device, enum sim_memory_kind kind, uint64_t bytes)
{
    if (!sim_memory_take(device, kind, bytes))
        return CUDA_SUCCESS;
    if (sim_pools_release_unused(device) && !sim_memory_take(device, kind, bytes))
        return CUDA_SUCCESS;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* `size` bytes of addresses, for which the card is charged `charged`. */
static CUresult charged_range(struct sim_context *context, enum sim_memory_kind kind, uint64_t size,
                              uint64_t charged, enum sim_shelf shelf, uint64_t *base)
{
    CUresult result = sim_card_take(context->device, kind, charged);
    if (result)
        return result;
    *base = sim_arena_take(size, sim_hardware->block_bytes, shelf == SIM_LOW);
    if (*base)
        return CUDA_SUCCESS;
    sim_memory_give(context->device, kind, charged);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- blocks ---- */

static bool unit_taken(const struct sim_block *block, unsigned unit)
{
    return block->taken[unit / 64] >> unit % 64 & 1;
}

static void mark(struct sim_block *block, unsigned first, unsigned count, bool taken)
{
    for (unsigned unit = first; unit < first + count; unit++) {
        if (taken)
            block->taken[unit / 64] |= UINT64_C(1) << unit % 64;
        else
            block->taken[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    }
    block->used += taken ? count : -count;
}

/* First run of `count` free units, or block->units. */
static unsigned first_fit(const struct sim_block *block, unsigned count)
{
    unsigned run = 0;
    if (block->units - block->used < count)
        return block->units;
    for (unsigned unit = 0; unit < block->units; unit++) {
        run = unit_taken(block, unit) ? 0 : run + 1;
        if (run == count)
            return unit + 1 - count;
    }
    return block->units;
}

static CUresult block_create(struct sim_context *context, enum sim_memory_kind kind,
                             enum sim_shelf shelf, struct sim_block **made)
{
    unsigned units = (unsigned)(sim_hardware->block_bytes / SIM_UNIT);
    struct sim_block *block = calloc(1, sizeof *block + units / 64 * sizeof(uint64_t));
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t bytes = sim_hardware->block_bytes;
    CUresult result = charged_range(context, kind, bytes, bytes, shelf, &block->base);
    if (result) {
        free(block);
        return result;
    }
    block->context = context;
    block->kind = kind;
    block->shelf = shelf;
    block->units = units;
    block->shared_fd = -1;
    block->next = blocks;
    *made = blocks = block;
    return CUDA_SUCCESS;
}

static void block_destroy(struct sim_block *block)
{
    struct sim_block **link = &blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (block->shared_fd >= 0)
        close(block->shared_fd);
    sim_arena_give(block->base);
    sim_memory_give(block->context->device, block->kind, sim_hardware->block_bytes);
    free(block);
}

static CUresult take_packed(uint64_t size, enum sim_shelf shelf, struct sim_extent *extent)
{
    unsigned count = (unsigned)(sim_round_up(size, SIM_UNIT) / SIM_UNIT);
    struct sim_block *block = blocks;
    unsigned first = 0;
    for (; block; block = block->next) {
        if (block->context != extent->context || block->kind != extent->kind || block->shelf != shelf)
            continue;
        if ((first = first_fit(block, count)) < block->units)
            break;
    }
    if (!block) {
        CUresult result = block_create(extent->context, extent->kind, shelf, &block);
        if (result)
            return result;
        first = 0;
    }
    mark(block, first, count, true);
    extent->block = block;
    extent->base = block->base + (uint64_t)first * SIM_UNIT;
    return CUDA_SUCCESS;
}

/* ---- extents ---- */

CUresult sim_extent_take(struct sim_context *context, enum sim_memory_kind kind, uint64_t size,
                         enum sim_shelf shelf, struct sim_extent *extent)
{
    *extent = (struct sim_extent){.size = size, .context = context, .kind = kind, .shared_fd = -1};
    if (size <= (kind == SIM_MEMORY_ARRAY ? sim_hardware->block_bytes : sim_hardware->packed_bytes))
        return take_packed(size, shelf, extent);
    if (size > sim_hardware->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    extent->charged = sim_round_up(size, sim_hardware->block_bytes);
    return charged_range(context, kind, extent->charged, extent->charged, shelf, &extent->base);
}

CUresult sim_extent_take_storage(struct sim_context *context, uint64_t size, uint64_t charged,
                                 struct sim_extent *extent)
{
    *extent = (struct sim_extent){
        .size = size, .charged = charged, .context = context, .kind = SIM_MEMORY_MODULE, .shared_fd = -1};
    return charged_range(context, extent->kind, sim_round_up(size, SIM_UNIT), charged, SIM_ANYWHERE, &extent->base);
}

void sim_extent_give(struct sim_extent *extent)
{
    if (!extent->block) {
        if (extent->shared_fd >= 0)
            close(extent->shared_fd);
        sim_arena_give(extent->base);
        sim_memory_give(extent->context->device, extent->kind, extent->charged);
        return;
    }
    struct sim_block *block = extent->block;
    unsigned first = (unsigned)((extent->base - block->base) / SIM_UNIT);
    mark(block, first, (unsigned)(sim_round_up(extent->size, SIM_UNIT) / SIM_UNIT), false);
    if (!block->used)
        block_destroy(block);
}

/* ---- sharing ---- */

/* Only what is not zero is written, so that pages nobody touched stay nobody's. */
static bool copy_to_file(uint64_t base, uint64_t size, int fd)
{
    static const char zeros[4096];
    for (uint64_t at = 0; at < size; at += sizeof zeros)
        if (memcmp((const void *)(base + at), zeros, sizeof zeros) &&
            pwrite(fd, (const void *)(base + at), sizeof zeros, (off_t)at) != (ssize_t)sizeof zeros)
            return false;
    return true;
}

/* The bytes at [base, base + size) move into a file that is mapped there instead. -1: they stay. */
static int move_to_file(uint64_t base, uint64_t size)
{
    int fd = sim_arena_file(size);
    if (fd < 0)
        return -1;
    if (copy_to_file(base, size, fd) && sim_arena_map(base, size, fd, 0))
        return fd;
    close(fd);
    return -1;
}

CUresult sim_extent_share(struct sim_extent *extent, int *fd, uint64_t *offset, uint64_t *size)
{
    struct sim_block *block = extent->block;
    int *shared = block ? &block->shared_fd : &extent->shared_fd;
    uint64_t base = block ? block->base : extent->base;
    *size = block ? sim_hardware->block_bytes : extent->charged;
    *offset = extent->base - base;
    if (*shared < 0)
        *shared = move_to_file(base, *size);
    *fd = *shared;
    return *fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
