"""Packets of scapy under TCP-AO."""

from scapy.layers.inet import TCP

from . import Direction, sign, verify

_AO = 29


def _direction(packet, source_isn, destination_isn):
    tcp = packet[TCP]
    return Direction(tcp.underlayer.src, tcp.sport, tcp.underlayer.dst, tcp.dport, source_isn, destination_isn)


def signed(packet, key, source_isn, destination_isn, rnext_key_id=None, sne=0):
    """A copy of a packet, with an AO option behind its other TCP options, signed. Lengths and checksums are made anew when it is sent.

    The ISNs are those of the packet's sender and of its receiver; the latter is 0 for a SYN without ACK.
    """
    packet = packet.copy()
    tcp = packet[TCP]
    tcp.options = [*tcp.options, ("AO", bytes(2 + key.mac_octets))]
    for layer, fields in (tcp, ("dataofs", "chksum")), (tcp.underlayer, ("len", "plen", "chksum")):
        for name in set(fields) & set(layer.fields):
            delattr(layer, name)
    segment = sign(key, _direction(packet, source_isn, destination_isn), bytes(tcp), rnext_key_id, sne)
    # Behind the option there is only padding, and then the payload.
    end = 4 * (segment[12] >> 4)
    start = segment.rindex(bytes([_AO, 4 + key.mac_octets]), 20, end - key.mac_octets)
    tcp.options[-1] = ("AO", segment[start + 2 : start + 4 + key.mac_octets])
    return packet


def verified(packet, keys, source_isn, destination_isn, sne=0):
    """The one of the keys that a packet is signed with. `wireseal.Error` says why there is none."""
    return verify(keys, _direction(packet, source_isn, destination_isn), bytes(packet[TCP]), sne)
