/* TLS 1.3 between the hosts of a run, for psclust/agent/forwarding: one connection of TCP is
 * carried by one of TLS, on the thread that calls, without Python's lock.
 *
 * The functions of TLS are those of BoringSSL in TensorFlow's own library, so that a host needs
 * nothing more, looked up by name when the library is given (`tls_load`). Each has been part of
 * OpenSSL's interface for twenty years; without one of them TLS is Python's own, which takes three
 * times the CPU. */
#define _GNU_SOURCE
#include "admission.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;
typedef struct bio_st BIO;
typedef struct x509_st X509;
typedef struct x509_store_st X509_STORE;
typedef struct evp_pkey_st EVP_PKEY;

/* As in openssl/ssl.h. */
enum { VERSION_1_3 = 0x0304, VERIFY_PEER = 1, FAIL_IF_NO_PEER_CERT = 2 };
enum { WANT_READ = 2, WANT_WRITE = 3, ZERO_RETURN = 6 };
enum { PARTIAL_WRITE = 1, MOVING_WRITE_BUFFER = 2 };

/* X(what it returns, its name, what it takes) */
#define INTERFACE(X)                                                                               \
    X(const void *, TLS_method, (void))                                                            \
    X(SSL_CTX *, SSL_CTX_new, (const void *))                                                      \
    X(void, SSL_CTX_free, (SSL_CTX *))                                                             \
    X(int, SSL_CTX_set_min_proto_version, (SSL_CTX *, uint16_t))                                   \
    X(uint32_t, SSL_CTX_set_mode, (SSL_CTX *, uint32_t))                                           \
    X(int, SSL_CTX_set_num_tickets, (SSL_CTX *, size_t))                                           \
    X(void, SSL_CTX_set_verify, (SSL_CTX *, int, int (*)(int, void *)))                            \
    X(int, SSL_CTX_use_certificate, (SSL_CTX *, X509 *))                                           \
    X(int, SSL_CTX_use_PrivateKey, (SSL_CTX *, EVP_PKEY *))                                        \
    X(X509_STORE *, SSL_CTX_get_cert_store, (const SSL_CTX *))                                     \
    X(int, X509_STORE_add_cert, (X509_STORE *, X509 *))                                            \
    X(BIO *, BIO_new_mem_buf, (const void *, ptrdiff_t))                                           \
    X(int, BIO_free, (BIO *))                                                                      \
    X(X509 *, PEM_read_bio_X509, (BIO *, X509 **, void *, void *))                                 \
    X(EVP_PKEY *, PEM_read_bio_PrivateKey, (BIO *, EVP_PKEY **, void *, void *))                   \
    X(void, X509_free, (X509 *))                                                                   \
    X(void, EVP_PKEY_free, (EVP_PKEY *))                                                           \
    X(SSL *, SSL_new, (SSL_CTX *))                                                                 \
    X(void, SSL_free, (SSL *))                                                                     \
    X(int, SSL_set_fd, (SSL *, int))                                                               \
    X(int, SSL_set1_host, (SSL *, const char *))                                                   \
    X(int, SSL_accept, (SSL *))                                                                    \
    X(int, SSL_connect, (SSL *))                                                                   \
    X(int, SSL_read, (SSL *, void *, int))                                                         \
    X(int, SSL_write, (SSL *, const void *, int))                                                  \
    X(int, SSL_shutdown, (SSL *))                                                                  \
    X(int, SSL_get_error, (const SSL *, int))                                                      \
    X(void, ERR_clear_error, (void))

#define MEMBER(returned, name, taken) returned(*name) taken;
static struct {
    INTERFACE(MEMBER)
} api;

