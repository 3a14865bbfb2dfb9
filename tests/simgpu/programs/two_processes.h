/* Two processes on one card that take turns by bytes through a socket, and hand each other what they made. */
#ifndef TWO_PROCESSES_H
#define TWO_PROCESSES_H

#include <sys/socket.h>
#include <sys/wait.h>

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

static inline void send_descriptor(int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    REQUIRE(sendmsg(peer, &message, 0) == 1);
}

static inline int receive_descriptor(void)
{
    int fd;
    char control[CMSG_SPACE(sizeof fd)], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    REQUIRE(recvmsg(peer, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
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
