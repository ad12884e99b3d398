/* Sets what TensorFlow's servers cannot be told. Loaded with LD_PRELOAD; not a Python module.
 *
 * bind: a gRPC server listens on every interface. With an IPv4 address in PSCLUST_BIND, a server's
 * bind to 0.0.0.0 becomes a bind to that address, and one to [::] a bind to its v4-mapped form, or
 * to [::1] on a socket that takes IPv6 only. A server is any program that binds PSCLUST_PORT, which
 * psclust reserves for this task and shares with it, and TensorFlow and psclust's wire at any port.
 * All other binds pass untouched, so a port that is not psclust's is taken by one server only.
 *
 * bind, connect: a connection between tasks ends when the peer's machine has been out of reach for
 * PSCLUST_PEER_TIMEOUT seconds (60), whether the connection is quiet (keepalive) or has data under
 * way (user timeout). The kernel does it because a gRPC server closes the connection of a client
 * that pings during a quiet call more often than every five minutes. A socket is between tasks if
 * its port is one of PSCLUST_CLUSTER; accepted sockets inherit the listener's options.
 *
 * accept4: a server closes the connections of strangers (admission.h) before it reads a byte. The
 * last KEPT descriptors are not for connections: gRPC keeps a silent one for a minute, and
 * TensorFlow and the wire fail without descriptors.
 *
 * The other two functions are changed only for the builds of TensorFlow in VERIFIED; any other
 * build calls its own.
 *
 * NewGrpcWorkerService: each of a server's eight request threads prepares 4.5 MB of requests when
 * it starts. On fewer cores the server gets one thread for each: parsing a request and passing it
 * to a thread pool takes a core.
 *
 * ThreadLocalNew64: TensorFlow draws the ids of a step and its requests from a generator that
 * is made for each step and starts at one of 2^32 states, and a task refuses an id that is among
 * its last 100,000: one of 40,000 steps failed ("The same RunGraph (Worker) request was received
 * twice"). */
#define _GNU_SOURCE
#include "admission.h"
#include "lost_peer.h"
#include "variables.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEPT = 64 };

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} Address;

/* A copy of an internet address; zeros for any other. */
static Address internet(const struct sockaddr *address, socklen_t length) {
    Address copy;
    memset(&copy, 0, sizeof copy);
    if (address != NULL && (address->sa_family == AF_INET || address->sa_family == AF_INET6))
        memcpy(&copy, address, length < sizeof copy ? length : sizeof copy);
    return copy;
}

static in_port_t port_of(const Address *address) { /* 0: none, or any */
    return ntohs(address->v4.sin_port);            /* at the same place in both kinds */
}

/* Makes the address of every interface that of one; 0: it is another. */
static int narrow(int fd, Address *address, struct in_addr to) {
    struct in6_addr *v6 = &address->v6.sin6_addr;
    int v6_only = 0;
    socklen_t size = sizeof v6_only;
    if (address->any.sa_family == AF_INET && address->v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
        address->v4.sin_addr = to;
        return 1;
    }
    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(v6))
        return 0;
    getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &size);
    if (v6_only) {
        *v6 = in6addr_loopback; /* a v4-mapped address would be refused */
    } else {
        v6->s6_addr[10] = v6->s6_addr[11] = 0xff;
        memcpy(&v6->s6_addr[12], &to, sizeof to);
    }
    return 1;
}

static int is_task(const Address *address) {
    const char *cluster = variable(PSCLUST_CLUSTER); /* {"ps":["10.0.0.1:2222"]} */
    char end[sizeof ":65535\""];
    snprintf(end, sizeof end, ":%u\"", (unsigned)port_of(address));
    return cluster != NULL && port_of(address) != 0 && strstr(cluster, end) != NULL;
}

static int is_reserved(const Address *address) {
    const char *reserved = variable(PSCLUST_PORT);
    return reserved != NULL && port_of(address) != 0 && atoi(reserved) == port_of(address);
}

typedef struct {
    uintptr_t address;
    const char *library;
} Held;

