/* Linux tells the user of a socket by NETLINK_SOCK_DIAG (sock_diag(7)), and in /proc/net/tcp. A
 * sandbox may have neither, and answers by the first as if there were no such socket; so what is
 * not found counts only if the other end, which is this process's own, is found. */
#include "peer_owner.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENING = 10 }; /* the kernel's TCP_LISTEN */

static Owner failed(void) {
    int passes = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return passes ? GONE : UNKNOWN_END;
}

static int is_v4(const End *end) {
    return IN6_IS_ADDR_V4MAPPED(&end->address);
}

static void put_address(uint32_t *to, const End *end, int v4) {
    if (v4)
        memcpy(to, &end->address.s6_addr[12], 4);
    else
        memcpy(to, &end->address, 16);
}

/* The kernel answers before the request has returned, so nothing waits. */
static Owner ask(int link, const End *own, const End *peer, uid_t *uid) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request;
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } reply;
    int v4 = is_v4(own) && is_v4(peer);
    ssize_t count;

    memset(&request, 0, sizeof request);
    request.head.nlmsg_len = sizeof request;
    request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.head.nlmsg_flags = NLM_F_REQUEST;
    request.body.sdiag_family = v4 ? AF_INET : AF_INET6;
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.id.idiag_sport = peer->port;
    request.body.id.idiag_dport = own->port;
    put_address(request.body.id.idiag_src, peer, v4);
    put_address(request.body.id.idiag_dst, own, v4);
    request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(link, &request, sizeof request, 0) < 0)
        return failed();
    count = recv(link, &reply, sizeof reply, MSG_DONTWAIT);
    if (count < 0)
        return failed();
    if (count >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
        reply.head.nlmsg_type == NLMSG_ERROR) {
        errno = -((struct nlmsgerr *)NLMSG_DATA(&reply.head))->error;
        return errno == ENOENT ? ELSEWHERE : failed();
    }
    if (count < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return UNKNOWN_END;
    struct inet_diag_msg found;
    memcpy(&found, NLMSG_DATA(&reply.head), sizeof found);
    /* For lack of the connection the kernel finds who listens at the peer's port. */
    if (found.idiag_state == LISTENING || found.id.idiag_dport != own->port)
        return ELSEWHERE;
    *uid = found.idiag_uid;
    /* What is closed may still have bytes under way; whose they are is forgotten, and reads root.
     */
    return found.idiag_inode != 0 ? HERE : GONE;
}

static Owner ask_kernel(const End *own, const End *peer, uid_t *uid) {
    int link = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    uid_t own_uid;
    Owner found;
    if (link < 0)
        return failed();
    found = ask(link, own, peer, uid);
    if (found == ELSEWHERE && ask(link, peer, own, &own_uid) != HERE)
        found = UNKNOWN_END;
    close(link);
    return found;
}

/* Of words as the kernel prints them: each is a number as it is in memory. */
static int parse_end(const char *text, End *end) {
    uint32_t word[4];
    unsigned port;
    memset(end, 0, sizeof *end);
    if (sscanf(text, "%8x%8x%8x%8x:%4x", &word[0], &word[1], &word[2], &word[3], &port) == 5) {
        memcpy(&end->address, word, 16);
    } else if (sscanf(text, "%8x:%4x", &word[0], &port) == 2) {
        end->address.s6_addr[10] = end->address.s6_addr[11] = 0xff;
        memcpy(&end->address.s6_addr[12], word, 4);
    } else {
        return 0;
    }
    end->port = htons((uint16_t)port);
    return 1;
}

static int same(const End *one, const End *other) {
    return one->port == other->port && memcmp(&one->address, &other->address, 16) == 0;
}

static void search(const char *table, const End *own, const End *peer, Owner *found, uid_t *uid) {
    char line[512], local_text[40], remote_text[40];
    End local, remote;
    unsigned user;
    unsigned long inode;
    FILE *file = fopen(table, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%*s %39s %39s %*s %*s %*s %*s %u %*s %lu", local_text, remote_text, &user,
                   &inode) != 4 ||
            !parse_end(local_text, &local) || !parse_end(remote_text, &remote))
            continue;
        if (same(&local, peer) && same(&remote, own)) {
            *found = inode != 0 ? HERE : GONE;
            *uid = user;
            break;
        }
        if (same(&local, own) && same(&remote, peer))
            *found = ELSEWHERE; /* unless it still comes */
    }
    fclose(file);
}

Owner find_owner(const End *own, const End *peer, uid_t *uid) {
    Owner found = ask_kernel(own, peer, uid);
    if (found != UNKNOWN_END)
        return found;
    search("/proc/net/tcp", own, peer, &found, uid);
    if (found == UNKNOWN_END || found == ELSEWHERE)
        search("/proc/net/tcp6", own, peer, &found, uid);
    return found;
}
