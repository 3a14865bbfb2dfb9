/*
 * What CUDA promises about memory, one case each: who may free what, when bytes are charged, what is refused.
 *
 * Each case runs alone in a process on a fresh machine. What it does not do: pools, mapping by hand, copies and
 * sharing, which have programs of their own.
 */
#include <pthread.h>

#include "card.h"

static const CUmemLocation card = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

static CUcontext new_context(CUdevice device)
{
    CUcontext context;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&context, NULL, 0, device));
#else
    OK(cuCtxCreate(&context, 0, device));
#endif
    return context;
}

/* ---- sync ---- */

static void a_full_card_refuses_exactly_what_does_not_fit(void)
{
    CUdeviceptr first, pointer;
    size_t left, total;
    void *host;
    open_card();
    OK(cuMemAlloc(&first, 2 * MIB));
    for (uint64_t step = 4096 * MIB; step >= 2 * MIB; step /= 2)
        while (!cuMemAlloc(&pointer, step))
            ;
    OK(cuMemGetInfo(&left, &total));
    EQUAL(total, 143155 * MIB);
    REQUIRE(left < 2 * MIB);
    EQUAL(cuMemAlloc(&pointer, 512), CUDA_ERROR_OUT_OF_MEMORY); /* a new block would be needed */
    OK(cuMemHostAlloc(&host, 64 * MIB, 0)); /* the host is not full */
    OK(cuMemFree(first));
    OK(cuMemAlloc(&pointer, 512));
}

