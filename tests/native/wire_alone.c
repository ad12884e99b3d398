/* psclust's wire without TensorFlow, for sanitizers.
 *
 *     wire_alone frames COUNT SEED     sends so many frames, many of them spoilt, to its parser
 *     wire_alone threads SECONDS       several tasks send, receive, connect, lose their connections
 *     wire_alone threads SECONDS DOOR LIBRARY
 *                                      the same under TLS, with TensorFlow's library: the forwarder
 *                                      in PSCLUST_FORWARDER, at the port DOOR, has a route for port
 * 1 wire_alone unasked BYTES LABELS  sends values of so many bytes each that nobody asks for
 *
 * Tensors are those of this file, which ends the program where TensorFlow would end its process. */
#define _GNU_SOURCE
#include "connection.h"
#include "variables.h"
#include "wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 1 << 22 }; /* tensor that there is memory for */

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* As the C library's; `asked` counts the calls of psclust's files. */
static atomic_int asked;

char *getenv(const char *name) {
    size_t length = strlen(name);
    asked += strncmp(name, "PSCLUST_", sizeof "PSCLUST_" - 1) == 0;
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

/* Tensors. */

enum { DOUBLE = 2, INT32 = 3, UINT8 = 4, INT16 = 5, BOOL = 10, HALF = 19 };

struct TF_Tensor {
    int type, dimensions;
    int64_t dimension[MOST_DIMENSIONS];
    size_t bytes;
    char *data;
};

static atomic_long tensors, waiters, came, failures;

static size_t size_of(int type) {
    static const size_t sizes[] = {[FLOAT] = 4,    [DOUBLE] = 8, [INT32] = 4, [UINT8] = 1,
                                   [INT16] = 2,    [INT8] = 1,   [INT64] = 8, [BOOL] = 1,
                                   [BFLOAT16] = 2, [HALF] = 2};
    return type < 0 || type > HALF ? 0 : sizes[type];
}

static TF_Tensor *new_tensor(int type, const int64_t *dimension, int dimensions, size_t bytes) {
    TF_Tensor *made = calloc(1, sizeof *made);
    int64_t elements = 1;
    REQUIRE(made != NULL && dimensions >= 0 && dimensions <= MOST_DIMENSIONS && size_of(type) > 0);
    for (int i = 0; i < dimensions; i++) {
        REQUIRE(dimension[i] >= 0 && !__builtin_mul_overflow(elements, dimension[i], &elements));
        made->dimension[i] = dimension[i];
    }
    REQUIRE(bytes == (size_t)elements * size_of(type));
    REQUIRE((int64_t)bytes <= (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE));
    made->type = type;
    made->dimensions = dimensions;
    made->bytes = bytes;
    made->data = bytes > 0 && bytes <= LARGEST ? malloc(bytes) : NULL;
    tensors++;
    return made;
}

static void delete_tensor(TF_Tensor *tensor) {
    free(tensor->data);
    free(tensor);
    tensors--;
}

static void *data(const TF_Tensor *tensor) {
    return tensor->data;
}
static size_t bytes(const TF_Tensor *tensor) {
    return tensor->bytes;
}
static int type(const TF_Tensor *tensor) {
    return tensor->type;
}
static int dimensions(const TF_Tensor *tensor) {
    return tensor->dimensions;
}
static int64_t dimension(const TF_Tensor *tensor, int i) {
    return tensor->dimension[i];
}

Interface tf = {.size_of = size_of,
                .new_tensor = new_tensor,
                .delete_tensor = delete_tensor,
                .data = data,
                .bytes = bytes,
                .type = type,
                .dimensions = dimensions,
                .dimension = dimension};

/* Numbers and time. */

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int limit) {
    return (int)(next(state) % (uint64_t)limit);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void wait_until_none(atomic_long *count, const char *what) {
    double limit = now() + 30;
    while (*count != 0 && now() < limit)
        usleep(1000);
    if (*count != 0) {
        fprintf(stderr, "%ld %s are left\n", *count, what);
        abort();
    }
}

/* Values, of which each byte follows from the label, and who waits for them. */

static char value_at(Label label, size_t at) {
    return (char)((uint64_t)label.step * 7 + (uint64_t)label.key * 13 + at);
}

static void fill(char *values, size_t size, Label label) {
    for (size_t at = 0; at < size; at++)
        values[at] = value_at(label, at);
}

typedef struct {
    Waiter waiter;
    Label label;
    atomic_int *done; /* set to 1 or, if it failed, -1; NULL: nobody looks */
    atomic_int unwanted;
    int spoilt; /* what comes may be anything */
} Expected;

static void end_expected(Expected *expected, int how) {
    atomic_int *done = expected->done;
    free(expected);
    waiters--;
    if (done != NULL)
        *done = how;
}

static void come(Waiter *waiter, TF_Tensor *tensor) {
    Expected *expected = (Expected *)waiter;
    for (size_t at = 0; at < tensor->bytes; at++)
        REQUIRE(expected->spoilt || tensor->data[at] == value_at(expected->label, at));
    delete_tensor(tensor);
    came++;
    end_expected(expected, 1);
}

static void failed(Waiter *waiter, int code, const char *reason) {
    REQUIRE(code != 0 && strlen(reason) > 0);
    failures++;
    end_expected((Expected *)waiter, -1);
}

static int unwanted(Waiter *waiter) {
    return ((Expected *)waiter)->unwanted;
}

static Expected *new_expected(Label label) {
    Expected *made = calloc(1, sizeof *made);
    REQUIRE(made != NULL);
    made->waiter = (Waiter){.come = come, .failed = failed, .unwanted = unwanted};
    made->label = label;
    waiters++;
    return made;
}

static void expect(const Pair *pair, Label label, int dropped, atomic_int *done) {
    Expected *made = new_expected(label);
    made->done = done;
    made->unwanted = dropped;
    receive_message(pair, label, &made->waiter);
}

/* A peer that is no task: it knows the secret, and says what it likes. */

/* Of the forwarder that hands over connections; 0: none, the wire listens itself. */
static int door;

static int stranger(Ticket ticket) {
    struct sockaddr_in there = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)(door ? door : ticket.port)),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
    unsigned char wire[9] = "w";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&there, sizeof there) == 0);
    for (int i = 1; i < 9; i++)
        wire[i] = (unsigned char)(ticket.port >> (64 - 8 * i));
    if (door)
        REQUIRE(send(fd, wire, sizeof wire, MSG_NOSIGNAL) == sizeof wire);
    return fd;
}

