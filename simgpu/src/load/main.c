/*
 * The order of things: options, processes, context, memory, launches, hold, last line.
 *
 * Processes fork before CUDA is touched (a context does not survive a fork); the first process waits for the
 * others and passes SIGTERM on. SIGTERM and SIGINT end a run after the launches under way, with its last line
 * and status 0. Status 1: the driver failed where it had no reason to; 2: a bad option; 5: what it has to say
 * cannot be written.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define NAP_SLICE 0.1 /* seconds: how late a signal that comes just before a sleep can be seen */

volatile sig_atomic_t stop_asked;
static volatile pid_t children[LOAD_MAX_PROCESSES]; /* 0: none, or ended */

static void on_stop(int signal) {
    int saved = errno;
    (void)signal;
    stop_asked = 1;
    for (unsigned i = 0; i < LOAD_MAX_PROCESSES; i++)
        if (children[i] > 0)
            kill(children[i], SIGTERM);
    errno = saved;
}

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void nap(double seconds) {
    double until = seconds_now() + seconds, left;
    while (!stop_asked && (left = until - seconds_now()) > 0) {
        double slice = left < NAP_SLICE ? left : NAP_SLICE;
        struct timespec time = {.tv_sec = 0, .tv_nsec = (long)(slice * 1e9)};
        nanosleep(&time, NULL);
    }
}

static void hold(struct report *report, double seconds) {
    double until = seconds_now() + seconds;
    while (!stop_asked && seconds_now() < until) {
        nap(NAP_SLICE);
        report_if_due(report);
    }
}

static int work(const struct options *options, unsigned process) {
    struct report report;
    struct kernels kernels;
    CUdevice device;
    CUcontext context;
    driver_open(options);
    report_open(&report, options, process);
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDeviceGet(&device, (int)options->device));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, device));
    CHECK(driver.cuCtxSetCurrent(context));
    kernels_load(&kernels, options);
    memory_allocate(options, &report);
    if (options_launches(options))
        launches_run(&kernels, options, &report);
    hold(&report, options->hold);
    CHECK(driver.cuCtxSynchronize());
    report_line(&report, "done");
    return 0;
}

/* Each child leaves the table before its number can become another process's. */
static int wait_for_children(void) {
    int worst = 0, status;
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0 || errno == EINTR) {
        for (unsigned i = 0; i < LOAD_MAX_PROCESSES; i++)
            if (children[i] == info.si_pid)
                children[i] = 0;
        if (waitpid(info.si_pid, &status, WNOHANG) <= 0)
            continue;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* Where a standard descriptor was closed, the driver would open a file of its own there, and get our lines. */
static void fill_standard_descriptors(void) {
    int spare;
    while ((spare = open("/dev/null", O_RDWR)) >= 0 && spare <= STDERR_FILENO)
        continue;
    close(spare);
}

int main(int argc, char **argv) {
    static struct options options;
    fill_standard_descriptors();
    options_parse(&options, argc, argv);
    struct sigaction action = {.sa_handler = on_stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (options.processes == 1)
        return work(&options, 0);
    for (unsigned i = 0; i < options.processes; i++) {
        pid_t child = fork(); /* inherits stop_asked: a signal in the middle of this loop is not lost */
        if (child == 0) {
            memset((void *)children, 0, sizeof children);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            return work(&options, i);
        }
        if (child < 0) {
            fprintf(stderr, "weir-load: --processes: fork: %s\n", strerror(errno));
            on_stop(SIGTERM);
            wait_for_children();
            return 1;
        }
        children[i] = child;
    }
    if (stop_asked)
        on_stop(SIGTERM);
    return wait_for_children();
}
