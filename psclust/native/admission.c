/* PSCLUST_ADMIT has IPv4 and IPv6 addresses, and networks such as 10.1.0.0/16, with commas between
 * them; `all` is every address. Without the variable everybody is admitted.
 *
 * The file PSCLUST_STRANGERS gets a line of fixed length: how many connections were closed, by all
 * attempts of the task, and of whom the last was. */
#include "admission.h"
#include "variables.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 96, WHOM = 64, QUIET_S = 60 };

/* 1: an internet address; 0: another kind. */
static int end_of(const struct sockaddr_storage *name, End *end) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)name;
    memset(end, 0, sizeof *end);
    if (name->ss_family == AF_INET6) {
        end->address = v6->sin6_addr;
    } else if (name->ss_family == AF_INET) {
        end->address.s6_addr[10] = end->address.s6_addr[11] = 0xff;
        memcpy(&end->address.s6_addr[12], &v4->sin_addr, 4);
    } else {
        return 0;
    }
    end->port = v4->sin_port; /* at the same place in both kinds */
    return 1;
}

static int is_loopback(const struct in6_addr *address) {
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

/* Whether `entry`, an address or a network, has the address. Changes `entry`. */
static int covers(char *entry, const struct in6_addr *address) {
    unsigned char network[16] = {0};
    char *slash = strchr(entry, '/');
    int bits = 128, first = 0;
    if (slash != NULL)
        *slash = 0;
    if (strchr(entry, ':') == NULL) {
        network[10] = network[11] = 0xff;
        first = 96;
    }
    if (inet_pton(first ? AF_INET : AF_INET6, entry, &network[first / 8]) != 1)
        return 0;
    if (slash != NULL && (slash[1] < '0' || slash[1] > '9'))
        return 0;
    if (slash != NULL)
        bits = first + atoi(slash + 1);
    for (int byte = 0; byte < 16 && bits > 0; byte++, bits -= 8) {
        unsigned mask = bits >= 8 ? 0xffu : 0xffu << (8 - bits);
        if (((network[byte] ^ address->s6_addr[byte]) & mask) != 0)
            return 0;
    }
    return 1;
}

static int is_listed(const char *list, const struct in6_addr *address) {
    char entry[INET6_ADDRSTRLEN + sizeof "/128"];
    for (const char *at = list; *at != 0;) {
        size_t length = strcspn(at, ",");
        if (length > 0 && length < sizeof entry) {
            memcpy(entry, at, length);
            entry[length] = 0;
            if (strcmp(entry, "all") == 0 || covers(entry, address))
                return 1;
        }
        at += length + (at[length] != 0);
    }
    return 0;
}

/* Adds one to the count in the file; returns the new one. */
static unsigned long long add_one(const char *whom) {
    const char *path = variable(PSCLUST_STRANGERS);
    static unsigned long long here;
    unsigned long long count = ++here;
    char line[LINE + 1] = {0};
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return count;
    if (pread(fd, line, LINE, 0) > 0)
        count = strtoull(line, NULL, 10) + 1;
    snprintf(line, sizeof line, "%-20llu%-*s\n", count, LINE - 21, whom);
    if (pwrite(fd, line, LINE, 0) != LINE)
        count = here; /* the disk is full */
    close(fd);
    return count;
}

/* On stderr, unless that has no room: who reads it may be stopped. */
static void say(const char *format, ...) {
    struct pollfd out = {STDERR_FILENO, POLLOUT, 0};
    va_list values;
    if (poll(&out, 1, 0) != 1)
        return;
    va_start(values, format);
    vdprintf(STDERR_FILENO, format, values);
    va_end(values);
}

static void count_stranger(const char *whom) {
    static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
    static time_t said;
    struct timespec now;
    unsigned long long count;
    pthread_mutex_lock(&counting);
    count = add_one(whom);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (said == 0 || now.tv_sec - said >= QUIET_S) {
        said = now.tv_sec;
        say("psclust: connections that are not of this run are closed, %llu so far, the last from "
            "%s; `admit` lets addresses in\n",
            count, whom);
    }
    pthread_mutex_unlock(&counting);
}

static void say_that_users_are_unknown(void) {
    static int said;
    if (!said)
        say("psclust: the kernel does not say whose connections are (neither sock_diag nor "
            "/proc/net/tcp), so every user of this machine may connect to this task\n");
    said = 1;
}

int is_admitted(int fd) {
    const char *list = variable(PSCLUST_ADMIT);
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    End own, peer;
    uid_t uid = 0;
    char whom[WHOM];

    if (list == NULL || strcmp(list, "all") == 0)
        return 1;
    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0 || !end_of(&name, &own))
        return 1;
    size = sizeof name;
    if (getpeername(fd, (struct sockaddr *)&name, &size) != 0 || !end_of(&name, &peer))
        return 0;
    Owner owner = find_owner(&own, &peer, &uid);
    /* What is gone is not counted: psclust itself connects and closes to see whether a server
     * answers. */
    if (owner == GONE)
        return 0;
    if ((owner == HERE && (uid == geteuid() || uid == 0)) || is_listed(list, &peer.address))
        return 1;
    size = sizeof name;
    if (owner == UNKNOWN_END &&
        (is_loopback(&peer.address) || memcmp(&peer.address, &own.address, 16) == 0)) {
        if (getpeername(fd, (struct sockaddr *)&name, &size) != 0)
            return 0;
        say_that_users_are_unknown();
        return 1;
    }
    if (IN6_IS_ADDR_V4MAPPED(&peer.address))
        inet_ntop(AF_INET, &peer.address.s6_addr[12], whom, sizeof whom);
    else
        inet_ntop(AF_INET6, &peer.address, whom, sizeof whom);
    if (owner == HERE)
        snprintf(whom + strlen(whom), sizeof whom - strlen(whom), " (uid %u)", (unsigned)uid);
    count_stranger(whom);
    return 0;
}