/* In pieces of random sizes. 0: the other end has closed the connection. */
static int say(int fd, const void *what, size_t size, uint64_t *state) {
    for (size_t at = 0; at < size;) {
        size_t piece = below(state, 4) == 0 ? 1 + next(state) % 40 : size - at;
        ssize_t count =
            send(fd, (const char *)what + at, piece < size - at ? piece : size - at, MSG_NOSIGNAL);
        if (count < 0)
            return 0;
        at += (size_t)count;
    }
    return 1;
}

static int greeted(Ticket ticket, const Pair *pair, uint64_t *state) {
    Hello hello = {.magic = MAGIC, .secret = {ticket.secret[0], ticket.secret[1]}, .pair = *pair};
    char answer;
    int fd = stranger(ticket);
    if (say(fd, &hello, sizeof hello, state) && recv(fd, &answer, 1, 0) == 1)
        return fd;
    close(fd);
    return -1;
}

/* When the other end has read all, and closed the connection. */
static void hang_up(int fd) {
    char rest[64];
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
    close(fd);
}

static const int TYPES[] = {FLOAT, DOUBLE, INT32, UINT8, INT16, INT8, INT64, BOOL, BFLOAT16, HALF};

static Header random_header(uint64_t *state, int64_t step) {
    Header header = {.label = {step, below(state, 1000)}, .dimensions = below(state, 9)};
    header.type = TYPES[below(state, sizeof TYPES / sizeof *TYPES)];
    header.bytes = (int64_t)size_of(header.type);
    for (int i = 0; i < header.dimensions; i++) {
        header.dimension[i] = below(state, 20) == 0 ? 0 : 1 + below(state, i < 2 ? 12 : 2);
        header.bytes *= header.dimension[i];
    }
    return header;
}

static void spoil(Header *header, uint64_t *state) {
    static const int64_t sizes[] = {-1,        INT64_MIN, INT64_MAX, (int64_t)1 << 62,
                                    1LL << 32, 1LL << 31, 1LL << 40, 0};
    static const int32_t numbers[] = {-1, 9, 255, INT32_MIN, INT32_MAX, 7, 20, 0};
    int64_t size = sizes[below(state, 8)];
    switch (below(state, 8)) {
    case 0:
        header->label.key = -1 - below(state, 5);
        break;
    case 1:
        header->bytes = size;
        break;
    case 2:
        header->dimensions = numbers[below(state, 8)];
        break;
    case 3:
        header->type = numbers[below(state, 8)];
        break;
    case 4: /* agrees with itself, where nothing overflows */
        header->dimensions = 1 + below(state, MOST_DIMENSIONS);
        for (int i = 0; i < header->dimensions; i++)
            header->dimension[i] = sizes[below(state, 8)];
        header->bytes = (int64_t)size_of(header->type);
        for (int i = 0; i < header->dimensions; i++)
            header->bytes = (int64_t)((uint64_t)header->bytes * (uint64_t)header->dimension[i]);
        break;
    case 5:
        header->dimension[below(state, MOST_DIMENSIONS)] = size;
        break;
    case 6:
        for (size_t i = 0; i < sizeof *header; i++)
            ((char *)header)[i] = (char)next(state);
        break;
    default:
        ((char *)header)[next(state) % sizeof *header] ^= (char)(1 << below(state, 8));
    }
}

