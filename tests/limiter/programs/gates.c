/*
 * The gates (gate.c) by themselves, with a driver that only says where a stream waits.
 *
 *   gates WAY   closes a gate and prints whether it opened as it should: "let-go" when it is let go, "kept" by
 *               itself when it never is, "later" at the moment of another that was closed meanwhile, "two" each
 *               at its own, and "between" at its own while another context's stays closed; and "refused", where
 *               the kernel lets no thread wait for another: if at all it closed, by itself, the thread asleep but
 *               for a look now and then, and no more is closed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "clock.h"
#include "gate.h"
#include "internal.h"
#include "real.h"
#include "streams.h"

#define CONTEXT ((CUcontext)1)
#define STREAM ((CUstream)64)
#define FAR (50 * WEIR_MS)
#define OTHER ((CUcontext)2)
#define FARTHER (1000 * WEIR_S)

struct weir_linker weir_linker;
void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread const char *weir_entered;
static _Atomic uint64_t *word;

void *weir_load_real(enum weir_symbol_id id)
{
    (void)id;
    abort();
}
bool weir_has_real(enum weir_symbol_id id) { return atomic_load(&weir_reals[id]) != NULL; }
bool context_enter(CUcontext context) { return (void)context, false; }
void context_leave(void) {}
void weir_lock(pthread_mutex_t *lock, sigset_t *before) { (void)before, pthread_mutex_lock(lock); }
void weir_unlock(pthread_mutex_t *lock, const sigset_t *before) { (void)before, pthread_mutex_unlock(lock); }

static CUresult take_page(void *page, size_t size, unsigned flags)
{
    (void)size, (void)flags;
    word = page;
    return CUDA_SUCCESS;
}
static CUresult address_of(CUdeviceptr *address, void *page, unsigned flags)
{
    (void)flags;
    *address = (CUdeviceptr)page;
    return CUDA_SUCCESS;
}
static CUresult wait_for(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    bool as_asked = stream == STREAM && address == (CUdeviceptr)word && flags == CU_STREAM_WAIT_VALUE_GEQ;
    return as_asked && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }

static bool open_for(uint64_t moment) { return atomic_load(word) >= moment; }

static bool is_early(uint64_t moment) { return open_for(moment) && weir_now() < moment; }

/* Waits until it opens, which may be late on a busy machine, and says whether it was not opened before its moment. */
static bool opens_on_the_dot(uint64_t moment)
{
    while (!open_for(moment))
        if (weir_now() > moment + 60 * WEIR_S)
            return false;
    return weir_now() >= moment;
}

/* What is held is let go while two contexts have a gate closed: the next to open is not the last. */
static bool opens_before_another(void)
{
    struct hold hold = gate_hold(CONTEXT, STREAM, 0);
    uint64_t moment = weir_now() + FAR;
    bool closed = hold.until && gate_close(CONTEXT, STREAM, moment, 0);
    _Atomic uint64_t *first = word;
    closed = closed && gate_close(OTHER, STREAM, weir_now() + FARTHER, 0);
    word = first;
    gate_let_go(&hold);
    return closed && opens_on_the_dot(moment);
}

/* As a container's filter may do it; libc waits by other operations of the call. */
static bool refuse_to_wait(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET_PRIVATE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool sleeps_where_it_cannot_be_woken(void)
{
    uint64_t moment = weir_now() + FAR;
    if (!refuse_to_wait())
        return false;
    bool closed = gate_close(CONTEXT, STREAM, moment, 0); /* not if the thread was refused before that */
    weir_sleep_until(moment);
    bool opened = !closed || opens_on_the_dot(moment);
    double before = processor_seconds();
    weir_sleep_until(weir_now() + WEIR_S);
    return opened && processor_seconds() - before < 0.3 && !gate_close(CONTEXT, STREAM, weir_now() + FAR, 0);
}

static bool is_right(const char *way)
{
    if (strcmp(way, "between") == 0)
        return opens_before_another();
    if (strcmp(way, "refused") == 0)
        return sleeps_where_it_cannot_be_woken();

    struct hold hold = gate_hold(CONTEXT, STREAM, 0);
    if (!hold.until || is_early(hold.until))
        return false;
    if (strcmp(way, "kept") == 0)
        return opens_on_the_dot(hold.until);
    uint64_t later = weir_now() + FAR;
    bool others = strcmp(way, "let-go") != 0;
    if (others && !gate_close(CONTEXT, STREAM, later, 0))
        return false;
    if (strcmp(way, "two") == 0 && !opens_on_the_dot(hold.until))
        return false;
    gate_let_go(&hold);
    if (!open_for(hold.until))
        return false;
    return !others || (!is_early(later) && opens_on_the_dot(later));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    weir_linker.dlsym = dlsym;
    atomic_store(&weir_reals[WEIR_ID_cuMemHostRegister_v2], (void *)take_page);
    atomic_store(&weir_reals[WEIR_ID_cuMemHostGetDevicePointer_v2], (void *)address_of);
    atomic_store(&weir_reals[WEIR_ID_cuStreamWaitValue64_v2], (void *)wait_for);
    atomic_store(&weir_reals[WEIR_ID_cuThreadExchangeStreamCaptureMode], (void *)exchange);
    puts(is_right(argv[1]) ? "right" : "wrong");
    return 0;
}
