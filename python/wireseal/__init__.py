"""TCP-AO (RFC 5925) over libwireseal: traffic keys, signed and verified segments, and key chains in other formats.

For tests and tools. Python cannot wipe memory, so secrets stay in it until it is used for something else.
"""

import enum
import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from cffi import FFI

_ffi = FFI()
# The header that is beside this file, without what is for a preprocessor.
_header = Path(__file__).with_name("wireseal.h").read_text()
_header = re.sub(r"^#ifdef __cplusplus$.*?^#endif.*?$", "", _header, flags=re.M | re.S)
_ffi.cdef(re.sub(r"^#(?!define \w+ -?\d+$).*$", "", _header, flags=re.M))
_library = _ffi.dlopen(str(Path(__file__).with_name("libwireseal.so")))


def _enum(name):
    """An enum of the header, whose members have short names."""
    members = _ffi.typeof(f"enum wireseal_{name}").relements
    prefix = f"WIRESEAL_{name.upper()}_"
    return enum.IntEnum(name, {long.removeprefix(prefix): number for long, number in members.items()})


Algorithm = _enum("tcp_ao_algorithm")
Status = _enum("status")


class Error(Exception):
    """What a function of libwireseal answered, in `status`."""

    def __init__(self, status, detail=""):
        self.status = Status(status)
        super().__init__(detail or _ffi.string(_library.wireseal_status_text(status)).decode())


def _check(status, message=None):
    if status != Status.OK:
        raise Error(status, _ffi.string(message).decode() if message else "")


@dataclass(frozen=True)
class Key:
    """A master key tuple (RFC 5925 §3.1)."""

    send_id: int
    recv_id: int
    master_key: bytes = field(repr=False)
    algorithm: Algorithm = Algorithm.HMAC_SHA1
    #: Octets; 0 is the algorithm's own.
    mac_length: int = 0
    #: The MAC covers no TCP options but AO's own.
    options_excluded: bool = False
    #: Takes a master key that is shorter than the algorithm's specification requires.
    allow_short_master_key: bool = False

    def __post_init__(self):
        if isinstance(self.master_key, str):
            raise TypeError('master_key is octets, not text: write b"..." or "...".encode()')

    @property
    def mac_octets(self):
        """Octets of the MAC in a segment."""
        return self.mac_length or (16 if self.algorithm.name.endswith("_128") else 12)


@dataclass(frozen=True)
class Direction:
    """From whom to whom segments go, as a traffic key is derived for (RFC 5925 §5.2)."""

    source: str
    source_port: int
    destination: str
    destination_port: int
    source_isn: int
    #: 0 for a SYN without ACK.
    destination_isn: int


def _mkts(keys):
    """The keys as C has them, and what has to stay alive with them."""
    secrets = [_ffi.from_buffer(key.master_key) for key in keys]
    return _ffi.new("struct wireseal_mkt[]", [
        {
            "send_id": key.send_id,
            "recv_id": key.recv_id,
            "mac_length": key.mac_length,
            "options_excluded": key.options_excluded,
            "allow_short_master_key": key.allow_short_master_key,
            "algorithm": key.algorithm,
            "master_key": secret,
            "master_key_length": len(secret),
        }
        for key, secret in zip(keys, secrets)
    ]), secrets


def _context(direction):
    def endpoint(address, port):
        address = ipaddress.ip_address(address)
        return {"address": {"version": address.version, "octets": address.packed.ljust(16, b"\0")}, "port": port}

    return _ffi.new("struct wireseal_kdf_context *", {
        "source": endpoint(direction.source, direction.source_port),
        "destination": endpoint(direction.destination, direction.destination_port),
        "source_isn": direction.source_isn,
        "destination_isn": direction.destination_isn,
    })


def traffic_key(key, direction):
    """The traffic key that protects segments of this direction."""
    mkts, _secrets = _mkts([key])
    octets, length = _ffi.new("uint8_t[]", _library.WIRESEAL_TRAFFIC_KEY_MAX), _ffi.new("size_t *")
    _check(_library.wireseal_traffic_key(mkts, _context(direction), octets, len(octets), length))
    return bytes(octets[0:length[0]])


def append_ao(key, segment):
    """A TCP segment, header and payload, with an AO option behind its other options, in which `sign()` puts ids and MAC."""
    used, needed = 4 * (segment[12] >> 4) - 20 if len(segment) > 12 else -1, _ffi.new("size_t *")
    if not 0 <= used <= len(segment) - 20:
        raise Error(Status.MALFORMED)
    options = _ffi.new("uint8_t[40]", segment[20 : 20 + used])
    _check(_library.wireseal_segment_append_ao(options, len(options), used, key.mac_octets, needed))
    length = needed[0]
    offset = (20 + length) // 4 << 4 | segment[12] & 15
    return b"".join((segment[:12], bytes([offset]), segment[13:20], bytes(options)[:length], segment[20 + used :]))


def sign(key, direction, segment, rnext_key_id=None, sne=0):
    """A TCP segment, header and payload, with ids and MAC in the AO option that its header has, such as `append_ao()`'s. Its checksum is left as it was.

    `rnext_key_id` is the RecvID of the key that the peer is asked for, by default this one. `sne` extends the sequence number.
    """
    mkts, _secrets = _mkts([key])
    octets = _ffi.new("uint8_t[]", segment)
    wanted = key.recv_id if rnext_key_id is None else rnext_key_id
    _check(_library.wireseal_segment_sign(mkts, _context(direction), sne, wanted, octets, len(segment)))
    return bytes(octets)[: len(segment)]


def verify(keys, direction, segment, sne=0):
    """The one of the keys that a TCP segment, header and payload, is signed with. `Error` says why there is none."""
    keys = list(keys)
    mkts, _secrets = _mkts(keys)
    index = _ffi.new("size_t *")
    _check(_library.wireseal_segment_verify(mkts, len(keys), _context(direction), sne, segment, len(segment), index))
    return keys[index[0]]


def convert(text, to, source=None, name="keys"):
    """The keys of a text in another format, such as "junos", and a list of what that format cannot express.

    `source` is the format of the text, if neither that nor `name` tells it: "toml", "json", "frr", and the others of `wireseal keys`.
    """
    octets, message = text.encode(), _ffi.new("char[]", 4096)
    source = _ffi.NULL if source is None else source.encode()
    needed, room = _ffi.new("size_t *"), _ffi.new("uint8_t[]", 0)
    status = Status.TOO_SMALL
    while status == Status.TOO_SMALL:
        room = _ffi.new("uint8_t[]", needed[0])
        status = _library.wireseal_keys_convert(
            name.encode(), octets, len(octets), source, to.encode(), room, len(room), needed, message, len(message)
        )
    _check(status, message)
    return bytes(room)[: needed[0]].decode(), _ffi.string(message).decode().splitlines()
