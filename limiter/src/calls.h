/*
 * The system calls that libc makes points of cancellation, without that: libc's own end a thread that pthread_cancel()
 * has asked to end, whatever it holds. No call of the driver's may be such a point because the limiter is loaded, or a
 * thread that was cancelled would end in a hook, with a lock held that all others wait for. Turning cancellation off
 * around libc's would do as well, if no signal handler left meanwhile by siglongjmp: it would stay off.
 */
#ifndef WEIR_CALLS_H
#define WEIR_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WEIR_SIGNAL_SET ((size_t)8) /* bytes of one, as the kernel counts */

static inline int weir_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

static inline void weir_close(int fd)
{
    syscall(SYS_close, fd);
}

static inline ssize_t weir_read(int fd, void *bytes, size_t size)
{
    return syscall(SYS_read, fd, bytes, size);
}

static inline ssize_t weir_write(int fd, const void *bytes, size_t size)
{
    return syscall(SYS_write, fd, bytes, size);
}

/* Until a moment of CLOCK_MONOTONIC; errno stays. */
static inline void weir_clock_sleep(const struct timespec *moment)
{
    int saved = errno;
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, moment, NULL);
    errno = saved;
}

/* What is the matter with it now. */
static inline int weir_poll(struct pollfd *file)
{
    return (int)syscall(SYS_ppoll, file, 1, &(struct timespec){.tv_nsec = 0}, NULL, WEIR_SIGNAL_SET);
}

/* Takes one of these signals back, if it is pending. */
static inline void weir_take_signal(const sigset_t *signals)
{
    syscall(SYS_rt_sigtimedwait, signals, NULL, &(struct timespec){.tv_nsec = 0}, WEIR_SIGNAL_SET);
}

#endif
