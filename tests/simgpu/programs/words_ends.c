/*
 * Waits for words that cannot be, or that their stream, their context or their process does not outlive.
 */
#define _GNU_SOURCE /* gettid */
#include "words.h"

#include "two_processes.h"

static CUstream ready; /* with nothing in it */

static CUresult wait_for(CUdeviceptr address, unsigned flags)
{
    return cuStreamWaitValue64(ready, address, 0, flags);
}

static CUresult batch_of(unsigned count, CUstreamBatchMemOpType type, unsigned flags)
{
    static CUstreamBatchMemOpParams batch[256];
    for (unsigned i = 0; i < 256; i++)
        batch[i].memoryBarrier = (struct CUstreamMemOpMemoryBarrierParams_st){.operation = type, .flags = flags};
    return cuStreamBatchMemOp(ready, count, batch, 0);
}

static void what_cannot_be_is_refused(void)
{
    CUdeviceptr managed, device;
    void *read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t pageable = 0;
    start_with_words();
    ready = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&device, 64));
    OK(cuMemHostRegister(read_only, PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    EQUAL(wait_for(0, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(wait_for(word(0) + 4, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamWaitValue32(ready, word(0) + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(wait_for((CUdeviceptr)&pageable, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(wait_for(managed, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(wait_for(device + (2 << 20), 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(wait_for(word(0), 4), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamWriteValue32(ready, word(0), 0, 2), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamWriteValue32(ready, (CUdeviceptr)read_only, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamWriteValue32(ready, word(0), 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_NOT_SUPPORTED);
    EQUAL(batch_of(1, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0), CUDA_ERROR_NOT_SUPPORTED);
    EQUAL(batch_of(1, CU_STREAM_MEM_OP_BARRIER, 2), CUDA_ERROR_INVALID_VALUE);
    EQUAL(batch_of(1, (CUstreamBatchMemOpType)7, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(batch_of(0, CU_STREAM_MEM_OP_BARRIER, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(batch_of(256, CU_STREAM_MEM_OP_BARRIER, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamBatchMemOp(ready, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK(batch_of(255, CU_STREAM_MEM_OP_BARRIER, 0));
    OK(wait_for((CUdeviceptr)read_only, 0));
    OK(cuStreamSynchronize(ready));
}

/* By their exported names: cuda.h maps these to the second versions. */
#undef cuStreamWaitValue32
#undef cuStreamBatchMemOp
CUresult cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned);
CUresult cuStreamBatchMemOp(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);

static int attribute(CUdevice_attribute which)
{
    int value;
    OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void the_second_versions_are_supported_and_the_first_are_not(void)
{
    CUstreamBatchMemOpParams one = {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}};
    start_with_words();
    EQUAL(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 1);
    EQUAL(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR), 1);
    EQUAL(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1), 0);
    EQUAL(cuStreamWaitValue32(NULL, page, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    EQUAL(cuStreamBatchMemOp(NULL, 1, &one, 0), CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- ends ---- */

static void await_word(unsigned i)
{
    while (!words[i])
        sched_yield();
}

static void a_destroyed_stream_still_waits_and_goes_on(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue64(stream, word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue64(stream, word(1), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamDestroy(stream));
    EQUAL(words[1], 0);
    words[0] = 1;
    await_word(1);
}

static void a_context_ends_once_its_waits_are_open(void)
{
    pthread_t thread;
    start_with_words();
    OK(cuStreamWaitValue64(new_stream(CU_STREAM_NON_BLOCKING), word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    store_when_it_sleeps(&thread, &words[0]);
    OK(cuCtxDestroy(context));
    EQUAL(words[0], 1);
    OK(pthread_join(thread, NULL));
}

static void memory_that_is_gone_harms_nobody(void)
{
    start_with_words();
    CUstream waiter = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue64(waiter, word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemHostUnregister((void *)words));
    OK(munmap((void *)words, PAGE));
    OK(spin(other, MS));
    OK(cuStreamSynchronize(other));
    EQUAL(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
}

/* ---- other processes ---- */

static void wait_for_the_other(void)
{
    OK(cuMemHostRegister((void *)words, PAGE, 0));
    OK(cuStreamWaitValue64(NULL, (CUdeviceptr)words, 1, CU_STREAM_WAIT_VALUE_GEQ));
    turn_over();
    wait_turn();
    EQUAL(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    turn_over();
    OK(cuCtxSynchronize());
    OK(cuStreamWriteValue64(NULL, (CUdeviceptr)&words[1], 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void run_alone_and_open(void)
{
    wait_turn();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&spin_kernel, module, "weir_spin"));
    OK(spin(NULL, HEAD_START));
    CUevent from = mark(NULL);
    OK(spin(NULL, 50 * MS));
    EQUAL(between(from, mark(NULL)), 50000); /* two that compete get less than half each */
    turn_over();
    wait_turn();
    words[0] = 1;
    await_word(1);
}

static void a_waiting_process_leaves_the_card_to_others(void)
{
    words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    in_two_processes(wait_for_the_other, run_alone_and_open);
}

/* For a test that kills it, and one that sees it end. */
static void wait_for_ever(void)
{
    start_with_words();
    OK(cuStreamWaitValue64(NULL, word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(spin(NULL, MS));
    printf("started\n");
    fflush(stdout);
    getchar();
}

CASES(CASE(what_cannot_be_is_refused) CASE(the_second_versions_are_supported_and_the_first_are_not)
      CASE(a_destroyed_stream_still_waits_and_goes_on) CASE(a_context_ends_once_its_waits_are_open)
      CASE(memory_that_is_gone_harms_nobody) CASE(a_waiting_process_leaves_the_card_to_others)
      {"wait_for_ever", wait_for_ever})