static void a_refused_request_is_not_charged(void)
{
    CUdeviceptr pointer = 42;
    CUarray array;
    size_t pitch;
    void *host;
    CUmemGenericAllocationHandle handle;
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 << 18, .Height = 1 << 18, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = card};
    open_card();
    EQUAL(cuMemAlloc(&pointer, 143155 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAlloc(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAllocManaged(&pointer, 143155 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAllocAsync(&pointer, 143155 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAllocAsync(&pointer, SIZE_MAX, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAllocPitch(&pointer, &pitch, SIZE_MAX, 1, 4), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAllocPitch(&pointer, &pitch, 1, SIZE_MAX / 2, 4), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAddressReserve(&pointer, UINT64_MAX - 2 * MIB + 1, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemHostAlloc(&host, SIZE_MAX, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuArray3DCreate(&array, &shape), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemCreate(&handle, 143156 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemAlloc(NULL, 512), CUDA_ERROR_INVALID_VALUE);
    EQUAL(pointer, 42);
    EQUAL(card_used(), CONTEXT);
    EQUAL(process_used(), CONTEXT);
}

static void *free_it(void *pointer)
{
    new_context(0);
    OK(cuMemFree((CUdeviceptr)pointer));
    return NULL;
}

static void memory_is_freed_from_any_thread_and_context(void)
{
    CUdeviceptr pointer;
    pthread_t thread;
    open_card();
    OK(cuMemAlloc(&pointer, 8 * MIB));
    pthread_create(&thread, NULL, free_it, (void *)pointer);
    pthread_join(thread, NULL);
    EQUAL(card_used(), 2 * CONTEXT);
}

static void freeing_on_another_current_card_credits_the_right_one(void)
{
    CUdeviceptr pointer;
    CUcontext first = open_card();
    OK(cuMemAlloc(&pointer, 8 * MIB));
    new_context(1);
    OK(cuMemFree(pointer));
    EQUAL(card_used(), CONTEXT);
    OK(cuCtxSetCurrent(first));
    EQUAL(card_used(), CONTEXT);
}

static void what_is_not_an_allocation_cannot_be_freed(void)
{
    CUdeviceptr pointer;
    int local;
    open_card();
    OK(cuMemAlloc(&pointer, 4096));
    EQUAL(cuMemFree(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemFree((CUdeviceptr)&local), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemFreeAsync((CUdeviceptr)&local, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    OK(cuMemFree(pointer));
    EQUAL(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
}

static void plain_memory_can_be_freed_in_a_stream(void)
{
    CUdeviceptr pointer;
    CUstream stream;
    open_card();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&pointer, 4 * MIB));
    OK(cuMemFreeAsync(pointer, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(card_used(), CONTEXT);
    EQUAL(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
}

static void a_context_that_ends_takes_its_memory_along(void)
{
    CUdeviceptr pointer;
    CUarray array;
    void *host;
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1 << 10, .Height = 1 << 12, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUcontext kept = open_card(), ended = new_context(0);
    OK(cuMemAllocAsync(&pointer, 4096, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuMemAlloc(&pointer, 4096));
    OK(cuMemAlloc(&pointer, 8 * MIB));
    OK(cuMemAllocManaged(&pointer, 8 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuArrayCreate(&array, &shape));
    OK(cuMemAllocHost(&host, 4096));
    EQUAL(card_used(), 2 * CONTEXT + (34 + 32) * MIB);
    OK(cuCtxDestroy(ended));
    OK(cuCtxSetCurrent(kept));
    EQUAL(card_used(), CONTEXT);
    EQUAL(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
}

static void queries_answer_with_either_pointer_missing(void)
{
    CUdeviceptr pointer, base;
    size_t size, left;
    open_card();
    OK(cuMemAlloc(&pointer, 4096));
    OK(cuMemGetInfo(NULL, &size));
    OK(cuMemGetInfo(&left, NULL));
    EQUAL(size - left, CONTEXT + 2 * MIB);
    OK(cuMemGetAddressRange(&base, NULL, pointer + 100));
    OK(cuMemGetAddressRange(NULL, &size, pointer + 100));
    EQUAL(base, pointer);
    EQUAL(size, 4096);
    EQUAL(cuMemGetAddressRange(&base, &size, pointer + 4096), CUDA_ERROR_NOT_FOUND);
}

static void memory_registered_twice_is_refused_even_in_part(void)
{
    static char bytes[3 * 4096];
    CUdeviceptr pointer;
    open_card();
    OK(cuMemHostRegister(bytes + 2048, 1000, 0));
    EQUAL(cuMemHostRegister(bytes, sizeof bytes, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EQUAL(cuMemHostRegister(bytes + 3000, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer(&pointer, bytes + 3000, 0));
    OK(cuMemHostUnregister(bytes + 2048));
    OK(cuMemHostRegister(bytes, sizeof bytes, 0));
    EQUAL(cuMemHostUnregister(bytes + 2048), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* ---- arrays ---- */

static void deferred_arrays_tell_what_they_need_and_take_nothing(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 256, .Height = 129, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUarray array;
    CUmipmappedArray mipmap;
    open_card();
    OK(cuArray3DCreate(&array, &shape));
    EQUAL(cuArrayGetMemoryRequirements(&needs, array, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuArrayDestroy(array));
    shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    OK(cuArray3DCreate(&array, &shape));
    OK(cuArrayGetMemoryRequirements(&needs, array, 0));
    EQUAL(needs.size, 256 * 1024);
    OK(cuMipmappedArrayCreate(&mipmap, &shape, 2));
    OK(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0));
    EQUAL(needs.size, (256 + 64) * 1024);
    EQUAL(card_used(), CONTEXT);
    OK(cuMipmappedArrayDestroy(mipmap));
    OK(cuArrayDestroy(array));
}

static void levels_halve_down_to_one_texel(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 256, .Height = 128, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, told;
    CUarray level;
    CUmipmappedArray mipmap;
    open_card();
    OK(cuMipmappedArrayCreate(&mipmap, &shape, 99)); /* as many as there can be: 256 is halved eight times */
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 8));
    OK(cuArray3DGetDescriptor(&told, level));
    EQUAL(told.Width * 1000 + told.Height, 1001);
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    OK(cuArray3DGetDescriptor(&told, level));
    EQUAL(told.Width * 1000 + told.Height, 32016);
    EQUAL(cuMipmappedArrayGetLevel(&level, mipmap, 9), CUDA_ERROR_INVALID_VALUE);
    shape.NumChannels = 3;
    EQUAL(cuArray3DCreate(&level, &shape), CUDA_ERROR_INVALID_VALUE);
}

/* ---- first version ---- */

CUresult cuMemAlloc_first(unsigned *pointer, unsigned size) __asm__("cuMemAlloc");
CUresult cuMemcpyHtoD_first(unsigned to, const void *from, unsigned size) __asm__("cuMemcpyHtoD");
CUresult cuMemcpyDtoH_first(void *to, unsigned from, unsigned size) __asm__("cuMemcpyDtoH");
CUresult cuMemFree_first(unsigned pointer) __asm__("cuMemFree");

static void the_first_version_has_pointers_of_32_bits(void)
{
    unsigned pointer, value = 9, back = 0;
    open_card();
    OK(cuMemAlloc_first(&pointer, 4096));
    OK(cuMemcpyHtoD_first(pointer, &value, sizeof value));
    OK(cuMemcpyDtoH_first(&back, pointer, sizeof back));
    EQUAL(back, 9);
    EQUAL(card_used(), CONTEXT + 2 * MIB);
    OK(cuMemFree_first(pointer));
    EQUAL(card_used(), CONTEXT);
}

CASES(CASE(a_full_card_refuses_exactly_what_does_not_fit) CASE(a_refused_request_is_not_charged)
      CASE(memory_is_freed_from_any_thread_and_context)
      CASE(freeing_on_another_current_card_credits_the_right_one)
      CASE(what_is_not_an_allocation_cannot_be_freed) CASE(plain_memory_can_be_freed_in_a_stream)
      CASE(a_context_that_ends_takes_its_memory_along)
      CASE(memory_registered_twice_is_refused_even_in_part) CASE(queries_answer_with_either_pointer_missing)
      CASE(deferred_arrays_tell_what_they_need_and_take_nothing)
      CASE(levels_halve_down_to_one_texel) CASE(the_first_version_has_pointers_of_32_bits))
