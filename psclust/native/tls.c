/* The functions of TLS are those of BoringSSL in TensorFlow's own library, so that a host needs
 * nothing more, looked up by name when the library is given (`tls_load`). Each has been part of
 * OpenSSL's interface for ten years at least; without one of them forwarders use Python's TLS,
 * which takes three times the CPU, and tasks TensorFlow's wire. */
#define _GNU_SOURCE
#include "tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct ssl_st SSL;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;
typedef struct x509_st X509;
typedef struct x509_store_st X509_STORE;
typedef struct evp_pkey_st EVP_PKEY;

/* As in openssl/ssl.h. */
enum { VERSION_1_3 = 0x0304, VERIFY_PEER = 1, FAIL_IF_NO_PEER_CERT = 2 };
enum { WANT_READ = 2, WANT_WRITE = 3, ZERO_RETURN = 6 };
enum { PARTIAL_WRITE = 1, MOVING_WRITE_BUFFER = 2, SOURCE_SINK = 0x400, FLUSH = 11 };

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
    X(BIO *, BIO_new, (const BIO_METHOD *))                                                        \
    X(void, BIO_set_init, (BIO *, int))                                                            \
    X(void, BIO_set_data, (BIO *, void *))                                                         \
    X(void *, BIO_get_data, (BIO *))                                                               \
    X(void, BIO_set_retry_read, (BIO *))                                                           \
    X(void, BIO_set_retry_write, (BIO *))                                                          \
    X(void, BIO_clear_retry_flags, (BIO *))                                                        \
    X(BIO_METHOD *, BIO_meth_new, (int, const char *))                                             \
    X(int, BIO_meth_set_read, (BIO_METHOD *, int (*)(BIO *, char *, int)))                         \
    X(int, BIO_meth_set_write, (BIO_METHOD *, int (*)(BIO *, const char *, int)))                  \
    X(int, BIO_meth_set_ctrl, (BIO_METHOD *, long (*)(BIO *, int, long, void *)))                  \
    X(X509 *, PEM_read_bio_X509, (BIO *, X509 **, void *, void *))                                 \
    X(EVP_PKEY *, PEM_read_bio_PrivateKey, (BIO *, EVP_PKEY **, void *, void *))                   \
    X(void, X509_free, (X509 *))                                                                   \
    X(void, EVP_PKEY_free, (EVP_PKEY *))                                                           \
    X(SSL *, SSL_new, (SSL_CTX *))                                                                 \
    X(void, SSL_free, (SSL *))                                                                     \
    X(void, SSL_set_bio, (SSL *, BIO *, BIO *))                                                    \
    X(int, SSL_set1_host, (SSL *, const char *))                                                   \
    X(int, SSL_accept, (SSL *))                                                                    \
    X(int, SSL_connect, (SSL *))                                                                   \
    X(int, SSL_read, (SSL *, void *, int))                                                         \
    X(int, SSL_write, (SSL *, const void *, int))                                                  \
    X(int, SSL_pending, (const SSL *))                                                             \
    X(int, SSL_shutdown, (SSL *))                                                                  \
    X(int, SSL_get_error, (const SSL *, int))                                                      \
    X(void, ERR_clear_error, (void))

#define MEMBER(returned, name, taken) returned(*name) taken;
static struct {
    INTERFACE(MEMBER)
} api;

struct Tls {
    SSL *ssl;
    int fd, accepts;
    short awaits; /* of poll, by the operation that could not go on; 0: none */
};

enum { MOST_AT_ONCE = 1 << 30 };

