/*
 * A BGP speaker that announces nothing, with TCP-AO by the kernel and keys from a file: how the event loop of a daemon uses a struct
 * wireseal_manager. It needs Linux 6.7 or later with CONFIG_TCP_AO.
 *
 *     cc daemon.c $(pkg-config --cflags --libs wireseal) -o daemon
 *
 *     daemon KEYS AS PEER=CHAIN...
 *     daemon /etc/bgp/keys.toml 64512 to:192.0.2.7=core 2001:db8::7=edge
 *
 * It opens the session with a peer after "to:", and waits for the others. SIGHUP: it reads the file again. SIGTERM: it says goodbye and ends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <wireseal.h>

enum { PORT = 179, MOST = 64, RETRY = 5, HOLD_TIME = 9, OPEN = 1, NOTIFICATION = 3, KEEPALIVE = 4, HEADER = 19 };

struct peer {
    const char *address, *chain;
    struct wireseal_address octets;
    int is_dialled;
    time_t retry;
    /* Its session. */
    int fd, is_connecting, is_established;
    struct wireseal_attachment *attachment;
    time_t heard, said;
    size_t received;
    uint8_t buffer[4096];
};

static struct peer peers[MOST];
static size_t peer_count;
static uint16_t own_as;
static struct wireseal_manager *manager;
static uint64_t generation;
static int is_held, has_moved;
static char message[512];

static time_t now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "daemon: %s: %s\n", what, why);
    exit(2);
}

/* The reason of an error, for the log: the library's message, or the text of the status. */
static const char *reason(enum wireseal_status status)
{
    return message[0] != 0 ? message : wireseal_status_text((uint32_t)status);
}

/* ---- Sessions ---- */

static void end_session(struct peer *peer, const char *why)
{
    printf("%s: closed: %s\n", peer->address, why);
    /* End the attachment first: the manager has a duplicate of the descriptor. */
    wireseal_attachment_end(peer->attachment);
    close(peer->fd);
    peer->fd = -1;
    peer->retry = now() + RETRY;
}

static void say(struct peer *peer, uint8_t type, const uint8_t *body, size_t length)
{
    uint8_t octets[64];

    memset(octets, 0xff, 16);
    octets[16] = 0;
    octets[17] = (uint8_t)(HEADER + length);
    octets[18] = type;
    if (length > 0)
        memcpy(octets + HEADER, body, length);
    if (send(peer->fd, octets, HEADER + length, MSG_NOSIGNAL) != (ssize_t)(HEADER + length))
        end_session(peer, strerror(errno));
    peer->said = now();
}

/* Sends a Cease. It is signed, because the keys are still on the socket. */
static void shut_down(struct peer *peer, const char *why)
{
    const uint8_t administrative_shutdown[] = {6, 2};

    if (!peer->is_connecting)
        say(peer, NOTIFICATION, administrative_shutdown, sizeof administrative_shutdown);
    if (peer->fd >= 0)
        end_session(peer, why);
}

static void begin(struct peer *peer, int fd, struct wireseal_attachment *attachment, int is_connecting)
{
    /* Reports about the socket then say whose it is. */
    wireseal_attachment_set_user(attachment, peer);
    peer->fd = fd;
    peer->attachment = attachment;
    peer->is_connecting = is_connecting;
    peer->is_established = 0;
    peer->received = 0;
    peer->heard = now();
}

static void open_message(struct peer *peer)
{
    /* Version 4, hold time, router id; IPv4 unicast, and an AS of four octets. */
    uint8_t body[] = {4, 0, 0, 0, HOLD_TIME, 10, 0, 0, 1, 14, 2, 12, 1, 4, 0, 1, 0, 1, 65, 4, 0, 0, 0, 0};

    body[1] = body[22] = (uint8_t)(own_as >> 8);
    body[2] = body[23] = (uint8_t)own_as;
    say(peer, OPEN, body, sizeof body);
}

static void dial(struct peer *peer)
{
    const int family = peer->octets.version == 4 ? AF_INET : AF_INET6;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct wireseal_attachment *attachment;
    enum wireseal_status status;
    int done;

    peer->retry = now() + RETRY;
    /* Attach before connect(): if no key is valid, do not connect. */
    status = wireseal_manager_attach_connecting(manager, fd, &peer->octets, 0, message, sizeof message, &attachment);
    if (status != WIRESEAL_STATUS_OK) {
        printf("%s: not opened: %s\n", peer->address, reason(status));
        close(fd);
        return;
    }
    memcpy(&ipv4.sin_addr, peer->octets.octets, 4);
    memcpy(&ipv6.sin6_addr, peer->octets.octets, 16);
    done = family == AF_INET ? connect(fd, (struct sockaddr *)&ipv4, sizeof ipv4) : connect(fd, (struct sockaddr *)&ipv6, sizeof ipv6);
    begin(peer, fd, attachment, 1);
    if (done != 0 && errno != EINPROGRESS)
        end_session(peer, strerror(errno));
}

