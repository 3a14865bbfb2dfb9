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

CASES(CASE(pointers_say_what_they_are) CASE(unknown_pointers_are_answered_with_zeros_when_asked_for_several))
