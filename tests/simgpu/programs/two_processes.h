/* Two processes on one card that take turns by bytes through a socket, and hand each other what they made. */
#ifndef TWO_PROCESSES_H
#define TWO_PROCESSES_H

#include <sys/socket.h>
#include <sys/wait.h>

#include "../../programs/descriptors.h"
#include "card.h"

static int peer; /* the other process */

static inline void say(const void *data, size_t size)
{
    REQUIRE(write(peer, data, size) == (ssize_t)size);
}

static inline void hear(void *data, size_t size)
{
    REQUIRE(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

static inline void turn_over(void)
{
    say("", 1);
}

static inline void wait_turn(void)
{
    char byte;
    hear(&byte, 1);
}

static inline void hand_over(int fd)
{
    char byte = 0;
    send_descriptor(peer, &byte, 1, fd);
}

static inline int be_handed(void)
{
    char byte;
    return receive_descriptor(peer, &byte, 1);
}

static inline void in_two_processes(void (*maker)(void), void (*user)(void))
{
    int ends[2], status;
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = fork(); /* before either has touched the card */
    if (!child) {
        peer = ends[1];
        close(ends[0]);
        open_card();
        user();
        exit(0);
    }
    peer = ends[0];
    close(ends[1]);
    open_card();
    maker();
    REQUIRE(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
}

static inline unsigned read_card(CUdeviceptr pointer)
{
    unsigned value;
    OK(cuMemcpyDtoH(&value, pointer, sizeof value));
    return value;
}

#endif