static void send_frames(int64_t count, uint64_t seed) {
    static const Pair its = {"worker:0", "ps:0"}, ours = {"ps:0", "worker:0"};
    uint64_t state = seed;
    Ticket ticket;
    int64_t connections = 0;
    int fd = -1;
    static char values[1 << 17];
    REQUIRE(wire_listen(&ticket) == NULL);
    for (int64_t step = 1; step <= count; step++) {
        Header header = random_header(&state, step);
        size_t size = (size_t)header.bytes;
        int spoilt = below(&state, 12) == 0, ends_early = below(&state, 50) == 0;
        if (fd < 0) {
            fd = greeted(ticket, &its, &state);
            REQUIRE(fd >= 0);
            connections++;
        }
        REQUIRE(size <= sizeof values);
        fill(values, size, header.label);
        if (below(&state, 2) == 0) {
            Expected *made = new_expected(header.label);
            made->unwanted = below(&state, 10) == 0;
            made->spoilt = spoilt || ends_early;
            receive_message(&ours, made->label, &made->waiter);
        }
        if (spoilt) {
            spoil(&header, &state);
            if (header.label.step != step) /* nobody's */
                header.label.step = -step;
        }
        if (ends_early)
            size = size > 0 ? (size_t)below(&state, (int)size) : 0;
        if (!say(fd, &header, sizeof header, &state) || !say(fd, values, size, &state) || spoilt ||
            ends_early) {
            if (below(&state, 4) == 0) /* garbage */
                say(fd, values, sizeof values, &state);
            hang_up(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        hang_up(fd);
    wait_until_none(&waiters, "waiters");
    wait_until_none(&tensors, "tensors");
    printf("%ld frames, %ld connections, %ld values came, %ld did not\n", (long)count,
           (long)connections, came, failures);
}

/* Prints how many it takes before the connection ends. */
static void send_unasked(int64_t size, int64_t labels) {
    static const Pair its = {"worker:0", "ps:0"}, ours = {"ps:0", "worker:0"};
    uint64_t state = 1;
    int64_t step = 0;
    Ticket ticket;
    char *values = calloc(1, (size_t)size + 1);
    Header header = {.bytes = size, .type = UINT8, .dimensions = 1, .dimension = {size}};
    int fd, asked = 0;
    REQUIRE(wire_listen(&ticket) == NULL && values != NULL);
    fd = greeted(ticket, &its, &state);
    REQUIRE(fd >= 0);
    do
        header.label.step = 1 + step++ % labels;
    while (say(fd, &header, sizeof header, &state) && say(fd, values, (size_t)size, &state));
    close(fd);
    wait_until_none(&tensors, "tensors");
    /* What is asked for still comes. */
    fd = greeted(ticket, &its, &state);
    REQUIRE(fd >= 0);
    for (Label label = {1, 0}; label.step <= 100; label.step++, asked++) {
        Expected *made = new_expected(label);
        made->spoilt = 1;
        receive_message(&ours, label, &made->waiter);
        header.label = label;
        REQUIRE(say(fd, &header, sizeof header, &state));
        REQUIRE(say(fd, values, (size_t)size, &state));
    }
    hang_up(fd);
    wait_until_none(&waiters, "waiters");
    wait_until_none(&tensors, "tensors");
    free(values);
    printf("%ld unasked, %d asked, %ld came\n", (long)step, asked, came);
}

static Header told(int fd) {
    Header header;
    REQUIRE(recv(fd, &header, sizeof header, MSG_WAITALL) == sizeof header);
    return header;
}

/* A run that was cancelled elsewhere, then one that was cancelled here. */
static void cancel_runs(void) {
    static const Pair its[] = {{"worker:0", "ps:0"}, {"worker:1", "ps:0"}};
    static const Pair ours[] = {{"ps:0", "worker:0"}, {"ps:0", "worker:1"}};
    uint64_t state = 1;
    Ticket ticket;
    Header word = {.label = {7, -1}}, value = {.label = {8, 1}, .type = UINT8, .dimensions = 1};
    double began;
    int fd[2];
    REQUIRE(wire_listen(&ticket) == NULL);
    for (int i = 0; i < 2; i++) {
        fd[i] = greeted(ticket, &its[i], &state);
        REQUIRE(fd[i] >= 0);
        expect(&ours[i], (Label){7, 1}, 0, NULL);
    }
    expect(&ours[1], value.label, 0, NULL);
    REQUIRE(say(fd[0], &word, sizeof word, &state));
    for (double limit = now() + 60; waiters > 1;)
        REQUIRE(now() < limit);
    expect(&ours[1], (Label){7, 2}, 0, NULL); /* too late: it fails at once */
    REQUIRE(waiters == 1 && failures == 3);
    expect(&ours[1], (Label){9, 1}, 1, NULL);
    began = now();
    for (int i = 0; i < 2; i++)
        REQUIRE(told(fd[i]).label.step == 9);
    REQUIRE(now() - began > 2); /* first TensorFlow ends the run, with what was wrong */
    REQUIRE(say(fd[1], &value, sizeof value, &state));
    wait_until_none(&waiters, "waiters");
    printf("%ld came, %ld did not\n", came, failures);
}

/* Tasks, all in this process. */

static Ticket at_work;
static double end_at;
static atomic_int step_of;

static TF_Tensor *value_of(Label label, size_t size) {
    int64_t shape[1] = {(int64_t)size};
    TF_Tensor *made = new_tensor(UINT8, shape, 1, size);
    fill(made->data, size, label);
    return made;
}

/* One value there and one back, as a step has them. */
static void make_step(const Pair *out, const Pair *back, uint64_t *state) {
    size_t size = (size_t)(below(state, 10) == 0 ? below(state, 1 << 20) : 1 + below(state, 2000));
    int dropped = below(state, 20) == 0;
    Label there = {++step_of, 1}, home = {there.step, 2};
    atomic_int arrived = 0, returned = 0;
    if (below(state, 2)) { /* whichever is there first */
        expect(back, there, dropped, &arrived);
        send_message(out, there, value_of(there, size));
    } else if (send_message(out, there, value_of(there, size))) {
        expect(back, there, dropped, &arrived);
    } else {
        return;
    }
    expect(out, home, 0, &returned);
    send_message(back, home, value_of(home, size)); /* without a connection the other end fails */
    for (double limit = now() + 60; arrived == 0 || returned == 0;) {
        REQUIRE(now() < limit);
        usleep(100);
    }
}

static void *work(void *number) {
    Pair out = {"", "ps:0"}, back = {"ps:0", ""};
    uint64_t state = (uint64_t)(intptr_t)number + 1;
    snprintf(out.own, NAME, "worker:%d", (int)(intptr_t)number / 2); /* two threads each */
    snprintf(back.peer, NAME, "%s", out.own);
    while (now() < end_at) {
        wire_connect((Address){"127.0.0.1", 1}, at_work, &out);
        make_step(&out, &back, &state);
    }
    return NULL;
}

/* Takes the place of a task's connection and hangs up, says nothing, or says garbage. */
static void *disturb(void *unused) {
    uint64_t state = 99;
    Pair pair = {"", "ps:0"};
    int held[100] = {0}, count = 0;
    (void)unused;
    while (now() < end_at) {
        int fd;
        snprintf(pair.own, NAME, "worker:%d", below(&state, 3));
        fd = below(&state, 3) == 0 ? greeted(at_work, &pair, &state) : stranger(at_work);
        if (fd >= 0 && below(&state, 2))
            say(fd, &at_work, sizeof at_work, &state);
        if (fd >= 0 && count < 100)
            held[count++] = fd;
        else if (fd >= 0)
            close(fd);
        if (count == 100 || below(&state, 10) == 0)
            while (count > 0)
                close(held[--count]);
        usleep((useconds_t)below(&state, 20000));
    }
    while (count > 0)
        close(held[--count]);
    return NULL;
}

static void run_threads(double seconds) {
    pthread_t threads[7];
    REQUIRE(wire_listen(&at_work) == NULL);
    end_at = now() + seconds;
    for (intptr_t i = 0; i < 7; i++)
        REQUIRE(pthread_create(&threads[i], NULL, i < 6 ? work : disturb, (void *)i) == 0);
    for (int i = 0; i < 7; i++)
        pthread_join(threads[i], NULL);
    wait_until_none(&waiters, "waiters");
    /* A program may set others meanwhile, beside which getenv is not safe. */
    REQUIRE(asked == COUNT_OF_VARIABLES);
    printf("%d steps, %ld values came, %ld did not\n", step_of, came, failures);
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "frames") == 0)
        send_frames(atoll(arguments[2]), (uint64_t)atoll(arguments[3]));
    else if (count == 2 && strcmp(arguments[1], "cancelled") == 0)
        cancel_runs();
    else if (count == 3 && strcmp(arguments[1], "threads") == 0)
        run_threads(atof(arguments[2]));
    else if (count == 5 && strcmp(arguments[1], "threads") == 0 &&
             dlopen(arguments[4], RTLD_LAZY) != NULL && (door = atoi(arguments[3])) > 0)
        run_threads(atof(arguments[2]));
    else if (count == 4 && strcmp(arguments[1], "unasked") == 0)
        send_unasked(atoll(arguments[2]), atoll(arguments[3]));
    else
        return 2;
    return 0;
}
