/*
 * The one way in which the limiter speaks: a line on stderr, at most once for each thing that can be wrong. The
 * program must not notice that it was said: nothing is written where it would wait (a full pipe, a stopped
 * terminal) or raise a signal (a broken pipe, a file at its size limit), and errno stays.
 */
#define _GNU_SOURCE
#include "slice.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "calls.h"

/* A signal that our own write raised is taken back; one that was pending before is the program's. */
static void write_quietly(const char *line, size_t length)
{
    sigset_t harm, before, pending, ours;
    sigemptyset(&harm);
    sigaddset(&harm, SIGPIPE);
    sigaddset(&harm, SIGXFSZ);
    sigaddset(&harm, SIGTTOU);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &harm, &before);
    int raised = weir_write(STDERR_FILENO, line, length) >= 0 ? 0
                 : errno == EPIPE                        ? SIGPIPE
                 : errno == EFBIG                        ? SIGXFSZ
                                                         : 0;
    sigemptyset(&ours);
    if (raised && !sigismember(&pending, raised) && sigaddset(&ours, raised) == 0)
        weir_take_signal(&ours);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void weir_complain(atomic_flag *once, const char *format, ...)
{
    if (atomic_flag_test_and_set(once))
        return;
    int saved = errno;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (length > 0 && weir_poll(&error) == 1 && error.revents == POLLOUT) {
        line[length++] = '\n';
        write_quietly(line, (size_t)length);
    }
    errno = saved;
}