/* library: as dlopen returns it. Returns NULL, or the first function that it lacks. */
const char *tls_load(void *library) {
#define LOOK_UP(returned, name, taken)                                                             \
    if ((*(void **)(&api.name) = dlsym(library, #name)) == NULL)                                   \
        return #name;
    INTERFACE(LOOK_UP)
    return NULL;
}

static int use_certificate(SSL_CTX *context, const char *pem, int is_authority) {
    BIO *text = api.BIO_new_mem_buf(pem, (ptrdiff_t)strlen(pem));
    X509 *found = text != NULL ? api.PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    int used = found != NULL &&
               (is_authority ? api.X509_STORE_add_cert(api.SSL_CTX_get_cert_store(context), found)
                             : api.SSL_CTX_use_certificate(context, found));
    if (found != NULL)
        api.X509_free(found);
    if (text != NULL)
        api.BIO_free(text);
    return used;
}

static int use_key(SSL_CTX *context, const char *pem) {
    BIO *text = api.BIO_new_mem_buf(pem, (ptrdiff_t)strlen(pem));
    EVP_PKEY *found = text != NULL ? api.PEM_read_bio_PrivateKey(text, NULL, NULL, NULL) : NULL;
    int used = found != NULL && api.SSL_CTX_use_PrivateKey(context, found);
    if (found != NULL)
        api.EVP_PKEY_free(found);
    if (text != NULL)
        api.BIO_free(text);
    return used;
}

/* One side's key and certificate, and the authority that has signed the other side's; all PEM.
 * NULL: one of them cannot be used. */
SSL_CTX *tls_context(const char *key, const char *certificate, const char *authority) {
    SSL_CTX *context = api.SSL_CTX_new(api.TLS_method());
    if (context == NULL)
        return NULL;
    api.SSL_CTX_set_verify(context, VERIFY_PEER | FAIL_IF_NO_PEER_CERT, NULL);
    api.SSL_CTX_set_mode(context, PARTIAL_WRITE | MOVING_WRITE_BUFFER);
    if (api.SSL_CTX_set_min_proto_version(context, VERSION_1_3) &&
        api.SSL_CTX_set_num_tickets(context, 0) && use_certificate(context, certificate, 0) &&
        use_key(context, key) && use_certificate(context, authority, 1))
        return context;
    api.SSL_CTX_free(context);
    return NULL;
}

/* Waits until an operation can go on. 0: it has failed, or took longer than limit_ms. */
static int can_go_on(const SSL *tls, int fd, int result, int limit_ms) {
    int error = api.SSL_get_error(tls, result);
    struct pollfd wanted = {.fd = fd, .events = error == WANT_READ ? POLLIN : POLLOUT};
    if (error != WANT_READ && error != WANT_WRITE)
        return 0;
    return poll(&wanted, 1, limit_ms) > 0;
}

/* Greets the peer on a connected socket, which stays the caller's and does not block from then on.
 * name: in the certificate of the side that accepts; NULL: this side accepts. Returns NULL if the
 * peer has no certificate of this authority or name, or is silent for limit_ms. */
SSL *tls_open(SSL_CTX *context, int fd, const char *name, int limit_ms) {
    SSL *tls = api.SSL_new(context);
    int done = 0;
    if (tls == NULL)
        return NULL;
    api.ERR_clear_error();
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 && api.SSL_set_fd(tls, fd) &&
        (name == NULL || api.SSL_set1_host(tls, name)))
        do
            done = name == NULL ? api.SSL_accept(tls) : api.SSL_connect(tls);
        while (done != 1 && can_go_on(tls, fd, done, limit_ms));
    if (done == 1)
        return tls;
    api.SSL_free(tls);
    return NULL;
}

/* All `size` bytes. 0: not within limit_ms each. */
int tls_read(SSL *tls, int fd, char *bytes, int size, int limit_ms) {
    api.ERR_clear_error();
    for (int got; size > 0; bytes += got, size -= got)
        while ((got = api.SSL_read(tls, bytes, size)) <= 0)
            if (!can_go_on(tls, fd, got, limit_ms))
                return 0;
    return 1;
}

int tls_write(SSL *tls, int fd, const char *bytes, int size, int limit_ms) {
    api.ERR_clear_error();
    for (int put; size > 0; bytes += put, size -= put)
        while ((put = api.SSL_write(tls, bytes, size)) <= 0)
            if (!can_go_on(tls, fd, put, limit_ms))
                return 0;
    return 1;
}

enum { ROOM = 1 << 17 };

/* What has been read from one side and not yet written to the other. */
typedef struct {
    char bytes[ROOM];
    int from, to;
    int ended; /* nothing more will be read */
    int told;  /* and the other side knows */
} Way;

typedef struct {
    SSL *tls;
    int fd, plain;
    Way out, in;  /* plain to TLS, and back */
    short wanted; /* of fd, by TLS */
    int failed;
} Carried;

/* What an operation of TLS has done: how many bytes; 0: the peer has ended, or it must wait. */
static int of_tls(Carried *carried, int result, int *ended) {
    int error;
    if (result > 0)
        return result;
    error = api.SSL_get_error(carried->tls, result);
    if (error == WANT_READ)
        carried->wanted |= POLLIN;
    else if (error == WANT_WRITE)
        carried->wanted |= POLLOUT;
    else if (error == ZERO_RETURN && ended != NULL)
        *ended = 1;
    else
        carried->failed = 1;
    return 0;
}

static int of_plain(Carried *carried, ssize_t result) {
    if (result >= 0)
        return (int)result;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        carried->failed = 1;
    return 0;
}

/* One round of plain to TLS; returns how many bytes it has moved. */
static int send_some(Carried *carried) {
    Way *way = &carried->out;
    int moved = 0;
    if (way->from == way->to && !way->ended) {
        ssize_t got = recv(carried->plain, way->bytes, ROOM, 0);
        way->from = 0;
        way->to = of_plain(carried, got);
        way->ended = got == 0;
    }
    for (int put = 1; way->from < way->to && put > 0; moved += put, way->from += put)
        put =
            of_tls(carried,
                   api.SSL_write(carried->tls, way->bytes + way->from, way->to - way->from), NULL);
    if (way->ended && !way->told && way->from == way->to) {
        api.SSL_shutdown(carried->tls);
        way->told = 1;
    }
    return moved;
}

static int receive_some(Carried *carried) {
    Way *way = &carried->in;
    int moved = 0;
    if (way->from == way->to && !way->ended) {
        way->from = way->to = 0;
        for (int got = 1; way->to < ROOM && got > 0; way->to += got)
            got = of_tls(carried, api.SSL_read(carried->tls, way->bytes + way->to, ROOM - way->to),
                         &way->ended);
    }
    if (way->from < way->to) {
        moved = of_plain(carried, send(carried->plain, way->bytes + way->from,
                                       (size_t)(way->to - way->from), MSG_NOSIGNAL));
        way->from += moved;
    }
    if (way->ended && !way->told && way->from == way->to) {
        shutdown(carried->plain, SHUT_WR);
        way->told = 1;
    }
    return moved;
}

static void wait_for_more(Carried *carried) {
    struct pollfd polled[] = {{.fd = carried->fd, .events = carried->wanted},
                              {.fd = carried->plain}};
    if (carried->out.from == carried->out.to && !carried->out.ended)
        polled[1].events |= POLLIN;
    if (carried->in.from < carried->in.to)
        polled[1].events |= POLLOUT;
    for (int i = 0; i < 2; i++)
        if (polled[i].events == 0)
            polled[i].fd = -1; /* else poll tells of a peer that has closed, again and again */
    if (poll(polled, 2, -1) < 0 && errno != EINTR)
        carried->failed = 1;
}

/* Carries what comes by `plain`, a connected socket, to the peer, and back, until both have ended
 * or one is cut off. Both sockets stay the caller's. Returns 0 if it could not begin, or one was
 * cut off. */
int tls_carry(SSL *tls, int fd, int plain) {
    Carried *carried = calloc(1, sizeof *carried); /* its pages are touched as bytes come */
    int ended_well;
    if (carried == NULL)
        return 0;
    carried->tls = tls;
    carried->fd = fd;
    carried->plain = plain;
    carried->failed = fcntl(plain, F_SETFL, fcntl(plain, F_GETFL) | O_NONBLOCK) != 0;
    api.ERR_clear_error();
    while (!carried->failed && !(carried->out.told && carried->in.told)) {
        carried->wanted = 0;
        if (send_some(carried) + receive_some(carried) == 0 && !carried->failed &&
            !(carried->out.told && carried->in.told))
            wait_for_more(carried);
    }
    ended_well = !carried->failed;
    free(carried);
    return ended_well;
}

/* Whether a connection of this machine may be carried: as a server of a task asks it. */
int tls_admits(int fd) {
    return is_admitted(fd);
}

void tls_close(SSL *tls) {
    api.SSL_free(tls);
}