static int holds(struct dl_phdr_info *info, size_t size, void *data) {
    Held *held = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD &&
            held->address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz) {
            held->library = *info->dlpi_name != 0 ? info->dlpi_name : program_invocation_name;
            return 1;
        }
    }
    return 0;
}

/* The path of the library, or program, that has the code; NULL: none. dladdr would read all of its
 * symbols, which takes 30 ms of libtensorflow_cc. */
static const char *library_of(const void *code) {
    Held held = {(uintptr_t)code, NULL};
    dl_iterate_phdr(holds, &held);
    return held.library;
}

/* Whether the code at `caller` is TensorFlow's, whose gRPC is linked into its libraries, or
 * psclust's. */
static int is_server(const void *caller) {
    const char *name = library_of(caller), *slash;

    if (name == NULL)
        return 1; /* unknown: rather an interface too few than one too many */
    slash = strrchr(name, '/');
    name = slash != NULL ? slash + 1 : name;
    return strstr(name, "tensorflow") != NULL ||
           strncmp(name, "_kernels.", sizeof "_kernels." - 1) == 0;
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
    __typeof__(bind) *own = dlsym(RTLD_NEXT, "bind");
    const char *wanted = variable(PSCLUST_BIND);
    Address copy = internet(address, length);
    struct in_addr to;
    int saved = errno, on = 1, reserved = is_reserved(&copy);

    if (reserved)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (is_task(&copy))
        notice_a_lost_peer(fd);
    if (wanted != NULL && inet_pton(AF_INET, wanted, &to) == 1 &&
        (reserved || is_server(__builtin_return_address(0))) && narrow(fd, &copy, to)) {
        address = &copy.any;
        length = length < sizeof copy ? length : sizeof copy;
    }
    errno = saved;
    return own(fd, address, length);
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    __typeof__(connect) *own = dlsym(RTLD_NEXT, "connect");
    Address copy = internet(address, length);
    int saved = errno;

    if (is_task(&copy))
        notice_a_lost_peer(fd);
    errno = saved;
    return own(fd, address, length);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    __typeof__(accept4) *own = dlsym(RTLD_NEXT, "accept4");
    socklen_t room = length != NULL ? *length : 0;
    int server = is_server(__builtin_return_address(0));
    struct rlimit most;

    for (;;) {
        int got = own(fd, address, length, flags), is_spare;
        if (got < 0 || !server)
            return got;
        is_spare = getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur < 2 * KEPT ||
                   (rlim_t)got < most.rlim_cur - KEPT;
        if (is_spare && is_admitted(got))
            return got;
        close(got);
        if (length != NULL)
            *length = room;
    }
}

/* Of TensorFlow, libtensorflow_framework, which spec/tensorflow_builds.py has, and
 * libtensorflow_cc; and the same of tensorflow-cpu. */
static const uint64_t VERIFIED[] = {
    /* 2.21.0 */ 0xe72f3a58b80fe0f2,
    0xcccb8b9a70f46a59,
    0x1b100def54c36394,
    0xc94340bb311bc235,
    /* 2.20.0 */ 0x26acfeabdb3e3179,
    0xe11650cd8e7cff51,
    0x0071f851ce73089c,
    0x7d431082d38a15bd,
    /* 2.19.1 */ 0x36e8fed1691afcaa,
    0x13465603bec9e4da,
    0xf89abfda3857d7d8,
    0x75c1ed1e1819974d,
    /* 2.18.1 */ 0x0bc58bf188999f01,
    0xabe3e0a7c46dd34a,
    0xe1b9672e399b4856,
    0x2889575ef197e8d0,
    /* 2.17.1 */ 0x3d0d6755d525c47b,
    0xc85ac0aa61923b08,
    0xef7c9c188e90b751,
    0x8d8470ab7bc6ad35,
    /* 2.16.2 */ 0x1d27ae2438baaeb7,
    0x2e44c8523055754b,
    0x3b8c3150dd2e8317,
    0x2dc30906a32d8bc4,
    /* 2.15.1 */ 0xd3cc1245322f16bc,
    0x6515d3732b73cabb,
    0x9e32d5d00c824958,
    0x6f74c67ea783131c,
};

