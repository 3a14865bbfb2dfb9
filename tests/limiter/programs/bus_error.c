/*
 * Uses the GPU, and then gets a SIGBUS that has nothing to do with it.
 *
 *   bus_error touch FILE | raise FILE | kill FILE | own-handler FILE
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

static void handle(int signal)
{
    (void)signal;
    ssize_t written = write(STDOUT_FILENO, "handled\n", 8);
    _exit(written != 8);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    if (strcmp(argv[1], "own-handler") == 0)
        signal(SIGBUS, handle);
    gpu_open();
    int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
    REQUIRE(fd >= 0 && ftruncate(fd, 8192) == 0);
    volatile char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(page != MAP_FAILED && ftruncate(fd, 0) == 0);
    if (strcmp(argv[1], "raise") == 0)
        raise(SIGBUS);
    else if (strcmp(argv[1], "kill") == 0)
        kill(getpid(), SIGBUS);
    else
        page[5000] = 1;
    return 2;
}
