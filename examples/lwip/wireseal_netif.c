#include "wireseal_netif.h"

#include <string.h>

#include "lwip/pbuf.h"
#include "lwip/prot/ethernet.h"
#include "lwip/stats.h"
#include "lwip/sys.h"
#include "lwip/tcpip.h"
#include "lwip/timeouts.h"

/* How often ended connections are forgotten, in milliseconds. */
#define EXPIRE_INTERVAL 60000
/* There is no IP packet in a frame. */
#define NO_IP UINT16_MAX

static struct wireseal_netif *wrappers;

static struct wireseal_netif *wrapper_of(const struct netif *netif)
{
    struct wireseal_netif *wrapper = wrappers;
    while (wrapper->netif != netif) {
        wrapper = wrapper->next;
    }
    return wrapper;
}

uint64_t wireseal_netif_now(void)
{
    static uint64_t now;
    now += (u32_t)(sys_now() - (u32_t)now);
    return now;
}

/* Octets in front of the IP packet in a frame. Finds it wherever lwIP would: after one VLAN tag, too. */
static u16_t ip_offset(const struct netif *netif, const struct pbuf *frame)
{
    const u8_t *octets = frame->payload;
    u16_t offset = SIZEOF_ETH_HDR, type;

    if (!(netif->flags & (NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET))) {
        return 0;
    }
    if (frame->len < SIZEOF_ETH_HDR + SIZEOF_VLAN_HDR) {
        return NO_IP;
    }
    memcpy(&type, octets + offset - sizeof type, sizeof type);
    if (type == PP_HTONS(ETHTYPE_VLAN)) {
        offset += SIZEOF_VLAN_HDR;
        memcpy(&type, octets + offset - sizeof type, sizeof type);
    }
    return type == PP_HTONS(ETHTYPE_IP) || type == PP_HTONS(ETHTYPE_IPV6) ? offset : NO_IP;
}

/* Gives lwIP a frame, if the shim lets it pass. Takes the frame in any case. */
static err_t verify(struct pbuf *frame, struct netif *netif)
{
    /* The shim wants a packet in one piece. Without memory for one, the chain comes back as it is, and is dropped. */
    struct pbuf *whole = pbuf_coalesce(frame, PBUF_RAW);
    u16_t offset = ip_offset(netif, whole);
    u8_t *octets = whole->payload;

    if (whole->next != NULL) {
        LINK_STATS_INC(link.memerr);
        pbuf_free(whole);
        return ERR_OK;
    }
    if (offset != NO_IP) {
        size_t size = (size_t)(whole->len - offset), start, length;
        enum wireseal_status status = wireseal_shim_inbound(
            wrapper_of(netif)->shim, wireseal_netif_now(), octets + offset, size, &start, &length);

        if (status != WIRESEAL_STATUS_OK) {
            LINK_STATS_INC(link.drop);
            pbuf_free(whole);
            return ERR_OK;
        }
        /* The packet has become shorter at its front, so the link's header moves up to it. */
        memmove(octets + start, octets, offset);
        pbuf_remove_header(whole, start);
        pbuf_realloc(whole, (u16_t)(offset + length));
    }
    if (netif_input(whole, netif) != ERR_OK) {
        pbuf_free(whole);
    }
    return ERR_OK;
}

#if NO_SYS
#define INPUT verify
#else
#define INPUT input

/* In the driver's thread: passes the frame on to lwIP's. */
static err_t input(struct pbuf *frame, struct netif *netif)
{
    return tcpip_inpkt(frame, netif, verify);
}
#endif