static void accept_one(int listener)
{
    const struct linger reset = {1, 0}, no_reset = {0, 0};
    struct sockaddr_in6 from;
    socklen_t length = sizeof from;
    struct wireseal_address remote = {.version = 6};
    struct wireseal_attachment *attachment;
    struct wireseal_socket_state state;
    enum wireseal_status status;
    size_t index;
    char text[INET6_ADDRSTRLEN];
    const int fd = accept4(listener, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    /* Until it is known to be the peer's, closing the connection resets it, and nothing is read from it. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    memcpy(remote.octets, &from.sin6_addr, 16);
    status = wireseal_manager_attach_accepted(manager, fd, &remote, message, sizeof message, &attachment);
    if (status != WIRESEAL_STATUS_OK) {
        printf("%s: refused: %s\n", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text), reason(status));
        close(fd);
        return;
    }
    wireseal_attachment_state(attachment, &state);
    for (index = 0; index < peer_count; index++)
        if (strcmp(peers[index].address, state.peer) == 0 && peers[index].fd < 0 && !peers[index].is_dialled) {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_reset, sizeof no_reset);
            begin(&peers[index], fd, attachment, 0);
            open_message(&peers[index]);
            return;
        }
    printf("%s: refused: it has a session, or has to wait for one\n", state.peer);
    wireseal_attachment_end(attachment);
    close(fd);
}

static void hear(struct peer *peer, const uint8_t *received)
{
    peer->heard = now();
    if (received[18] == NOTIFICATION) {
        end_session(peer, "by the peer");
    } else if (received[18] == OPEN) {
        say(peer, KEEPALIVE, NULL, 0);
    } else if (!peer->is_established) {
        peer->is_established = 1;
        printf("%s: established\n", peer->address);
    }
}

static void receive(struct peer *peer)
{
    const ssize_t octets = recv(peer->fd, peer->buffer + peer->received, sizeof peer->buffer - peer->received, 0);

    if (octets <= 0 && !(octets < 0 && errno == EAGAIN)) {
        end_session(peer, octets == 0 ? "by the peer" : strerror(errno));
        return;
    }
    peer->received += octets < 0 ? 0 : (size_t)octets;
    while (peer->fd >= 0 && peer->received >= HEADER) {
        const size_t length = (size_t)peer->buffer[16] << 8 | peer->buffer[17];

        if (length < HEADER || length > sizeof peer->buffer) {
            end_session(peer, "this is not BGP");
            return;
        }
        if (peer->received < length)
            return;
        hear(peer, peer->buffer);
        peer->received -= length;
        memmove(peer->buffer, peer->buffer + length, peer->received);
    }
}

/* ---- Keys ---- */

static void plan(void *unused, const char *line)
{
    (void)unused;
    printf("plan: %s\n", line);
}

/* Gives all peers their chains from the file in one change. If the file has a mistake, nothing changes. */
static enum wireseal_status load(const char *path)
{
    struct wireseal_peer_change changes[MOST];
    struct wireseal_chains *chains;
    size_t index;
    enum wireseal_status status = wireseal_chains_from_file(path, 0, message, sizeof message, &chains);

    if (status != WIRESEAL_STATUS_OK)
        return status;
    if (message[0] != 0)
        printf("%s\n", message);
    memset(changes, 0, sizeof changes);
    for (index = 0; index < peer_count; index++) {
        changes[index].peer = peers[index].address;
        changes[index].kind = WIRESEAL_PEER_CHANGE_KIND_SET;
        changes[index].chains = chains;
        changes[index].chain = peers[index].chain;
    }
    status = wireseal_manager_change(manager, changes, peer_count, WIRESEAL_CHANGE_DRY_RUN, plan, NULL, message, sizeof message, NULL);
    if (status == WIRESEAL_STATUS_OK)
        status = wireseal_manager_change(manager, changes, peer_count, 0, NULL, NULL, message, sizeof message, &generation);
    if (status == WIRESEAL_STATUS_OK) {
        is_held = has_moved = 0;
        printf("generation %llu: accepted\n", (unsigned long long)generation);
    }
    /* The manager has its own copies; this wipes ours. */
    wireseal_chains_end(chains);
    return status;
}

/* Handles what a step found out about a socket or a peer. */
static void report(void *unused, const struct wireseal_report *found)
{
    size_t index;

    (void)unused;
    for (index = 0; index < found->line_count; index++)
        printf("%s%s: %s\n", found->lines[index].is_warning ? "warning: " : "", found->state.peer[0] != 0 ? found->state.peer : "listener", found->lines[index].text);
    if (found->state.user != NULL && found->state.expired)
        shut_down((struct peer *)found->state.user, "no key is valid");
}

static void step(void)
{
    struct wireseal_progress progress;

    wireseal_manager_step(manager, report, NULL);
    wireseal_manager_progress(manager, generation, NULL, NULL, &progress);
    if (progress.is_held && !is_held)
        printf("generation %llu: on all sockets\n", (unsigned long long)generation);
    if (progress.has_moved && !has_moved)
        printf("generation %llu: used by all peers\n", (unsigned long long)generation);
    is_held = progress.is_held;
    has_moved = progress.has_moved;
}

/* ---- The program ---- */

static void configure(char **arguments, int count)
{
    int index;

    for (index = 0; index < count && index < MOST; index++) {
        struct peer *peer = &peers[peer_count++];
        char *chain = strchr(arguments[index], '=');

        peer->is_dialled = strncmp(arguments[index], "to:", 3) == 0;
        peer->address = arguments[index] + (peer->is_dialled ? 3 : 0);
        peer->fd = -1;
        if (chain == NULL)
            fail(arguments[index], "write PEER=CHAIN");
        *chain = 0;
        peer->chain = chain + 1;
        peer->octets.version = inet_pton(AF_INET, peer->address, peer->octets.octets) == 1 ? 4 : 6;
        if (peer->octets.version == 6 && inet_pton(AF_INET6, peer->address, peer->octets.octets) != 1)
            fail(peer->address, "this is no address");
    }
}

static int listen_to_peers(void)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1, no = 0;
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct wireseal_attachment *attachment;
    enum wireseal_status status;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    /* Attach before listen(): anyone who connects before gets in unsigned. */
    status = wireseal_manager_attach_listener(manager, fd, message, sizeof message, &attachment);
    if (status != WIRESEAL_STATUS_OK)
        fail("listener", reason(status));
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0 || listen(fd, 16) != 0)
        fail("port 179", strerror(errno));
    printf("listening\n");
    return fd;
}

