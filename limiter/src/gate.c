/*
 * See gate.h. Each context has a page of its own, for a page registered with the driver belongs to the context and
 * goes with it. Pages are shared mappings that no fork child has: what the driver has pinned must not be copied. They
 * are never unmapped, so the thread may write to any at any time. When a context has ended, its page is the next one's:
 * words only grow, so what was closed before stays open, whenever the driver looks.
 *
 * Two moments tell the thread what to do, `soonest` (0: nothing) and each context's `latest`. Who closes a gate moves
 * the latter first, and the thread looks at it last, so that no gate is forgotten whatever they do at once.
 */
#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "internal.h"
#include "real.h"
#include "streams.h"

#define GATES 8
#define HOLD (200 * WEIR_US) /* a launch that takes longer is not made at once */
#define UNTOLD WEIR_MS /* how often the thread looks that nobody can wake */
#define FOR_GOOD (INT64_MAX / 2) /* the driver compares as if moments turned over */

static struct gate {
    CUcontext _Atomic context; /* NULL: free */
    _Atomic uint64_t *_Atomic word; /* the start of its page, which it keeps; NULL: none yet */
    CUcontext _Atomic ending;       /* it had the page, and may be alive and hold it registered */
    _Atomic uint64_t latest;        /* moment for which it was closed */
    CUdeviceptr address;
} gates[GATES];

static _Atomic uint64_t soonest, wakes_early;
static _Atomic uint32_t rings; /* the thread looks again */
static _Atomic bool failed;    /* this driver, or this process, can have no gates */
static bool runs;              /* the thread does */
static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;

/* ---- the thread ---- */

/* Where the wait is refused (seccomp), there are no gates from now on; those that are closed open a little late. */
static void wait_for_ring(uint32_t seen, uint64_t until)
{
    struct timespec time = {(time_t)(until / WEIR_S), (long)(until % WEIR_S)};
    if (syscall(SYS_futex, &rings, FUTEX_WAIT_BITSET_PRIVATE, seen, until ? &time : NULL, NULL,
                FUTEX_BITSET_MATCH_ANY) == 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT)
        return;
    atomic_store(&failed, true);
    uint64_t look = weir_now() + UNTOLD;
    weir_sleep_until(until ? sooner(until, look) : look);
}

static void raise_to(_Atomic uint64_t *word, uint64_t moment)
{
    uint64_t is = atomic_load(word);
    while (is < moment && !atomic_compare_exchange_weak(word, &is, moment))
        ;
}

static void open_all_until(uint64_t moment)
{
    for (int i = 0; i < GATES; i++) {
        _Atomic uint64_t *word = atomic_load(&gates[i].word);
        if (word)
            raise_to(word, moment);
    }
}

/* The next gate is to be opened then, unless one is to be sooner. */
static void open_at(uint64_t moment)
{
    uint64_t set = atomic_load(&soonest);
    while (!set || moment < set)
        if (atomic_compare_exchange_weak(&soonest, &set, moment)) {
            atomic_fetch_add(&rings, 1);
            syscall(SYS_futex, &rings, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
            return;
        }
}

/* What `soonest` cannot say while it says an earlier moment: the next at which a gate is still to be opened. */
static void open_the_rest(void)
{
    for (int i = 0; i < GATES; i++) {
        _Atomic uint64_t *word = atomic_load(&gates[i].word);
        uint64_t last = atomic_load(&gates[i].latest);
        if (word && last > atomic_load(word))
            open_at(last);
    }
}

static void *open_gates(void *nothing)
{
    prctl(PR_SET_NAME, "weir-gates");
    for (;;) {
        uint32_t seen = atomic_load(&rings);
        uint64_t next = atomic_load(&soonest), early = atomic_load_explicit(&wakes_early, memory_order_relaxed);
        uint64_t now = weir_now();
        if (!next || next > now + early) {
            wait_for_ring(seen, next ? next - early : 0);
            continue;
        }
        while ((now = weir_now()) < next)
            ; /* no longer than wake-ups are late: what was behind the gate then tells the GPU's clock from ours */
        open_all_until(now);
        atomic_store(&soonest, 0);
        open_the_rest();
    }
    return nothing;
}

/* The program has threads, for the driver has: but not always in the libc that this library was linked against. */
static bool start_thread(void)
{
    __typeof__(&pthread_create) create = (__typeof__(&pthread_create))weir_linker.dlsym(RTLD_DEFAULT, "pthread_create");
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (!create || pthread_attr_init(&attributes))
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* it begins with what its maker has blocked */
    bool started = !create(&thread, &attributes, open_gates, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* ---- closing ---- */

static struct gate *gate_of(CUcontext context)
{
    for (int i = 0; i < GATES; i++)
        if (atomic_load_explicit(&gates[i].context, memory_order_acquire) == context)
            return &gates[i];
    return NULL;
}

static bool new_page(struct gate *gate, size_t size)
{
    _Atomic uint64_t *old = atomic_load(&gate->word);
    if (old)
        raise_to(old, FOR_GOOD);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, size, MADV_DONTFORK))
        return false;
    atomic_store(&gate->word, page);
    return true;
}

static bool register_page(struct gate *gate, CUcontext context, size_t size)
{
    void *page = (void *)atomic_load(&gate->word);
    bool entered = context_enter(context);
    bool known = WEIR_ASK(cuMemHostRegister_v2, page, size, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS &&
                 WEIR_ASK(cuMemHostGetDevicePointer_v2, &gate->address, page, 0) == CUDA_SUCCESS;
    if (entered)
        context_leave();
    return known;
}

/*
 * Gives the gate of a context that has ended, or a new one, to this context. Whether the driver has let go of the page
 * by itself or not, no wait is left that looks at it then. One that stays, or is green, may hold its page registered:
 * another page is taken.
 */
static bool move_in(struct gate *gate, CUcontext context)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)atomic_load(&gate->word);
    if (page && register_page(gate, context, size))
        return true;
    bool ended = page && !atomic_load(&gate->ending);
    if (ended && weir_has_real(WEIR_ID_cuMemHostUnregister) &&
        WEIR_ASK(cuMemHostUnregister, page) == CUDA_SUCCESS && register_page(gate, context, size))
        return true;
    return new_page(gate, size) && register_page(gate, context, size);
}

