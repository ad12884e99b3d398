/* Which process of this machine has the other end of a connection. */
#ifndef PSCLUST_PEER_OWNER_H
#define PSCLUST_PEER_OWNER_H

#include <netinet/in.h>
#include <sys/types.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* An IPv4 address in its v4-mapped form; port: in network order. */
typedef struct {
    struct in6_addr address;
    in_port_t port;
} End;

typedef enum {
    ELSEWHERE,  /* on another machine, or in another network namespace */
    HERE,       /* in a process here, which has it open */
    GONE,       /* it was closed, or there is no memory to find out */
    UNKNOWN_END /* the kernel does not say */
} Owner;

/* Of the socket at `peer` that is connected to `own`, an end of an open connection of this process.
 * uid: of the process that has it, if it is HERE. Never waits. */
HIDDEN Owner find_owner(const End *own, const End *peer, uid_t *uid);

#endif
