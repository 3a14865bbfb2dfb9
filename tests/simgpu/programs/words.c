/*
 * Streams that wait for words in memory: what opens them, what goes on meanwhile, what is refused.
 *
 * A store is made only when the stream has been seen to wait, by a query or by the event before the wait.
 */
#define _GNU_SOURCE /* gettid */
#include "client.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define PAGE 4096

static _Atomic uint64_t *words; /* a registered page */
static CUdeviceptr page;

static void start_with_words(void)
{
    start();
    words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(words != MAP_FAILED);
    OK(cuMemHostRegister((void *)words, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&page, (void *)words, 0));
}

static CUdeviceptr word(unsigned i)
{
    return page + 8 * i;
}

/* Behind all that is queued; `passed` says whether the stream got there. */
static CUevent mark(CUstream stream)
{
    CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    return event;
}

static void await(CUevent event)
{
    OK(cuEventSynchronize(event));
}

static int passed(CUevent event)
{
    CUresult state = cuEventQuery(event);
    REQUIRE(state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY);
    return state == CUDA_SUCCESS;
}

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
    await(after);
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
    await(after);
}

static _Atomic pid_t blocking; /* the thread that is about to call, once it is */

static char state_of(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    REQUIRE(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state;
}

static void *store_one(void *where)
{
    while (!blocking || state_of(blocking) != 'S')
        sched_yield();
    *(_Atomic uint64_t *)where = 1;
    return NULL;
}

static void a_store_by_another_thread_ends_a_synchronize(void)
{
    pthread_t thread;
    start_with_words();
    OK(cuStreamWaitValue64(NULL, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(pthread_create(&thread, NULL, store_one, (void *)&words[0]));
    blocking = gettid();
    OK(cuCtxSynchronize());
    EQUAL(words[0], 1);
    OK(pthread_join(thread, NULL));
}

CASES(CASE(a_store_opens_a_wait_of_64_bits) CASE(a_store_opens_a_wait_of_32_bits)
      CASE(a_store_by_another_thread_ends_a_synchronize))