const char *tls_load(void *library) {
#define LOOK_UP(returned, name, taken)                                                             \
    if ((*(void **)(&api.name) = dlsym(library, #name)) == NULL)                                   \
        return #name;
    INTERFACE(LOOK_UP)
    return NULL;
}

/* The socket of a connection. BoringSSL's own would raise SIGPIPE where the peer is gone. */

static int fd_of(BIO *bio) {
    return ((const Tls *)api.BIO_get_data(bio))->fd;
}

static int bio_read(BIO *bio, char *bytes, int size) {
    ssize_t count = recv(fd_of(bio), bytes, (size_t)size, 0);
    api.BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        api.BIO_set_retry_read(bio);
    return (int)count;
}

static int bio_write(BIO *bio, const char *bytes, int size) {
    ssize_t count = send(fd_of(bio), bytes, (size_t)size, MSG_NOSIGNAL);
    api.BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        api.BIO_set_retry_write(bio);
    return (int)count;
}

static long bio_control(BIO *bio, int what, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return what == FLUSH;
}

static BIO_METHOD *method;

static void make_method(void) {
    method = api.BIO_meth_new(SOURCE_SINK, "psclust");
    if (method == NULL)
        return;
    api.BIO_meth_set_read(method, bio_read);
    api.BIO_meth_set_write(method, bio_write);
    api.BIO_meth_set_ctrl(method, bio_control);
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

SSL_CTX *tls_context(const char *key, const char *certificate, const char *authority) {
    SSL_CTX *context = api.SSL_CTX_new(api.TLS_method());
    if (context == NULL)
        return NULL;
    if (method == NULL)
        make_method();
    api.SSL_CTX_set_verify(context, VERIFY_PEER | FAIL_IF_NO_PEER_CERT, NULL);
    api.SSL_CTX_set_mode(context, PARTIAL_WRITE | MOVING_WRITE_BUFFER);
    if (api.SSL_CTX_set_min_proto_version(context, VERSION_1_3) &&
        api.SSL_CTX_set_num_tickets(context, 0) && use_certificate(context, certificate, 0) &&
        use_key(context, key) && use_certificate(context, authority, 1))
        return context;
    api.SSL_CTX_free(context);
    return NULL;
}

static BIO *bio_of(Tls *tls) {
    BIO *made = method != NULL ? api.BIO_new(method) : NULL;
    if (made != NULL) {
        api.BIO_set_data(made, tls);
        api.BIO_set_init(made, 1);
    }
    return made;
}

Tls *tls_begin(SSL_CTX *context, int fd, const char *name) {
    Tls *made = calloc(1, sizeof *made);
    BIO *bio;
    if (made == NULL)
        return NULL;
    made->fd = fd;
    made->accepts = name == NULL;
    made->ssl = api.SSL_new(context);
    bio = made->ssl != NULL ? bio_of(made) : NULL;
    if (bio != NULL)
        api.SSL_set_bio(made->ssl, bio, bio);
    if (bio != NULL && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
        (name == NULL || api.SSL_set1_host(made->ssl, name)))
        return made;
    tls_free(made);
    return NULL;
}

/* As recv and send return what an operation of TLS has done. */
static ssize_t done(Tls *tls, int result) {
    int error = result > 0 ? 0 : api.SSL_get_error(tls->ssl, result);
    tls->awaits = error == WANT_READ ? POLLIN : error == WANT_WRITE ? POLLOUT : 0;
    if (result > 0)
        return result;
    errno = tls->awaits != 0 ? EAGAIN : ECONNRESET;
    return error == ZERO_RETURN ? 0 : -1;
}

ssize_t tls_greet(Tls *tls) {
    api.ERR_clear_error();
    return done(tls, tls->accepts ? api.SSL_accept(tls->ssl) : api.SSL_connect(tls->ssl));
}

static int part(size_t size) {
    return size < MOST_AT_ONCE ? (int)size : MOST_AT_ONCE;
}

ssize_t tls_receive(Tls *tls, void *to, size_t size) {
    api.ERR_clear_error();
    return done(tls, api.SSL_read(tls->ssl, to, part(size)));
}

ssize_t tls_send(Tls *tls, const void *bytes, size_t size) {
    api.ERR_clear_error();
    return done(tls, api.SSL_write(tls->ssl, bytes, part(size)));
}

int tls_holds(const Tls *tls) {
    return api.SSL_pending(tls->ssl) > 0;
}

short tls_awaits(const Tls *tls) {
    return tls->awaits;
}

void tls_end(Tls *tls) {
    api.ERR_clear_error();
    api.SSL_shutdown(tls->ssl);
}

void tls_free(Tls *tls) {
    if (tls->ssl != NULL)
        api.SSL_free(tls->ssl);
    free(tls);
}

/* Waits until an operation that returned -1 can go on. 0: it has failed, or took longer. */
static int can_go_on(const Tls *tls, int limit_ms) {
    struct pollfd wanted = {.fd = tls->fd, .events = tls->awaits};
    return tls->awaits != 0 && poll(&wanted, 1, limit_ms) > 0;
}

Tls *tls_open(SSL_CTX *context, int fd, const char *name, int limit_ms) {
    Tls *tls = tls_begin(context, fd, name);
    ssize_t result = tls != NULL ? -1 : 1;
    while (result != 1 && ((result = tls_greet(tls)) == 1 || can_go_on(tls, limit_ms)))
        ;
    if (result == 1)
        return tls;
    tls_free(tls);
    return NULL;
}

int tls_read(Tls *tls, char *bytes, size_t size, int limit_ms) {
    for (ssize_t got; size > 0; bytes += got, size -= (size_t)got)
        while ((got = tls_receive(tls, bytes, size)) <= 0)
            if (!can_go_on(tls, limit_ms))
                return 0;
    return 1;
}

int tls_write(Tls *tls, const char *bytes, size_t size, int limit_ms) {
    for (ssize_t put; size > 0; bytes += put, size -= (size_t)put)
        while ((put = tls_send(tls, bytes, size)) <= 0)
            if (!can_go_on(tls, limit_ms))
                return 0;
    return 1;
}