static void serve(struct peer *peer, short events)
{
    int error = 0;
    socklen_t length = sizeof error;

    if (peer->is_connecting && events != 0) {
        getsockopt(peer->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        peer->is_connecting = 0;
        peer->heard = now();
        if (error != 0)
            end_session(peer, strerror(error));
        else
            open_message(peer);
    } else if (events != 0) {
        receive(peer);
    }
    if (peer->fd >= 0 && !peer->is_connecting && now() >= peer->heard + HOLD_TIME)
        end_session(peer, "nothing was heard for the hold time");
    else if (peer->fd >= 0 && peer->is_established && now() >= peer->said + HOLD_TIME / 3)
        say(peer, KEEPALIVE, NULL, 0);
}

int main(int count, char **arguments)
{
    sigset_t signals;
    struct pollfd polled[3 + MOST];
    struct signalfd_siginfo signal;
    enum wireseal_status status;
    size_t index;

    if (count < 4 || count > 3 + MOST)
        fail("usage", "daemon KEYS AS PEER=CHAIN...");
    own_as = (uint16_t)atoi(arguments[2]);
    configure(arguments + 3, count - 3);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    status = wireseal_manager_new(&manager);
    if (status == WIRESEAL_STATUS_OK)
        status = load(arguments[1]);
    if (status != WIRESEAL_STATUS_OK)
        fail("keys", reason(status));
    polled[0].fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    wireseal_manager_fd(manager, &polled[1].fd);
    polled[2].fd = listen_to_peers();
    for (;;) {
        for (index = 0; index < peer_count; index++) {
            if (peers[index].fd < 0 && peers[index].is_dialled && now() >= peers[index].retry)
                dial(&peers[index]);
            polled[3 + index].fd = peers[index].fd;
            polled[3 + index].events = peers[index].is_connecting ? POLLOUT : POLLIN;
        }
        polled[0].events = polled[1].events = polled[2].events = POLLIN;
        if (poll(polled, 3 + peer_count, 1000) < 0 && errno != EINTR)
            fail("poll", strerror(errno));
        if (polled[0].revents != 0 && read(polled[0].fd, &signal, sizeof signal) == sizeof signal) {
            if (signal.ssi_signo != SIGHUP)
                break;
            status = load(arguments[1]);
            if (status != WIRESEAL_STATUS_OK)
                printf("nothing changed: %s\n", reason(status));
        }
        if (polled[1].revents != 0)
            step();
        if (polled[2].revents != 0)
            accept_one(polled[2].fd);
        for (index = 0; index < peer_count; index++)
            if (peers[index].fd >= 0)
                serve(&peers[index], polled[3 + index].fd == peers[index].fd ? polled[3 + index].revents : 0);
    }
    for (index = 0; index < peer_count; index++)
        if (peers[index].fd >= 0)
            shut_down(&peers[index], "the daemon ends");
    wireseal_manager_end(manager);
    return 0;
}
