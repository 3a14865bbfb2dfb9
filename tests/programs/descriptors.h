/* Bytes and a descriptor that go through a socket together, as processes hand memory to each other. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <string.h>
#include <sys/socket.h>

#include "require.h"

static inline void send_descriptor(int socket, void *data, size_t size, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {data, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    REQUIRE(sendmsg(socket, &message, 0) == (ssize_t)size);
}

static inline int receive_descriptor(int socket, void *data, size_t size)
{
    int fd;
    char control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {data, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    REQUIRE(recvmsg(socket, &message, 0) == (ssize_t)size && CMSG_FIRSTHDR(&message));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

#endif
