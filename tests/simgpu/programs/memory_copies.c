/*
 * Copies and memsets really move bytes, in every shape, captured or not, and refuse what leads nowhere.
 *
 * What it does not do: measure how long they take, beyond that they take longer for more.
 */
#include "card.h"

#define N 4096

static unsigned char pattern[N], back[N];

static CUdeviceptr card_with_pattern(void)
{
    CUdeviceptr pointer;
    open_card();
    for (int i = 0; i < N; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 256);
    OK(cuMemAlloc(&pointer, N));
    OK(cuMemcpyHtoD(pointer, pattern, N));
    return pointer;
}

static void bytes_come_back_from_every_route(void)
{
    CUdeviceptr one = card_with_pattern(), two;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&two, N));
    OK(cuMemcpyDtoD(two, one, N));
    OK(cuMemcpyDtoH(back, two, N));
    EQUAL(memcmp(back, pattern, N), 0);
    memset(back, 0, N);
    OK(cuMemcpyDtoDAsync(two + N / 2, one, N / 2, stream));
    OK(cuMemcpyDtoHAsync(back, two + N / 2, N / 2, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(memcmp(back, pattern, N / 2), 0);
    OK(cuMemcpy((CUdeviceptr)back, one, N)); /* a host address is an address too */
    EQUAL(memcmp(back, pattern, N), 0);
}

static void peers_exchange_bytes(void)
{
    CUdeviceptr here = card_with_pattern(), there;
    CUcontext first, second;
    OK(cuCtxGetCurrent(&first));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    OK(cuMemAlloc(&there, N));
    OK(cuMemcpyPeer(there, second, here, first, N));
    OK(cuMemcpyDtoH(back, there, N));
    EQUAL(memcmp(back, pattern, N), 0);
}

static void memsets_fill_elements_and_rows(void)
{
    CUdeviceptr pointer = card_with_pattern();
    OK(cuMemsetD8(pointer, 0xab, N));
    OK(cuMemsetD16(pointer + 2, 0x1234, 3));
    OK(cuMemsetD32(pointer + 16, 0xdeadbeef, 2));
    OK(cuMemsetD2D8(pointer + 256, 128, 0x55, 16, 4));
    OK(cuMemcpyDtoH(back, pointer, N));
    EQUAL(back[1], 0xab);
    EQUAL(back[2] | back[3] << 8, 0x1234);
    EQUAL(back[8], 0xab);
    EQUAL(*(unsigned *)(back + 20), 0xdeadbeef);
    EQUAL(back[256 + 3 * 128 + 15], 0x55);
    EQUAL(back[256 + 3 * 128 + 16], 0xab);
    EQUAL(back[256 + 4 * 128], 0xab);
    EQUAL(cuMemsetD32(pointer + 2, 1, 1), CUDA_ERROR_INVALID_VALUE); /* not aligned */
}

static void rectangles_and_boxes_keep_their_shape(void)
{
    CUdeviceptr pitched, pointer = card_with_pattern();
    size_t pitch;
    OK(cuMemAllocPitch(&pitched, &pitch, 60, 8, 4));
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = pointer,
                        .srcPitch = 64,
                        .srcXInBytes = 4,
                        .srcY = 1,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = pitched,
                        .dstPitch = pitch,
                        .WidthInBytes = 60,
                        .Height = 8};
    OK(cuMemcpy2D(&in));
    OK(cuMemcpyDtoH(back, pitched + 3 * pitch, 60));
    EQUAL(memcmp(back, pattern + 4 * 64 + 4, 60), 0);
    in.Height = 9;
    EQUAL(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE); /* a row too many */
    in.Height = 8, in.srcPitch = 32;
    EQUAL(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE); /* rows would overlap */
    in.srcPitch = 64, in.srcY = SIZE_MAX / 64 + 1;
    EQUAL(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = pointer,
                         .srcPitch = 16,
                         .srcHeight = 16,
                         .srcZ = 2,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .dstPitch = 8,
                         .dstHeight = 4,
                         .WidthInBytes = 8,
                         .Height = 4,
                         .Depth = 3};
    OK(cuMemcpy3D(&box));
    EQUAL(memcmp(back + 2 * 32 + 8, pattern + 4 * 256 + 16, 8), 0);
}

