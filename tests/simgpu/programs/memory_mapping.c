/*
 * Memory that the program maps by hand, one case each: how long it is charged, and what has to be whole.
 *
 * What it does not do: share it between processes (memory_share.c).
 */
#include "card.h"

static const CUmemLocation card = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

static CUmemGenericAllocationHandle physical(size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = card};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, size, &prop, 0));
    return handle;
}

static CUresult grant(CUdeviceptr pointer, size_t size)
{
    CUmemAccessDesc access = {.location = card, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemSetAccess(pointer, size, &access, 1);
}

static void physical_memory_stays_charged_while_anything_holds_it(void)
{
    CUdeviceptr range;
    open_card();
    CUmemGenericAllocationHandle handle = physical(4 * MIB), retained;
    OK(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
    OK(cuMemMap(range, 4 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    EQUAL(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    EQUAL(card_used(), CONTEXT + 4 * MIB); /* released while mapped */
    OK(cuMemRetainAllocationHandle(&retained, (void *)(range + MIB)));
    OK(cuMemUnmap(range, 4 * MIB));
    EQUAL(card_used(), CONTEXT + 4 * MIB); /* unmapped while retained */
    OK(cuMemRelease(retained));
    EQUAL(card_used(), CONTEXT);
}

static void bytes_follow_the_handle_to_other_addresses(void)
{
    CUdeviceptr one, two;
    open_card();
    CUmemGenericAllocationHandle handle = physical(2 * MIB);
    unsigned value = 0;
    OK(cuMemAddressReserve(&one, 2 * MIB, 0, 0, 0));
    OK(cuMemAddressReserve(&two, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(one, 2 * MIB, 0, handle, 0));
    EQUAL(cuMemsetD32(one, 1, 1), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    OK(grant(one, 2 * MIB));
    OK(cuMemsetD32(one + 8, 77, 1));
    OK(cuMemUnmap(one, 2 * MIB));
    EQUAL(cuMemsetD32(one, 1, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(two, 2 * MIB, 0, handle, 0));
    OK(cuMemMap(one, 2 * MIB, 0, handle, 0)); /* at both addresses at once, charged once */
    OK(grant(two, 2 * MIB));
    OK(grant(one, 2 * MIB));
    OK(cuMemcpyDtoH(&value, two + 8, 4));
    EQUAL(value, 77);
    OK(cuMemsetD32(one + 8, 78, 1));
    OK(cuMemcpyDtoH(&value, two + 8, 4));
    EQUAL(value, 78);
    EQUAL(card_used(), CONTEXT + 2 * MIB);
}

static void a_mapping_is_handled_whole(void)
{
    CUdeviceptr range;
    open_card();
    CUmemGenericAllocationHandle one = physical(4 * MIB), two = physical(2 * MIB);
    unsigned long long flags;
    OK(cuMemAddressReserve(&range, 8 * MIB, 4 * MIB, 0, 0));
    EQUAL(range % (4 * MIB), 0);
    EQUAL(cuMemMap(range + 8 * MIB, 2 * MIB, 0, two, 0), CUDA_ERROR_INVALID_VALUE); /* not reserved */
    EQUAL(cuMemMap(range, 4 * MIB, 0, two, 0), CUDA_ERROR_INVALID_VALUE);           /* larger than it is */
    EQUAL(cuMemMap(range, MIB, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(range, 4 * MIB, 0, one, 0));
    EQUAL(cuMemMap(range + 2 * MIB, 2 * MIB, 0, two, 0), CUDA_ERROR_INVALID_VALUE); /* taken */
    OK(cuMemMap(range + 4 * MIB, 2 * MIB, 0, two, 0));
    EQUAL(cuMemUnmap(range, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemUnmap(range, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    EQUAL(grant(range, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(grant(range, 6 * MIB));
    OK(cuMemsetD8(range + 3 * MIB, 5, 2 * MIB)); /* across both */
    OK(cuMemGetAccess(&flags, &card, range + 5 * MIB));
    EQUAL(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EQUAL(cuMemAddressFree(range, 8 * MIB), CUDA_ERROR_INVALID_VALUE); /* still mapped */
    OK(cuMemUnmap(range, 6 * MIB));
    OK(cuMemAddressFree(range, 8 * MIB));
    EQUAL(card_used(), CONTEXT + 6 * MIB);
    OK(cuMemRelease(one));
    OK(cuMemRelease(two));
    EQUAL(card_used(), CONTEXT);
}

CASES(CASE(physical_memory_stays_charged_while_anything_holds_it)
      CASE(bytes_follow_the_handle_to_other_addresses) CASE(a_mapping_is_handled_whole))
