/*
 * The functions of libwireseal for Linux's sockets, on a kernel with TCP-AO: two sockets of this host, the server's keys by the key manager, the
 * caller's call by call. It ends with 0 if each does what the header says, and with 2 if the connection cannot be opened, as when it is
 * started with a word: the caller then has another secret.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wireseal.h>

#define IS(condition) ((condition) ? (void)0 : (printf("sockets.c:%d: not so: %s (%s)\n", __LINE__, #condition, message), exit(1)))
#define GIVES(wanted, call) gives(WIRESEAL_STATUS_##wanted, call, #call, __LINE__)

static char message[512];
static struct wireseal_manager *manager;
static const struct wireseal_network peer = {.address = {.version = 4, .octets = {127, 0, 0, 1}}, .prefix_length = 32};

static void gives(enum wireseal_status wanted, enum wireseal_status found, const char *call, int line)
{
    if (wanted == found)
        return;
    printf("sockets.c:%d: %s gave \"%s\": %s\n", line, call, wireseal_status_text((int32_t)found), message);
    exit(1);
}

static struct wireseal_mkt mkt(uint8_t id, const char *secret)
{
    const uint32_t algorithm = id == 1 ? WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1 : WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC;

    return (struct wireseal_mkt){.send_id = id, .recv_id = id, .algorithm = algorithm, .master_key = (const uint8_t *)secret, .master_key_length = strlen(secret)};
}

static const char SECRET[] = "what both ends know";

/* Gives the server's peer a chain of the first key, or of both with the second preferred. */
static uint64_t set_peer(size_t count)
{
    const struct wireseal_chain_key keys[] = {{.key_id = 1, .mkt = mkt(1, SECRET)}, {.key_id = 2, .mkt = mkt(2, SECRET)}};
    const uint64_t preferred = count;
    struct wireseal_chains *chains;
    uint64_t generation;

    GIVES(OK, wireseal_chains_from_keys("core", keys, count, 0, &preferred, message, sizeof message, &chains));
    GIVES(OK, wireseal_manager_set_peer(manager, "127.0.0.1", chains, NULL, message, sizeof message, &generation));
    GIVES(OK, wireseal_chains_end(chains));
    return generation;
}

/* What the last step has reported of each kind, and the lines with these words. */
static int reported[WIRESEAL_REPORT_KIND_PEER + 1], added, expired;

static void report(void *unused, const struct wireseal_report *found)
{
    size_t index;

    (void)unused;
    reported[found->kind]++;
    expired += found->kind == WIRESEAL_REPORT_KIND_CONNECTION && found->state.expired && found->state.user == &expired;
    for (index = 0; index < found->line_count; index++)
        added += strstr(found->lines[index].text, "add the key with SendID 2") != NULL;
}

static void step(void)
{
    memset(reported, 0, sizeof reported);
    added = expired = 0;
    GIVES(OK, wireseal_manager_step(manager, report, NULL));
}

static void count_line(void *count, const char *line)
{
    IS(line[0] != 0);
    ++*(int *)count;
}

static void pass(int from, int to)
{
    char octet = 'x';

    IS(send(from, &octet, 1, MSG_NOSIGNAL) == 1 && recv(to, &octet, 1, 0) == 1);
}

static struct wireseal_socket_info info_of(int fd)
{
    struct wireseal_socket_info info;

    GIVES(OK, wireseal_socket_get_info(fd, message, sizeof message, &info));
    return info;
}

