#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/sys.h"

#define MTU 1500
#define LONGEST_FRAME (SIZEOF_ETH_HDR + MTU)

bool link_open_device(struct link *link, const char *device, bool is_ethernet)
{
    struct ifreq request = {.ifr_flags = (short)((is_ethernet ? IFF_TAP : IFF_TUN) | IFF_NO_PI)};

    if (strlen(device) >= sizeof request.ifr_name) {
        errno = ENAMETOOLONG;
        return false;
    }
    /* The kernel would make a device of a name that it does not know. */
    if (if_nametoindex(device) == 0) {
        return false;
    }
    strcpy(request.ifr_name, device);
    link->is_ethernet = is_ethernet;
    link->descriptor = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    return link->descriptor >= 0 && ioctl(link->descriptor, TUNSETIFF, &request) == 0;
}

bool link_open_socket(struct link *link, const char *own, const char *peer)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX}, remote = {.sun_family = AF_UNIX};

    if (strlen(own) >= sizeof local.sun_path || strlen(peer) >= sizeof remote.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(local.sun_path, own);
    strcpy(remote.sun_path, peer);
    unlink(own);
    link->is_ethernet = true;
    link->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return link->descriptor >= 0 && bind(link->descriptor, (struct sockaddr *)&local, sizeof local) == 0
        && connect(link->descriptor, (struct sockaddr *)&remote, sizeof remote) == 0;
}

static bool is_lost(const struct link *link, unsigned *counter)
{
    return link->lose != 0 && ++*counter % link->lose == 0;
}

static err_t transmit(struct netif *netif, struct pbuf *packet)
{
    struct link *link = netif->state;
    u8_t frame[LONGEST_FRAME];
    u16_t length = pbuf_copy_partial(packet, frame, sizeof frame, 0);

    if (is_lost(link, &link->sent)) {
        return ERR_OK;
    }
    return write(link->descriptor, frame, length) == length ? ERR_OK : ERR_IF;
}

static err_t transmit_ip4(struct netif *netif, struct pbuf *packet, const ip4_addr_t *next_hop)
{
    LWIP_UNUSED_ARG(next_hop);
    return transmit(netif, packet);
}

static err_t transmit_ip6(struct netif *netif, struct pbuf *packet, const ip6_addr_t *next_hop)
{
    LWIP_UNUSED_ARG(next_hop);
    return transmit(netif, packet);
}

err_t link_init(struct netif *netif)
{
    const struct link *link = netif->state;

    netif->name[0] = 'f';
    netif->name[1] = 'd';
    netif->mtu = MTU;
    netif->flags = NETIF_FLAG_LINK_UP;
    netif->output = transmit_ip4;
    netif->output_ip6 = transmit_ip6;
    if (link->is_ethernet) {
        netif->flags |= NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_MLD6;
        netif->output = etharp_output;
        netif->output_ip6 = ethip6_output;
        netif->linkoutput = transmit;
        netif->hwaddr_len = ETH_HWADDR_LEN;
        netif->hwaddr[0] = 2;
        netif->hwaddr[5] = 1;
    }
    return ERR_OK;
}

static void receive(void *argument)
{
    struct netif *netif = argument;
    struct link *link = netif->state;
    u8_t frame[LONGEST_FRAME];
    struct pollfd readable[] = {{link->descriptor, POLLIN, 0}, {link->stop, POLLIN, 0}};

    for (;;) {
        struct pbuf *packet;
        ssize_t length;

        if (poll(readable, 2, -1) < 0) {
            continue;
        }
        if (readable[1].revents != 0) {
            sys_sem_signal(&link->stopped);
            return;
        }
        length = read(link->descriptor, frame, sizeof frame);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            perror("link");
            exit(1);
        }
        if (is_lost(link, &link->received)) {
            continue;
        }
        /* Not PBUF_POOL: in Debian's library these have room for 592 octets only, and are filled beyond (README.md). */
        packet = pbuf_alloc(PBUF_RAW, (u16_t)length, PBUF_RAM);
        if (packet == NULL) {
            continue;
        }
        pbuf_take(packet, frame, (u16_t)length);
        if (netif->input(packet, netif) != ERR_OK) {
            pbuf_free(packet);
        }
    }
}

void link_start(struct netif *netif)
{
    struct link *link = netif->state;

    link->stop = eventfd(0, EFD_CLOEXEC);
    if (link->stop < 0 || sys_sem_new(&link->stopped, 0) != ERR_OK) {
        perror("link");
        exit(1);
    }
    sys_thread_new("link", receive, netif, DEFAULT_THREAD_STACKSIZE, DEFAULT_THREAD_PRIO);
}

void link_stop(struct netif *netif)
{
    struct link *link = netif->state;

    eventfd_write(link->stop, 1);
    sys_sem_wait(&link->stopped);
    sys_sem_free(&link->stopped);
    close(link->stop);
}
