/*
 * Threads that this library runs in a client's process, and how they sleep and are woken.
 *
 * Each starts when it is first needed, takes no signals and never ends. What wakes them is the process's `wake`
 * in the machine's file: whoever advances the cards to something that only this process can do changes it.
 * What it does not do: any work itself (host.c, word.c).
 */
#include "timeline.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int sim_helper_start(struct sim_helper *helper)
{
    pthread_mutex_lock(&helper->starting);
    int error = 0;
    if (!helper->started) {
        sigset_t all, before;
        pthread_t thread;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&thread, NULL, helper->run, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        helper->started = error == 0;
        if (helper->started)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&helper->starting);
    return -error;
}

void sim_wake_process(struct sim_process *process)
{
    __atomic_add_fetch(&process->wake, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &process->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool sim_process_woken(const struct sim_process *process, uint32_t seen)
{
    return __atomic_load_n(&process->wake, __ATOMIC_SEQ_CST) != seen;
}

void sim_process_sleep(struct sim_process *process, uint32_t seen, uint64_t now, uint64_t until)
{
    uint64_t wait = until > now ? until - now : 0; /* UINT64_MAX: five centuries */
    struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
    syscall(SYS_futex, &process->wake, FUTEX_WAIT, seen, &timeout, NULL, 0);
}
