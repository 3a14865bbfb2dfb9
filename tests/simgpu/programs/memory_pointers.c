/*
 * What a program can ask of a pointer, one case each.
 *
 * What it does not do: cover every attribute; those that programs tell memory apart by.
 */
#include "card.h"

#define N 4096

static unsigned char back[N]; /* memory that CUDA does not know */

static unsigned attribute(CUpointer_attribute which, CUdeviceptr pointer)
{
    unsigned long long value = 0;
    OK(cuPointerGetAttribute(&value, which, pointer));
    return (unsigned)value;
}

static void pointers_say_what_they_are(void)
{
    CUdeviceptr pointer, managed, async, start;
    CUmemoryPool pool, default_pool;
    size_t size;
    void *host;
    CUcontext context = open_card(), told;
    OK(cuMemAlloc(&pointer, N));
    OK(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost(&host, N));
    OK(cuMemAllocAsync(&async, N, NULL));
    EQUAL(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_DEVICE);
    EQUAL(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host), CU_MEMORYTYPE_HOST);
    EQUAL(attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer), 0);
    EQUAL(attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1);
    EQUAL(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + 5), 0);
    REQUIRE(attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer) != attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, managed));
    OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
    REQUIRE(told == context);
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 99));
    OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 99));
    REQUIRE(start == pointer && size == N);
    OK(cuDeviceGetDefaultMemPool(&default_pool, 0));
    OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, async));
    REQUIRE(pool == default_pool);
    EQUAL(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)back), CUDA_ERROR_INVALID_VALUE);
}

static void unknown_pointers_are_answered_with_zeros_when_asked_for_several(void)
{
    unsigned type = 9;
    int ordinal = 9;
    CUdeviceptr start = 9;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *data[] = {&type, &ordinal, &start};
    open_card();
    OK(cuPointerGetAttributes(3, which, data, (CUdeviceptr)back));
    EQUAL(type, 0);
    EQUAL(ordinal, CU_DEVICE_INVALID);
    EQUAL(start, 0);
}

#if CUDA_VERSION >= 13000
#define PLACE(ordinal) ((CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal})
#else
#define PLACE(ordinal) (ordinal)
#endif

static int range_attribute(CUmem_range_attribute which, CUdeviceptr pointer, size_t count)
{
    int value = 99;
    OK(cuMemRangeGetAttribute(&value, sizeof value, which, pointer, count));
    return value;
}

static void managed_memory_remembers_what_it_was_advised(void)
{
    CUdeviceptr managed, other;
    int cards[3] = {9, 9, 9};
    open_card();
    OK(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&other, N));
    EQUAL(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, N), CU_DEVICE_INVALID);
    OK(cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, PLACE(1)));
    OK(cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_ACCESSED_BY, PLACE(0)));
    OK(cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_READ_MOSTLY, PLACE(0)));
#if CUDA_VERSION >= 13000
    OK(cuMemPrefetchAsync(managed, N, PLACE(0), 0, NULL));
#else
    OK(cuMemPrefetchAsync(managed, N, 0, NULL));
#endif
    EQUAL(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed + 8, 16), 1);
    EQUAL(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, N), 0);
    EQUAL(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, N), 1);
    OK(cuMemRangeGetAttribute(cards, sizeof cards, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, N));
    REQUIRE(cards[0] == 0 && cards[1] == CU_DEVICE_INVALID && cards[2] == CU_DEVICE_INVALID);
    EQUAL(cuMemRangeGetAttribute(cards, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, N), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAdvise(managed, N + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, PLACE(0)), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAdvise(other, N, CU_MEM_ADVISE_SET_READ_MOSTLY, PLACE(0)), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_ACCESSED_BY, PLACE(7)), CUDA_ERROR_INVALID_DEVICE);
}

CASES(CASE(pointers_say_what_they_are) CASE(unknown_pointers_are_answered_with_zeros_when_asked_for_several)
      CASE(managed_memory_remembers_what_it_was_advised))