/* As `build_of` of spec/tensorflow_builds.py makes it. 0: none. */
static uint64_t build_of(const char *path) {
    uint64_t found = 0xcbf29ce484222325;
    unsigned char bytes[1 << 14];
    ElfW(Ehdr) head = {0};
    size_t size = sizeof head, table = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (pread(fd, &head, size, 0) == (ssize_t)size)
        table = (size_t)head.e_shentsize * head.e_shnum;
    memcpy(bytes, &head, size);
    if (table > sizeof bytes - size ||
        pread(fd, bytes + size, table, (off_t)head.e_shoff) != (ssize_t)table)
        table = 0;
    close(fd);
    for (size_t i = 0; i < size + table; i++)
        found = (found ^ bytes[i]) * 0x100000001b3;
    return table > 0 ? found : 0;
}

/* The function `name` that the library of `caller` would call without this one; NULL: none. Not
 * RTLD_NEXT: TensorFlow's library is loaded later, and for itself. verified: whether it is in one
 * of VERIFIED. */
static void *own_function(const void *caller, const char *name, int *verified) {
    const char *path = library_of(caller);
    void *library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *function = library != NULL ? dlsym(library, name) : NULL;
    *verified = 0;
    if (function != NULL && (path = library_of(function)) != NULL) {
        uint64_t build = build_of(path);
        for (size_t i = 0; i < sizeof VERIFIED / sizeof *VERIFIED; i++)
            *verified |= build == VERIFIED[i];
    }
    return function;
}

#define NEW64 "_ZN3tsl6random16ThreadLocalNew64Ev"

/* uint64_t tsl::random::ThreadLocalNew64() */
uint64_t new64(void) __asm__(NEW64);

uint64_t new64(void) {
    static atomic_int asked;
    static uint64_t (*_Atomic next)(void); /* NULL: numbers are made here */
    uint64_t made;
    if (!asked) {
        int verified;
        uint64_t (*own)(void) = own_function(__builtin_return_address(0), NEW64, &verified);
        next = verified || own == new64 ? NULL : own;
        asked = 1;
    }
    if (next != NULL)
        return next();
    while (syscall(SYS_getrandom, &made, sizeof made, 0) != sizeof made) /* getrandom: glibc 2.25 */
        if (errno != EINTR) {
            fputs("psclust's server shim: there are no random numbers\n", stderr);
            abort();
        }
    return made;
}

#ifdef __x86_64__ /* elsewhere the address for a result is no ordinary argument */
/* tensorflow::GrpcWorkerServiceOptions of TensorFlow 2.20 and 2.21, the only ones that call it by
 * name: an unordered_map, then int num_serving_threads = 8. */
enum { THREADS_AT = 56, TENSORFLOWS_THREADS = 8 };
#define NEW_SERVICE                                                                                \
    "_ZN10tensorflow20NewGrpcWorkerServiceEPNS_10GrpcWorkerEPN4grpc13ServerBuilderENS_"            \
    "24GrpcWorkerServiceOptionsE"

/* std::unique_ptr<AsyncServiceInterface> tensorflow::NewGrpcWorkerService(GrpcWorker *,
 * grpc::ServerBuilder *, GrpcWorkerServiceOptions): in the C++ ABI `result` is where the result
 * goes, which is returned, and `options` where the caller's copy of the options is. */
void *new_service(void *result, void *worker, void *builder, void *options) __asm__(NEW_SERVICE);

void *new_service(void *result, void *worker, void *builder, void *options) {
    int verified, *threads = (int *)((char *)options + THREADS_AT);
    void *(*next)(void *, void *, void *, void *) =
        own_function(__builtin_return_address(0), NEW_SERVICE, &verified);
    cpu_set_t cores;

    if (next == NULL) {
        fputs("psclust's server shim: the caller of NewGrpcWorkerService does not have it\n",
              stderr);
        abort();
    }
    if (verified && *threads == TENSORFLOWS_THREADS &&
        sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < *threads)
        *threads = CPU_COUNT(&cores);
    return next(result, worker, builder, options);
}
#endif
