/*
 * Pools and stream order, one case each: what a pool keeps and gives back, and who may use freed memory when.
 *
 * What it does not do: pools in a capture (memory_copies.c).
 */
#include <semaphore.h>

#include "card.h"

static const CUmemLocation card = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

static uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void a_pool_keeps_up_to_its_threshold(void)
{
    CUmemoryPool pool, other;
    CUdeviceptr one, two;
    cuuint64_t threshold = 32 * MIB, zero = 0;
    open_card();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuDeviceGetMemPool(&other, 0));
    REQUIRE(pool == other);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemAllocAsync(&one, 20 * MIB, NULL));
    OK(cuMemAllocAsync(&two, 20 * MIB, NULL));
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * MIB);
    OK(cuMemFreeAsync(one, NULL));
    OK(cuMemFreeAsync(two, NULL));
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 40 * MIB);
    OK(cuStreamSynchronize(NULL));
    EQUAL(card_used(), CONTEXT + 32 * MIB);
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(card_used(), CONTEXT);
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
    EQUAL(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &threshold), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
    EQUAL(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

static void a_destroyed_pool_goes_with_its_last_allocation(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = card, .maxSize = 64 * MIB};
    CUmemoryPool pool, current;
    CUdeviceptr pointer, another;
    open_card();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuMemAllocAsync(&pointer, 33 * MIB, NULL));
    EQUAL(cuMemAllocAsync(&another, 33 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY); /* beyond maxSize */
    OK(cuMemPoolDestroy(pool));
    OK(cuDeviceGetMemPool(&current, 0));
    REQUIRE(current != pool);
    EQUAL(card_used(), CONTEXT + 64 * MIB);
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuCtxSynchronize());
    EQUAL(card_used(), CONTEXT);
}

static void wait_until_opened(void *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

static void freed_pool_memory_is_used_again_in_stream_order(void)
{
    CUstream one, two;
    CUdeviceptr first, again, elsewhere;
    sem_t opened;
    open_card();
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    sem_init(&opened, 0, 0);
    OK(cuMemAllocAsync(&first, 32 * MIB, one));
    OK(cuLaunchHostFunc(one, wait_until_opened, &opened)); /* the free lies behind this */
    OK(cuMemFreeAsync(first, one));
    OK(cuMemAllocAsync(&elsewhere, 32 * MIB, two));
    OK(cuMemAllocAsync(&again, 32 * MIB, one));
    REQUIRE(again == first && elsewhere != first);
    OK(cuMemFreeAsync(again, one));
    OK(cuStreamSynchronize(two));
    EQUAL(card_used(), CONTEXT + 64 * MIB); /* the first is not free yet */
    sem_post(&opened);
    OK(cuStreamSynchronize(one));
    EQUAL(card_used(), CONTEXT + 32 * MIB);
}

static void a_full_card_takes_back_what_pools_hold_unused(void)
{
    CUmemoryPool pool;
    CUdeviceptr pointer;
    cuuint64_t all = UINT64_MAX;
    size_t left;
    open_card();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocAsync(&pointer, 1024 * MIB, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuCtxSynchronize());
    EQUAL(card_used(), CONTEXT + 1024 * MIB);
    OK(cuMemGetInfo(&left, NULL));
    OK(cuMemAlloc(&pointer, left + 512 * MIB));
    EQUAL(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

static void take_a_while(void *unused)
{
    (void)unused;
    usleep(50000);
}

static void a_full_card_waits_for_frees_under_way(void)
{
    CUstream one, two;
    CUdeviceptr first, second;
    open_card();
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&first, 100000 * MIB, one));
    OK(cuLaunchHostFunc(one, take_a_while, NULL));
    OK(cuMemFreeAsync(first, one));
    OK(cuMemAllocAsync(&second, 100000 * MIB, two));
    EQUAL(cuMemAllocAsync(&first, 100000 * MIB, one), CUDA_ERROR_OUT_OF_MEMORY);
}

CASES(CASE(a_pool_keeps_up_to_its_threshold) CASE(a_destroyed_pool_goes_with_its_last_allocation)
      CASE(freed_pool_memory_is_used_again_in_stream_order)
      CASE(a_full_card_takes_back_what_pools_hold_unused) CASE(a_full_card_waits_for_frees_under_way))
