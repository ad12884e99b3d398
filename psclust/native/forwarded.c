#define _GNU_SOURCE
#include "forwarded.h"
#include "variables.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* The forwarder itself connects to the other host within ten seconds. */
enum { LIMIT_S = 12, GREET_MS = 10000, MOST_OF_ANSWER = 1 << 14 };

/* What the forwarder answers: four texts, each with a zero at its end. */
typedef struct {
    char bytes[MOST_OF_ANSWER + 1];
    /* peer: the name in the certificate of the other host; empty: it is this host. */
    const char *peer, *key, *certificate, *authority;
    int fd; /* -1: none was asked for */
} Answer;

static SSL_CTX *context;

int is_forwarded(void) {
    return variable(PSCLUST_FORWARDER) != NULL;
}

/* Of Linux's abstract sockets, which are no files. */
static socklen_t named(struct sockaddr_un *address, const char *name) {
    size_t length = strlen(name), most = sizeof address->sun_path - 1;
    length = length < most ? length : most;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int is_own(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

/* Takes the descriptor that came with a message; returns -1 if none did. */
static int taken(struct msghdr *message) {
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (control != NULL && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len >= CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
}

static ssize_t receive_with(int fd, void *to, size_t size, int *other) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {to, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    *other = count >= 0 ? taken(&message) : -1;
    return count;
}

/* Sets the texts of an answer of `size` bytes; 0: it has fewer. */
static int parse(Answer *answer, size_t size) {
    const char **texts[] = {&answer->peer, &answer->key, &answer->certificate, &answer->authority};
    const char *at = answer->bytes, *end = answer->bytes + size;
    answer->bytes[size] = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (at >= end)
            return 0;
        *texts[i] = at;
        at += strlen(at) + 1;
    }
    return 1;
}

/* port 0: for the certificates alone. 0: the forwarder does not answer, or cannot connect. */
static int ask(int64_t port, int64_t id, Answer *answer) {
    struct timeval limit = {.tv_sec = LIMIT_S};
    struct sockaddr_un address;
    socklen_t size = named(&address, variable(PSCLUST_FORWARDER));
    char question[64];
    int length = snprintf(question, sizeof question, "%lld %lld", (long long)port, (long long)id);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t count = -1;
    answer->fd = -1;
    if (fd < 0)
        return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, size) == 0 && is_own(fd) &&
        send(fd, question, (size_t)length, MSG_NOSIGNAL) == length)
        count = receive_with(fd, answer->bytes, MOST_OF_ANSWER, &answer->fd);
    close(fd);
    if (count > 0 && parse(answer, (size_t)count) && (answer->fd >= 0 || port == 0))
        return 1;
    if (answer->fd >= 0)
        close(answer->fd);
    return 0;
}

int beside_forwarder(void) {
    struct sockaddr_un address;
    socklen_t size = named(&address, variable(PSCLUST_FORWARDER));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) == 0 && is_own(fd) &&
        send(fd, "-1 0", 4, MSG_NOSIGNAL) == 4)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

const char *start_forwarded(void) {
    void *library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
    Answer *answer;
    if (context != NULL)
        return NULL;
    if (library == NULL || tls_load(library) != NULL)
        return "no TLS in TensorFlow's library";
    answer = malloc(sizeof *answer);
    if (answer != NULL && ask(0, 0, answer))
        context = tls_context(answer->key, answer->certificate, answer->authority);
    free(answer);
    return context != NULL ? NULL : "no certificate";
}

int listening_for(int64_t id) {
    struct sockaddr_un address;
    char name[64];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(name, sizeof name, "psclust/wire/%lld", (long long)id);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, named(&address, name)) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    close(fd);
    return -1;
}

ssize_t hear_first(int fd, void *to, size_t size, Channel *other) {
    ssize_t count = receive_with(fd, to, size, &other->fd);
    other->tls = NULL;
    if (other->fd < 0)
        return count;
    other->tls = tls_begin(context, other->fd, NULL);
    if (other->tls == NULL)
        channel_close(other, -1);
    return count;
}

Channel forwarded_to(int64_t port, int64_t id) {
    Answer *answer = malloc(sizeof *answer);
    struct timeval limit = {.tv_sec = GREET_MS / 1000};
    Channel found = {-1, NULL};
    if (answer == NULL || !ask(port, id, answer)) {
        errno = EHOSTUNREACH;
    } else {
        found.fd = answer->fd;
        setsockopt(found.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        setsockopt(found.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (*answer->peer != 0 &&
            (found.tls = tls_open(context, found.fd, answer->peer, GREET_MS)) == NULL) {
            int reason = errno;
            channel_close(&found, -1);
            errno = reason;
        }
    }
    free(answer);
    return found;
}