int main(int count, char **arguments)
{
    const int listener = socket(AF_INET, SOCK_STREAM, 0), caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const struct wireseal_mkt first = mkt(1, count > 1 ? arguments[1] : SECRET), second = mkt(2, SECRET);
    const struct wireseal_key_name names[] = {{.remote = peer, .send_id = 1, .recv_id = 1}, {.remote = peer, .send_id = 2, .recv_id = 2}};
    const uint8_t second_id = 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    struct pollfd polled = {.fd = caller, .events = POLLOUT};
    struct wireseal_attachment *listens, *accepted;
    struct wireseal_linux_support support;
    struct wireseal_socket_state state;
    struct wireseal_socket_key keys[4];
    struct wireseal_progress progress;
    uint64_t generation;
    size_t found;
    int server, lines = 0, turn;
    char octet;

    GIVES(OK, wireseal_linux_probe(&support));
    IS(support.tcp_ao && support.algorithms & 1 << WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1);
    GIVES(OK, wireseal_manager_new(&manager));
    set_peer(1);
    GIVES(OK, wireseal_manager_attach_listener(manager, listener, message, sizeof message, &listens));
    GIVES(ALREADY_ATTACHED, wireseal_manager_attach_mixed(manager, listener, message, sizeof message, &accepted));
    IS(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
    IS(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    IS(info_of(listener).required && !info_of(caller).has_tcp_ao && info_of(caller).current_key == WIRESEAL_NO_KEY_ID);

    GIVES(OK, wireseal_socket_add_key(caller, &peer, &first, NULL, WIRESEAL_SOCKET_CURRENT | WIRESEAL_SOCKET_RNEXT, message, sizeof message));
    GIVES(ID_IN_USE, wireseal_socket_add_key(caller, &peer, &first, NULL, 0, message, sizeof message));
    GIVES(OK, wireseal_socket_add_key(caller, &peer, &second, NULL, 0, message, sizeof message));
    IS(connect(caller, (struct sockaddr *)&address, sizeof address) != 0 && errno == EINPROGRESS);
    if (poll(&polled, 1, 5000) != 1 || polled.revents != POLLOUT) {
        printf("the connection is not opened\n");
        return 2;
    }
    server = accept(listener, NULL, NULL);
    IS(server >= 0 && fcntl(caller, F_SETFL, 0) == 0);
    GIVES(OK, wireseal_manager_attach_accepted(manager, server, &peer.address, message, sizeof message, &accepted));
    GIVES(OK, wireseal_attachment_set_user(accepted, &expired));
    pass(caller, server);
    pass(server, caller);
    IS(info_of(caller).current_key == 1 && info_of(caller).rnext_key == 1 && info_of(caller).counters.good > 1);

    GIVES(OK, wireseal_socket_set_accept_icmps(caller, 1, message, sizeof message));
    IS(info_of(caller).accept_icmps && !info_of(server).accept_icmps && info_of(caller).current_key == 1);

    /* Over to the second key: the server asks for it, and then the caller does. */
    generation = set_peer(2);
    GIVES(OK, wireseal_manager_change(manager, NULL, 0, WIRESEAL_CHANGE_DRY_RUN, count_line, &lines, message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_progress(manager, generation, NULL, NULL, &progress));
    IS(lines == 2 && progress.sockets == 2 && progress.not_held == 2);
    step();
    IS(reported[WIRESEAL_REPORT_KIND_LISTENER] == 1 && reported[WIRESEAL_REPORT_KIND_CONNECTION] == 1 && added == 2);
    pass(server, caller);
    IS(info_of(caller).current_key == 2);
    GIVES(OK, wireseal_socket_set_rnext_key(caller, 2, message, sizeof message));
    pass(caller, server);
    for (turn = 0; turn < 50; turn++) {
        step();
        GIVES(OK, wireseal_manager_progress(manager, generation, NULL, NULL, &progress));
        if (progress.has_moved)
            break;
        usleep(200 * 1000);
    }
    IS(progress.is_held && progress.has_moved && info_of(server).current_key == 2);
    GIVES(TOO_SMALL, wireseal_attachment_keys(accepted, message, sizeof message, keys, 1, &found));
    IS(found == 2);
    GIVES(OK, wireseal_attachment_keys(accepted, message, sizeof message, keys, 4, &found));
    IS(found == 2 && keys[0].is_current + keys[1].is_current == 1 && keys[0].name.remote.address.octets[0] == 127);

    /* Away with the first; the last one stays. */
    GIVES(OK, wireseal_socket_delete_key(caller, &names[0], NULL, NULL, message, sizeof message));
    GIVES(UNKNOWN_KEY, wireseal_socket_delete_key(caller, &names[0], NULL, NULL, message, sizeof message));
    GIVES(UNKNOWN_KEY, wireseal_socket_set_current_key(caller, 1, message, sizeof message));
    GIVES(OK, wireseal_socket_set_current_key(caller, 2, message, sizeof message));
    GIVES(KEY_IN_USE, wireseal_socket_delete_key(caller, &names[1], NULL, NULL, message, sizeof message));
    GIVES(OK, wireseal_socket_add_key(caller, &peer, &first, NULL, WIRESEAL_SOCKET_CURRENT, message, sizeof message));
    GIVES(OK, wireseal_socket_delete_key(caller, &names[0], &second_id, NULL, message, sizeof message));
    GIVES(OK, wireseal_socket_keys(caller, message, sizeof message, keys, 4, &found));
    IS(found == 1 && strncmp(keys[0].algorithm, "cmac(aes", 8) == 0 && keys[0].is_current && keys[0].is_rnext && keys[0].mac_length == 12);

    /* Without its peer the connection goes on, and is to be closed. */
    GIVES(OK, wireseal_manager_remove_peer(manager, "127.0.0.1", message, sizeof message, NULL));
    step();
    GIVES(OK, wireseal_attachment_state(accepted, &state));
    IS(expired == 1 && state.expired && strcmp(state.peer, "127.0.0.1") == 0 && state.counters.good > 0 && state.counters.bad == 0);
    pass(server, caller);
    GIVES(OK, wireseal_socket_reset(server, message, sizeof message));
    IS(recv(caller, &octet, 1, 0) < 0 && errno == ECONNRESET);
    step();
    GIVES(OK, wireseal_attachment_end(accepted));
    GIVES(OK, wireseal_attachment_end(listens));
    GIVES(OK, wireseal_manager_end(manager));
    printf("all as the header says\n");
    return 0;
}
