/*
 * The one signal handler of the limiter, and why there is one: anybody in the slice may cut the stats page short, and
 * the next access to it in any process of the slice would end that process with SIGBUS. No system call keeps a
 * mapped file from shrinking (docs/decisions/pages.md).
 *
 * It is installed when the pages are mapped, so never in a program without a slice or a GPU, and only where SIGBUS
 * has its default effect. It acts for addresses in our pages alone; for all others it puts the default back and
 * lets the signal come again, so the program ends as it would have. A handler that the program installs later
 * replaces it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "internal.h"

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)context;
    bool access = info->si_code == BUS_ADRERR;
    if (access && weir_slice_lost(info->si_addr)) {
        errno = saved;
        return; /* the access is made again */
    }
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (!access)
        raise(signal); /* it was sent, and nothing will make it come again by itself */
    errno = saved;
}

bool weir_guards_pages(void)
{
    struct sigaction present;
    return sigaction(SIGBUS, NULL, &present) == 0 && present.sa_flags & SA_SIGINFO &&
           present.sa_sigaction == on_bus_error;
}

void weir_guard_pages(void)
{
    struct sigaction present;
    if (sigaction(SIGBUS, NULL, &present) != 0 || present.sa_flags & SA_SIGINFO || present.sa_handler != SIG_DFL)
        return;
    struct sigaction guard = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigemptyset(&guard.sa_mask);
    sigaction(SIGBUS, &guard, NULL);
}