/* The context's gate, made at its first use. */
static struct gate *make_gate(CUcontext context)
{
    sigset_t before;
    weir_lock(&setting_up, &before);
    struct gate *gate = gate_of(context), *made = gate ? gate : gate_of(NULL);
    if (!gate && made) {
        runs = runs || start_thread();
        if (runs && move_in(made, context))
            atomic_store_explicit(&made->context, context, memory_order_release);
        else
            atomic_store(&failed, true);
    }
    weir_unlock(&setting_up, &before);
    return atomic_load(&failed) ? NULL : made;
}

bool gate_close(CUcontext context, CUstream stream, uint64_t opening, uint64_t early)
{
    if (!context || atomic_load_explicit(&failed, memory_order_relaxed) ||
        !weir_has_real(WEIR_ID_cuStreamWaitValue64_v2) || !weir_has_real(WEIR_ID_cuMemHostRegister_v2))
        return false;
    struct gate *gate = gate_of(context);
    if (!gate && !(gate = make_gate(context)))
        return false;
    if (atomic_load(atomic_load(&gate->word)) >= opening)
        return false; /* it is open until then for a context that had the page and ended */
    atomic_store_explicit(&wakes_early, early, memory_order_relaxed);
    raise_to(&gate->latest, opening);
    open_at(opening);
    bool closed = WEIR_ASK(cuStreamWaitValue64_v2, stream, gate->address, opening, CU_STREAM_WAIT_VALUE_GEQ) ==
                  CUDA_SUCCESS;
    if (!closed)
        atomic_store(&failed, true);
    return closed;
}

struct hold gate_hold(CUcontext context, CUstream stream, uint64_t early)
{
    uint64_t until = weir_now() + HOLD;
    return (struct hold){context, gate_close(context, stream, until, early) ? until : 0};
}

/* The thread need not wake up for this gate any more; if later ones relied on that, it is told of the next. */
void gate_let_go(const struct hold *hold)
{
    uint64_t set = hold->until;
    struct gate *gate = set ? gate_of(hold->context) : NULL;
    if (!gate)
        return;
    raise_to(atomic_load(&gate->word), hold->until);
    if (atomic_compare_exchange_strong(&soonest, &set, 0))
        open_the_rest();
}

void gate_forget_context(CUcontext context)
{
    struct gate *gate = context ? gate_of(context) : NULL;
    if (!gate)
        return;
    raise_to(atomic_load(&gate->word), atomic_load(&gate->latest));
    atomic_store(&gate->ending, context);
    atomic_store_explicit(&gate->context, NULL, memory_order_release);
}

void gate_context_gone(CUcontext context)
{
    for (int i = 0; i < GATES; i++) {
        CUcontext ending = context;
        atomic_compare_exchange_strong(&gates[i].ending, &ending, NULL);
    }
}

void gate_forget_all(void)
{
    for (int i = 0; i < GATES; i++) {
        atomic_store(&gates[i].context, NULL);
        atomic_store(&gates[i].word, NULL);
        atomic_store(&gates[i].ending, NULL);
        atomic_store(&gates[i].latest, 0);
    }
    atomic_store(&soonest, 0);
    atomic_store(&failed, false);
    runs = false;
    pthread_mutex_init(&setting_up, NULL);
}
