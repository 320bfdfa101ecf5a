/* A BGP speaker, or an echo service, on lwIP under TCP-AO. README.md shows how to run it. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "link.h"
#include "protection.h"
#include "session.h"
#include "wireseal_netif.h"

#include "lwip/priv/tcp_priv.h"
#include "lwip/tcpip.h"

#define BGP_PORT 179

static const char usage[] =
    "usage: lwip-bgp -t|-T DEVICE|-s OWN,PEER -a ADDRESS... -p ADDRESS -k FILE [-P PORT] [-c] [-e | -A AS,AS] [-l N]\n"
    "  -t DEVICE    a TUN device that exists\n"
    "  -T DEVICE    a TAP device that exists\n"
    "  -s OWN,PEER  Unix datagram sockets that carry Ethernet frames\n"
    "  -a ADDRESS   own address; its network is the link's /24 or /64. There may be one of IPv4 and one of IPv6\n"
    "  -p ADDRESS   the peer's address\n"
    "  -k FILE      the keys: SendID, RecvID, algorithm and secret on each line; the first one opens the session\n"
    "  -P PORT      the port to listen at, or to call; otherwise 179\n"
    "  -c           call the peer instead of listening\n"
    "  -e           echo what is received, instead of speaking BGP\n"
    "  -A AS,AS     own AS number, and the peer's; otherwise 64512,64513\n"
    "  -l N         lose every Nth frame, each way\n"
    "commands on standard input: r asks the peer for the next key, c prints counters, KeyIDs and how many sent frames\n"
    "were lost, q closes the session and ends\n";

static struct link uplink;
static struct netif netif;
static struct wireseal_netif wrapper;
static struct wireseal_shim *shim;

static const char *key_file;
/* Own addresses, of IPv4 and of IPv6. */
static ip_addr_t own[2];
static ip_addr_t remote;
static u16_t port = BGP_PORT;
static bool is_calling;
static const struct application *application = &bgp_application;

static void random_octets(void *octets, size_t length)
{
    if (getrandom(octets, length, 0) != (ssize_t)length) {
        abort();
    }
}

/* lwIP begins with the same ISNs at every start, but TCP-AO's traffic keys differ only as the ISNs do (RFC 5925 §5.2). In a
 * build of your own, define LWIP_HOOK_TCP_ISN. Debian's has no hooks; its calls of tcp_next_iss() come here instead. */
u32_t tcp_next_iss(struct tcp_pcb *pcb)
{
    u32_t isn;

    LWIP_UNUSED_ARG(pcb);
    random_octets(&isn, sizeof isn);
    return isn;
}

/* Everything that touches lwIP or the shim runs on lwIP's thread: this, what lwIP calls, and commands. */
static void start(void *unused)
{
    const ip_addr_t *local = &own[IP_IS_V6(&remote)];
    ip4_addr_t mask;
    err_t error;

    LWIP_UNUSED_ARG(unused);
    bgp_terms.local = *local;
    netif_add_noaddr(&netif, &uplink, link_init, tcpip_input);
    shim = protection_start(key_file, local, &remote, netif.mtu);
    if (shim == NULL) {
        exit(2);
    }
    wireseal_netif_wrap(&wrapper, &netif, shim);
    netif_set_default(&netif);
    netif_set_up(&netif);
    if (!ip_addr_isany_val(own[0])) {
        IP4_ADDR(&mask, 255, 255, 255, 0);
        netif_set_addr(&netif, ip_2_ip4(&own[0]), &mask, NULL);
    }
    if (!ip_addr_isany_val(own[1])) {
        netif_ip6_addr_set(&netif, 0, ip_2_ip6(&own[1]));
        netif_ip6_addr_set_state(&netif, 0, IP6_ADDR_PREFERRED);
    }
    link_start(&netif);
    error = (is_calling ? session_dial : session_listen)(application, local, &remote, port);
    if (error != ERR_OK) {
        say("%s port %u: lwIP error %d", ipaddr_ntoa(is_calling ? &remote : local), port, error);
        exit(2);
    }
    say("%s %s port %u", is_calling ? "calling" : "listening at", ipaddr_ntoa(is_calling ? &remote : local), port);
}

