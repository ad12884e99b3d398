/* TLS 1.3 between the hosts of a run: of forwarders (carry.c) and of psclust's wire (channel.c).
 * The context is for all connections of a process, a `Tls` for one thread at a time. */
#ifndef PSCLUST_TLS_H
#define PSCLUST_TLS_H

#include <stddef.h>
#include <sys/types.h>

/* The most that TLS encrypts as one (RFC 8446, 5.1). */
enum { TLS_RECORD = 1 << 14 };

typedef struct ssl_ctx_st SSL_CTX;
typedef struct Tls Tls;

/* Before all else. library: as dlopen returns it. Returns NULL, or the first function that it
 * lacks. */
const char *tls_load(void *library);

/* One side's key and certificate, and the authority that has signed the other side's; all PEM.
 * NULL: one of them cannot be used. Not for two threads at once. */
SSL_CTX *tls_context(const char *key, const char *certificate, const char *authority);

/* On a connected socket, which stays the caller's and does not block from then on. name: in the
 * certificate of the side that accepts; NULL: this side accepts. NULL: there is no memory. */
Tls *tls_begin(SSL_CTX *context, int fd, const char *name);

/* Goes on to greet the peer. 1: both sides know each other; -1: as recv; ECONNRESET also where the
 * peer has no certificate of this authority or name. */
ssize_t tls_greet(Tls *tls);

/* As recv and send of a socket that does not block; ECONNRESET for every error. What was to be sent
 * and had to wait must be sent next, from any address. */
ssize_t tls_receive(Tls *tls, void *to, size_t size);
ssize_t tls_send(Tls *tls, const void *bytes, size_t size);

/* Whether some of what `tls_receive` will return has left the socket already. */
int tls_holds(const Tls *tls);

/* For which event of poll the last operation has to wait; 0: none. */
short tls_awaits(const Tls *tls);

/* Says to the peer that nothing more will be sent. */
void tls_end(Tls *tls);

void tls_free(Tls *tls);

/* These wait, limit_ms for each step of theirs. NULL or 0: that, or an error. */
Tls *tls_open(SSL_CTX *context, int fd, const char *name, int limit_ms);
int tls_read(Tls *tls, char *bytes, size_t size, int limit_ms);
int tls_write(Tls *tls, const char *bytes, size_t size, int limit_ms);

#endif
