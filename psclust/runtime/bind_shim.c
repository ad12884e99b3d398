/* Narrows wildcard binds to one address, for servers that can only listen on every interface (TensorFlow's gRPC server always does).
 *
 * Loaded with LD_PRELOAD. While PSCLUST_BIND holds an IPv4 address, a bind to 0.0.0.0 becomes a bind to that address and a bind to
 * [::] one to its v4-mapped form, or to [::1] on a socket that takes IPv6 only; every other bind passes untouched. Not a Python
 * module: nothing in here needs Python.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void narrow_v6(int fd, struct sockaddr_in6 *address, struct in_addr to) {
    int v6_only = 0;
    socklen_t size = sizeof v6_only;
    if (getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &size) == 0 && v6_only) {
        address->sin6_addr = in6addr_loopback; /* a v4-mapped address would be refused */
        return;
    }
    address->sin6_addr.s6_addr[10] = address->sin6_addr.s6_addr[11] = 0xff;
    memcpy(&address->sin6_addr.s6_addr[12], &to, sizeof to);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
    int (*next)(int, const struct sockaddr *, socklen_t) = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
    const char *wanted = getenv("PSCLUST_BIND");
    struct in_addr to;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    int saved = errno;

    if (next == NULL) { /* no C library behind us */
        errno = ENOSYS;
        return -1;
    }
    if (address != NULL && wanted != NULL && inet_pton(AF_INET, wanted, &to) == 1) {
        if (address->sa_family == AF_INET && length >= sizeof v4) {
            memcpy(&v4, address, sizeof v4);
            if (v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
                v4.sin_addr = to;
                address = (const struct sockaddr *)&v4;
                length = sizeof v4;
            }
        } else if (address->sa_family == AF_INET6 && length >= sizeof v6) {
            memcpy(&v6, address, sizeof v6);
            if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) {
                narrow_v6(fd, &v6, to);
                address = (const struct sockaddr *)&v6;
                length = sizeof v6;
            }
        }
    }
    errno = saved;
    return next(fd, address, length);
}