/* A signed copy of a packet. lwIP keeps the packet itself, to send it again. */
static err_t sign(const struct netif *netif, struct pbuf *packet, struct pbuf **out)
{
    size_t size = (size_t)WIRESEAL_OPTION_ROOM + packet->tot_len, start, length;
    struct pbuf *copy = size > UINT16_MAX ? NULL : pbuf_alloc(PBUF_LINK, (u16_t)size, PBUF_RAM);
    enum wireseal_status status;

    *out = NULL;
    if (copy == NULL) {
        LINK_STATS_INC(link.memerr);
        return ERR_MEM;
    }
    pbuf_copy_partial(packet, (u8_t *)copy->payload + WIRESEAL_OPTION_ROOM, packet->tot_len, 0);
    status = wireseal_shim_outbound(wrapper_of(netif)->shim, wireseal_netif_now(), copy->payload, size,
        WIRESEAL_OPTION_ROOM, &start, &length);
    if (status != WIRESEAL_STATUS_OK) {
        /* As if lost on the link: TCP sends it again, and gives up in the end. */
        LINK_STATS_INC(link.drop);
        pbuf_free(copy);
        return ERR_OK;
    }
    pbuf_remove_header(copy, start);
    pbuf_realloc(copy, (u16_t)length);
    *out = copy;
    return ERR_OK;
}

#if LWIP_IPV4
static err_t output(struct netif *netif, struct pbuf *packet, const ip4_addr_t *next_hop)
{
    struct pbuf *copy;
    err_t error = sign(netif, packet, &copy);

    if (copy != NULL) {
        error = wrapper_of(netif)->output(netif, copy, next_hop);
        pbuf_free(copy);
    }
    return error;
}
#endif

#if LWIP_IPV6
static err_t output_ip6(struct netif *netif, struct pbuf *packet, const ip6_addr_t *next_hop)
{
    struct pbuf *copy;
    err_t error = sign(netif, packet, &copy);

    if (copy != NULL) {
        error = wrapper_of(netif)->output_ip6(netif, copy, next_hop);
        pbuf_free(copy);
    }
    return error;
}
#endif

static void expire(void *argument)
{
    struct wireseal_netif *wrapper = argument;

    wireseal_shim_expire(wrapper->shim, wireseal_netif_now());
    sys_timeout(EXPIRE_INTERVAL, expire, wrapper);
}

void wireseal_netif_wrap(struct wireseal_netif *wrapper, struct netif *netif, struct wireseal_shim *shim)
{
    LWIP_ASSERT_CORE_LOCKED();
    LWIP_ASSERT("the netif is wrapped already", netif->input != INPUT);
    wrapper->netif = netif;
    wrapper->shim = shim;
    wrapper->next = wrappers;
    wrappers = wrapper;
    wrapper->input = netif->input;
    netif->input = INPUT;
#if LWIP_IPV4
    wrapper->output = netif->output;
    netif->output = output;
#endif
#if LWIP_IPV6
    wrapper->output_ip6 = netif->output_ip6;
    netif->output_ip6 = output_ip6;
#if LWIP_ND6_ALLOW_RA_UPDATES
    netif->mtu6 = (u16_t)(netif->mtu6 - WIRESEAL_OPTION_ROOM);
#endif
#endif
    netif->mtu = (u16_t)(netif->mtu - WIRESEAL_OPTION_ROOM);
    sys_timeout(EXPIRE_INTERVAL, expire, wrapper);
}

void wireseal_netif_unwrap(struct wireseal_netif *wrapper)
{
    struct netif *netif = wrapper->netif;
    struct wireseal_netif **place = &wrappers;

    LWIP_ASSERT_CORE_LOCKED();
    sys_untimeout(expire, wrapper);
    while (*place != wrapper) {
        place = &(*place)->next;
    }
    *place = wrapper->next;
    netif->input = wrapper->input;
#if LWIP_IPV4
    netif->output = wrapper->output;
#endif
#if LWIP_IPV6
    netif->output_ip6 = wrapper->output_ip6;
#if LWIP_ND6_ALLOW_RA_UPDATES
    netif->mtu6 = (u16_t)(netif->mtu6 + WIRESEAL_OPTION_ROOM);
#endif
#endif
    netif->mtu = (u16_t)(netif->mtu + WIRESEAL_OPTION_ROOM);
}
