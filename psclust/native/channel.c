#define _GNU_SOURCE
#include "channel.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t channel_receive(Channel *channel, void *to, size_t size) {
    if (channel->tls != NULL)
        return tls_receive(channel->tls, to, size);
    return recv(channel->fd, to, size, MSG_DONTWAIT);
}

/* A header and the values after it as one record, if they are so few: what receives them wakes
 * once. */
static ssize_t send_record(Tls *tls, const struct iovec parts[2]) {
    char both[TLS_RECORD];
    size_t first = parts[0].iov_len, room = TLS_RECORD - first;
    size_t second = parts[1].iov_len < room ? parts[1].iov_len : room;
    memcpy(both, parts[0].iov_base, first);
    memcpy(both + first, parts[1].iov_base, second);
    return tls_send(tls, both, first + second);
}

ssize_t channel_send(Channel *channel, struct iovec parts[2]) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (channel->tls == NULL)
        return sendmsg(channel->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (parts[0].iov_len > 0 && parts[0].iov_len < TLS_RECORD && parts[1].iov_len > 0)
        return send_record(channel->tls, parts);
    struct iovec *next = parts[0].iov_len > 0 ? &parts[0] : &parts[1];
    return tls_send(channel->tls, next->iov_base, next->iov_len);
}

int channel_holds(const Channel *channel) {
    return channel->tls != NULL && tls_holds(channel->tls);
}

void channel_close(Channel *channel, int epoll) {
    /* A process that is being started may have a copy of the descriptor. */
    if (epoll >= 0)
        epoll_ctl(epoll, EPOLL_CTL_DEL, channel->fd, NULL);
    close(channel->fd);
    if (channel->tls != NULL)
        tls_free(channel->tls);
    *channel = (Channel){-1, NULL};
}
