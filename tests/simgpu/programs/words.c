/*
 * Streams that wait for words in memory and write them: what opens a wait, when, and in which order.
 *
 * What such calls refuse, and what becomes of a wait that never ends, is in words_ends.c.
 */
#define _GNU_SOURCE /* gettid */
#include "words.h"

/* ---- what opens a wait ---- */

static void a_store_opens_a_wait_of_64_bits(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue64(stream, word(0), UINT64_C(1) << 40, CU_STREAM_WAIT_VALUE_GEQ));
    CUevent after = mark(stream);
    words[0] = (UINT64_C(1) << 40) - 1;
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    words[0]++;
    OK(cuEventSynchronize(after));
    OK(cuStreamQuery(stream));
}

static void a_store_opens_a_wait_of_32_bits(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    words[1] = UINT64_C(0xffffffff00000002); /* a neighbour's bits don't count */
    OK(cuStreamWaitValue32(stream, word(1), 3, CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH));
    CUevent after = mark(stream);
    REQUIRE(!passed(after));
    words[1]++;
    OK(cuEventSynchronize(after));
}

static void a_store_by_another_thread_ends_a_synchronize(void)
{
    pthread_t thread;
    start_with_words();
    OK(cuStreamWaitValue64(NULL, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
    store_when_it_sleeps(&thread, &words[0]);
    OK(cuCtxSynchronize());
    EQUAL(words[0], 1);
    OK(pthread_join(thread, NULL));
}

#define HIGH (UINT64_C(1) << 40) /* a bit that a wait of 32 bits does not see */

static const struct {
    unsigned bits, condition;
    uint64_t value, closed, open;
} waits[] = {
    {64, CU_STREAM_WAIT_VALUE_GEQ, HIGH, HIGH - 1, HIGH + 1},
    {64, CU_STREAM_WAIT_VALUE_GEQ, 2, UINT64_MAX, 2}, /* a counter that is about to wrap … */
    {64, CU_STREAM_WAIT_VALUE_GEQ, UINT64_MAX - 1, UINT64_MAX - 2, 1}, /* … and one that has */
    {64, CU_STREAM_WAIT_VALUE_EQ, HIGH, HIGH + 1, HIGH},
    {64, CU_STREAM_WAIT_VALUE_AND, HIGH + 6, 9, HIGH},
    {64, CU_STREAM_WAIT_VALUE_NOR, ~HIGH, HIGH, 1},
    {32, CU_STREAM_WAIT_VALUE_GEQ, 7, HIGH + 6, 8},
    {32, CU_STREAM_WAIT_VALUE_GEQ, 2, UINT32_MAX, HIGH + 2},
    {32, CU_STREAM_WAIT_VALUE_GEQ, UINT32_MAX - 1, UINT32_MAX - 2, 1},
    {32, CU_STREAM_WAIT_VALUE_EQ, 7, HIGH + 8, HIGH + 7},
    {32, CU_STREAM_WAIT_VALUE_AND, 6, HIGH + 9, 3},
    {32, CU_STREAM_WAIT_VALUE_NOR, UINT32_MAX - 8, 8, HIGH + 1},
};

static void each_condition_opens_when_it_says(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        words[0] = waits[i].closed;
        if (waits[i].bits == 64)
            OK(cuStreamWaitValue64(stream, word(0), waits[i].value, waits[i].condition));
        else
            OK(cuStreamWaitValue32(stream, word(0), (uint32_t)waits[i].value, waits[i].condition));
        EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        words[0] = waits[i].open;
        OK(cuStreamSynchronize(stream));
    }
}

static void a_word_is_looked_at_when_the_stream_gets_there(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    words[0] = 1;
    OK(spin(stream, HEAD_START));
    CUevent before = mark(stream);
    OK(cuStreamWaitValue64(stream, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
    words[0] = 0;
    OK(cuEventSynchronize(before));
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    words[0] = 1;
    OK(cuStreamSynchronize(stream));
}

static void the_time_of_an_open_wait_is_that_of_its_store(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent from = mark(stream);
    OK(cuStreamWaitValue64(stream, word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    CUevent open = mark(stream);
    OK(spin(stream, 3 * MS));
    CUevent to = mark(stream);
    OK(cuEventSynchronize(from));
    uint64_t least = clock_ns();
    while (clock_ns() < least + 5 * MS) /* nobody looks at the card meanwhile */
        ;
    words[0] = 1;
    REQUIRE(between(from, open) >= 5000);
    EQUAL(between(open, to), 3000);
}

static void waits_of_one_stream_open_in_order(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent opened[8];
    for (unsigned i = 0; i < 8; i++) {
        OK(cuStreamWaitValue64(stream, word(i), 1, CU_STREAM_WAIT_VALUE_GEQ));
        opened[i] = mark(stream);
    }
    for (unsigned i = 7; i > 0; i--)
        words[i] = 1;
    EQUAL(passed(opened[0]), 0);
    words[0] = 1;
    OK(cuEventSynchronize(opened[7]));
}

static void store_there(void *where)
{
    *(_Atomic uint64_t *)where = 1;
}

static void a_host_function_opens_a_wait_of_another_stream(void)
{
    start_with_words();
    CUstream waiter = CU_STREAM_PER_THREAD, other = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue64(waiter, word(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(spin(other, MS));
    OK(cuLaunchHostFunc(other, store_there, (void *)&words[0]));
    OK(cuStreamSynchronize(waiter));
}

#define THREADS 4
#define ROUNDS 100

static void *open_own_waits(void *number)
{
    unsigned i = (unsigned)(uintptr_t)number;
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        OK(cuStreamWaitValue64(stream, word(i), round, CU_STREAM_WAIT_VALUE_GEQ));
        OK(spin(stream, 1000));
        OK(cuStreamWriteValue64(stream, word(THREADS + i), round, CU_STREAM_WRITE_VALUE_DEFAULT));
        words[i] = round;
        OK(cuStreamSynchronize(stream));
        EQUAL(words[THREADS + i], round);
    }
    return NULL;
}

static void many_streams_wait_at_once(void)
{
    pthread_t threads[THREADS];
    start_with_words();
    for (uintptr_t i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, open_own_waits, (void *)i));
    for (unsigned i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));
}

/* ---- what is written ---- */

static void a_word_is_written_when_the_stream_gets_there(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    words[0] = UINT64_MAX;
    OK(spin(stream, HEAD_START));
    OK(cuStreamWriteValue32(stream, word(0), 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamWriteValue64(stream, word(1), UINT64_C(1) << 40, CU_STREAM_WRITE_VALUE_DEFAULT));
    EQUAL(words[0], UINT64_MAX);
    EQUAL(words[1], 0);
    OK(cuStreamSynchronize(stream));
    EQUAL(words[0], UINT64_C(0xffffffff00000005));
    EQUAL(words[1], UINT64_C(1) << 40);
}

static void a_write_opens_a_wait_of_another_stream(void)
{
    CUdeviceptr device;
    start_with_words();
    OK(cuMemAlloc(&device, 64));
    OK(cuMemsetD32(device, 0, 16));
    CUstream waiter = new_stream(CU_STREAM_NON_BLOCKING), writer = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue32(waiter, device + 4, 3, CU_STREAM_WAIT_VALUE_EQ));
    EQUAL(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(writer, device + 4, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamSynchronize(waiter));
}

static void a_batch_is_done_in_its_order(void)
{
    start_with_words();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamBatchMemOpParams batch[] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = word(0), .value64 = 1}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = word(1), .value64 = 7}},
        {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER, .flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = word(1),
                       .value = 7,
                       .flags = CU_STREAM_WAIT_VALUE_EQ}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word(2), .value = 9}},
    };
    OK(cuStreamBatchMemOp(stream, 5, batch, 0));
    memset(batch, 0xff, sizeof batch);
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EQUAL(words[1], 0);
    words[0] = 1;
    OK(cuStreamSynchronize(stream));
    EQUAL(words[1], 7);
    EQUAL(words[2], 9);
}

CASES(CASE(a_store_opens_a_wait_of_64_bits)
      CASE(a_store_opens_a_wait_of_32_bits)
      CASE(a_store_by_another_thread_ends_a_synchronize)
      CASE(each_condition_opens_when_it_says)
      CASE(a_word_is_looked_at_when_the_stream_gets_there)
      CASE(the_time_of_an_open_wait_is_that_of_its_store)
      CASE(waits_of_one_stream_open_in_order)
      CASE(a_host_function_opens_a_wait_of_another_stream)
      CASE(many_streams_wait_at_once)
      CASE(a_word_is_written_when_the_stream_gets_there)
      CASE(a_write_opens_a_wait_of_another_stream)
      CASE(a_batch_is_done_in_its_order))