/* The link has stopped, and lwIP has its last frames. lwIP forgets the connections of the netif's addresses. */
static void end(void *unused)
{
    LWIP_UNUSED_ARG(unused);
    netif_set_down(&netif);
    wireseal_netif_unwrap(&wrapper);
    LWIP_ASSERT("the netif is as it was before", netif.input == tcpip_input);
    netif_remove(&netif);
    wireseal_shim_end(shim);
}

static void command(void *which)
{
    switch (*(const char *)which) {
    case 'r':
        puts(protection_roll(shim, session_current()) ? "asked for the next key" : "there is no session");
        fflush(stdout);
        break;
    case 'c':
        protection_report(shim, session_current());
        /* Those that were received are counted in the link's own thread. */
        printf(", lost %u\n", uplink.lose == 0 ? 0 : uplink.sent / uplink.lose);
        fflush(stdout);
        break;
    case 'q':
        session_leave();
        break;
    default:
        break;
    }
}

static void wrong(const char *what, const char *value)
{
    fprintf(stderr, "lwip-bgp: %s %s\n%s", what, value, usage);
    exit(2);
}

static unsigned long number(const char *text, unsigned long most, const char *what)
{
    char *end;
    unsigned long number;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (end == text || (*end != '\0' && *end != ',') || errno != 0 || number == 0 || number > most) {
        wrong(what, text);
    }
    return number;
}

/* The second of two values with a comma between them. */
static char *second(char *text, const char *what)
{
    char *comma = strchr(text, ',');

    if (comma == NULL) {
        wrong(what, text);
    }
    return comma + 1;
}

static void read_options(int count, char **options)
{
    bool has_link = false;
    ip_addr_t address;
    char *other;
    int option;

    while ((option = getopt(count, options, "t:T:s:a:p:k:P:ceA:l:")) != -1) {
        switch (option) {
        case 't':
        case 'T':
            has_link = link_open_device(&uplink, optarg, option == 'T');
            if (!has_link) {
                wrong(strerror(errno), optarg);
            }
            break;
        case 's':
            other = second(optarg, "two paths with a comma between them, not");
            other[-1] = '\0';
            has_link = link_open_socket(&uplink, optarg, other);
            if (!has_link) {
                wrong(strerror(errno), optarg);
            }
            break;
        case 'a':
        case 'p':
            if (!ipaddr_aton(optarg, &address)) {
                wrong("no IP address:", optarg);
            }
            *(option == 'p' ? &remote : &own[IP_IS_V6(&address)]) = address;
            break;
        case 'k':
            key_file = optarg;
            break;
        case 'P':
            port = (u16_t)number(optarg, UINT16_MAX, "no port:");
            break;
        case 'c':
            is_calling = true;
            break;
        case 'e':
            application = &echo_application;
            break;
        case 'A':
            bgp_terms.local_as = (u32_t)number(optarg, UINT32_MAX, "no AS number:");
            bgp_terms.remote_as = (u32_t)number(second(optarg, "two AS numbers, not"), UINT32_MAX, "no AS number:");
            break;
        case 'l':
            uplink.lose = (unsigned)number(optarg, UINT16_MAX, "no number of frames:");
            break;
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < count || !has_link || key_file == NULL || ip_addr_isany_val(remote)
        || ip_addr_isany_val(own[IP_IS_V6(&remote)])) {
        wrong("needs a link, a file of keys, the peer's address, and an own one of the same IP version", "");
    }
}

int main(int count, char **options)
{
    unsigned seed;
    char which;
    ssize_t got;

    bgp_terms.local_as = 64512;
    bgp_terms.remote_as = 64513;
    read_options(count, options);
    /* lwIP chooses ports with rand(). */
    random_octets(&seed, sizeof seed);
    srand(seed);
    tcpip_init(NULL, NULL);
    tcpip_callback_wait(start, NULL);
    do {
        got = read(STDIN_FILENO, &which, 1);
        if (got <= 0) {
            which = 'q';
        }
        tcpip_callback_wait(command, &which);
    } while (which != 'q');
    /* For the peer's answer to the end of the session. */
    sleep(1);
    link_stop(&netif);
    tcpip_callback_wait(end, NULL);
    return session_status;
}
