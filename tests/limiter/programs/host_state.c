/*
 * Compares everything of the process that a library could change behind a program's back, before and after the
 * program has used the GPU in every way that makes the limiter do something for the first time.
 *
 *   host_state [LIMITED]     with an argument: a SIGBUS handler may appear where there was none
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu.h"

struct state {
    struct {
        void (*handler)(int);
        long flags;
    } actions[NSIG];
    struct rlimit limits[RLIM_NLIMITS];
    sigset_t mask;
    stack_t stack;
    mode_t umask;
    char directory[4096];
    unsigned char files[1024]; /* by descriptor: open or not */
    int threads;
    int priority;
    off_t output;
};

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

static void take(struct state *state)
{
    memset(state, 0, sizeof *state);
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction action = {.sa_flags = 0};
        sigaction(signal, NULL, &action);
        state->actions[signal].handler = action.sa_handler;
        state->actions[signal].flags = action.sa_flags;
    }
    for (int limit = 0; limit < RLIM_NLIMITS; limit++)
        getrlimit((__rlimit_resource_t)limit, &state->limits[limit]);
    pthread_sigmask(SIG_SETMASK, NULL, &state->mask);
    sigaltstack(NULL, &state->stack);
    state->umask = umask(077);
    umask(state->umask);
    REQUIRE(getcwd(state->directory, sizeof state->directory));
    for (int fd = 0; fd < 1024; fd++)
        state->files[fd] = fcntl(fd, F_GETFD) >= 0;
    state->threads = count_threads();
    state->priority = getpriority(PRIO_PROCESS, 0);
    state->output = lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

static int atexit_order;

static void first(void)
{
    REQUIRE(atexit_order == 1);
    puts("first registered, last run");
}

static void second(void)
{
    REQUIRE(atexit_order++ == 0);
}

/* Everything that the limiter does only once, and each failure that it has to report itself. */
static void *use(void *unused)
{
    CUdeviceptr pointer;
    size_t free_bytes, total;
    errno = 123;
    gpu_open();
    REQUIRE(GPU(cuMemAlloc_v2)(&pointer, 1 << 20) == CUDA_SUCCESS);
    REQUIRE(GPU(cuMemAlloc_v2)(&pointer, (size_t)1 << 50) != CUDA_SUCCESS);
    REQUIRE(GPU(cuMemGetInfo_v2)(&free_bytes, &total) == CUDA_SUCCESS);
    REQUIRE(GPU(cuMemFree_v2)(pointer) != CUDA_SUCCESS || free_bytes <= total);
    REQUIRE(GPU(cuCtxSynchronize)() == CUDA_SUCCESS);
    REQUIRE(errno == 123);
    return unused;
}

int main(int argc, char **argv)
{
    static struct state before, after;
    (void)argv;
    atexit(first);
    dlopen("libcuda.so.1", RTLD_LAZY);
    GPU(cuInit)(0); /* the driver may do what it likes */
    take(&before);
    use(NULL);
    take(&after);
    if (argc > 1) {
        REQUIRE(after.actions[SIGBUS].flags & SA_SIGINFO);
        after.actions[SIGBUS] = before.actions[SIGBUS];
    }
    REQUIRE(memcmp(before.actions, after.actions, sizeof before.actions) == 0);
    REQUIRE(memcmp(before.files, after.files, sizeof before.files) == 0);
    REQUIRE(memcmp(&before, &after, sizeof before) == 0);
    atexit(second);

    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    REQUIRE(pthread_attr_setstacksize(&small, 64 << 10) == 0);
    REQUIRE(pthread_create(&thread, &small, use, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}