static void arrays_hold_what_is_copied_into_them(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 16, .Height = 8, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 64, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1}, told;
    CUdeviceptr pointer = card_with_pattern();
    CUarray box, rows;
    OK(cuArray3DCreate(&box, &shape));
    OK(cuArrayCreate(&rows, &flat));
    OK(cuArrayGetDescriptor(&told, rows));
    EQUAL(told.Width * 1000 + told.Height, 64004);
    OK(cuMemcpyDtoA(rows, 64, pointer, 64)); /* its second row */
    OK(cuMemcpyAtoH(back, rows, 64, 64));
    EQUAL(memcmp(back, pattern, 64), 0);
    EQUAL(cuMemcpyHtoA(rows, 256, pattern, 1), CUDA_ERROR_INVALID_VALUE); /* behind its end */
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = pattern,
                          .srcPitch = 16,
                          .srcHeight = 8,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = box,
                          .WidthInBytes = 16,
                          .Height = 8,
                          .Depth = 4};
    OK(cuMemcpy3D(&copy));
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = box,
                           .srcZ = 3,
                           .srcY = 2,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = back,
                           .WidthInBytes = 16,
                           .Height = 1,
                           .Depth = 1};
    OK(cuMemcpy3D(&copy));
    EQUAL(memcmp(back, pattern + 3 * 128 + 2 * 16, 16), 0);
    copy.srcZ = SIZE_MAX;
    EQUAL(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.srcZ = 4;
    EQUAL(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
}

static void an_address_that_leads_nowhere_is_refused(void)
{
    CUdeviceptr pointer = card_with_pattern(), range;
    EQUAL(cuMemcpyDtoH(back, pointer + 1, N), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemcpyDtoH(NULL, pointer, N), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemcpyDtoH(back, pointer, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemsetD32(pointer, 0, SIZE_MAX / 2 + 2), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemsetD2D8(pointer, SIZE_MAX / 2 + 1, 0, 1, 3), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemsetD8(pointer, 0, N + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
    EQUAL(cuMemcpyHtoD(range, pattern, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(pointer));
    EQUAL(cuMemcpyDtoH(back, pointer, 1), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemcpyDtoHAsync(back, pointer, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyDtoH(back, pointer, 0));
}

static void a_copy_takes_its_time_on_the_stream(void)
{
    CUdeviceptr small, large;
    CUevent begin, between, end;
    float short_one, long_one;
    open_card();
    OK(cuMemAlloc(&small, 64 * MIB));
    OK(cuMemAlloc(&large, 64 * MIB));
    OK(cuEventCreate(&begin, 0));
    OK(cuEventCreate(&between, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventRecord(begin, NULL));
    OK(cuMemcpyDtoDAsync(large, small, MIB, NULL));
    OK(cuEventRecord(between, NULL));
    OK(cuMemcpyDtoDAsync(large, small, 64 * MIB, NULL));
    OK(cuEventRecord(end, NULL));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&short_one, begin, between));
    OK(cuEventElapsedTime(&long_one, between, end));
    REQUIRE(short_one > 0 && long_one > short_one);
}

/* ---- captured ---- */

static void a_captured_allocation_lives_from_launch_to_free(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr pointer;
    cuuint64_t used, reserved;
    open_card();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(&pointer, 5 * MIB, stream));
    OK(cuMemsetD8Async(pointer, 0x5a, N, stream));
    OK(cuMemcpyDtoHAsync(back, pointer, N, stream));
    OK(cuMemFreeAsync(pointer, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    EQUAL(back[7], 0);
    EQUAL(card_used(), CONTEXT);
    for (int i = 0; i < 2; i++) {
        back[7] = 0;
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        EQUAL(back[7], 0x5a);
        OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
        OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
        EQUAL(used, 0);
        EQUAL(reserved, 6 * MIB);
        EQUAL(card_used(), CONTEXT + 6 * MIB); /* the second launch uses it again */
    }
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(card_used(), CONTEXT);
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
    EQUAL(used, 6 * MIB);
}

static void calls_that_would_break_a_capture_are_refused(void)
{
    CUdeviceptr pointer;
    CUstream stream;
    CUgraph graph;
    open_card();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EQUAL(cuMemAlloc(&pointer, N), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemAlloc(&pointer, N));
}

CASES(CASE(bytes_come_back_from_every_route) CASE(peers_exchange_bytes) CASE(memsets_fill_elements_and_rows)
      CASE(rectangles_and_boxes_keep_their_shape) CASE(arrays_hold_what_is_copied_into_them)
      CASE(an_address_that_leads_nowhere_is_refused) CASE(a_copy_takes_its_time_on_the_stream)
      CASE(a_captured_allocation_lives_from_launch_to_free)
      CASE(calls_that_would_break_a_capture_are_refused))
