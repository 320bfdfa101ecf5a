"""tshark: what it sees in a recording, given a key log."""

import io
import re
import subprocess
from dataclasses import dataclass
from xml.etree import ElementTree

from lab.setup import ENVIRONMENT

SECONDS_TO_READ = 60
# The values of quic.long.packet_type in a connection without Retry and 0-RTT.
LONG_HEADERS = {"0": "Initial", "2": "Handshake"}
ONE_RTT = "1-RTT"


class Tshark:
    name = "tshark"
    suites = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
    ]
    application = "echo"
    # It reads along, and is not an end of the connection.
    reads = True
    # This one depends on the package with mergecap.
    debian_packages = ("tshark",)
    crate = None

    def build(self):
        """Debian has built it."""

    def version(self):
        return re.search(r"\d+\.\d+\.\d+", run("tshark", "--version").decode())[0]


@dataclass(frozen=True)
class Packet:
    """A QUIC packet. A datagram may hold several."""

    source_port: int
    level: str
    # The key phase bit of a 1-RTT packet whose header protection could be removed.
    key_phase: str | None
    # Whether tshark shows its frames, which it does if the tag is right.
    opened: bool
    # Why tshark could not open it, if it says why.
    failure: str


def merge(recordings, into):
    """Merges several recordings into one, by time."""
    run("mergecap", "-w", into, *recordings)


def packets(recording, key_log):
    """The QUIC packets of a recording, in its order, as tshark sees them."""
    pdml = run("tshark", "-r", recording, "-o", f"tls.keylog_file:{key_log}", "-T", "pdml", "-J", "udp quic")
    for _, element in ElementTree.iterparse(io.BytesIO(pdml)):
        if element.tag != "packet":
            continue
        source_port = None
        for protocol in element.iter("proto"):
            fields = {field.get("name"): field for field in protocol.iter("field")}
            if protocol.get("name") == "udp":
                source_port = int(fields["udp.srcport"].get("show"))
            elif protocol.get("name") == "quic":
                yield packet(source_port, fields)
        element.clear()


def packet(source_port, fields):
    """A packet, from the fields of its PDML element."""

    def show(name, otherwise=None):
        return fields[name].get("show") if name in fields else otherwise

    level = LONG_HEADERS[show("quic.long.packet_type")] if "quic.long.packet_type" in fields else ONE_RTT
    failure = show("_ws.expert.message", "") if "quic.decryption_failed" in fields else ""
    return Packet(source_port, level, show("quic.key_phase"), "quic.frame" in fields, failure)


def run(*command):
    """What a command prints. Raises an exception if it fails or does not end."""
    done = subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT, timeout=SECONDS_TO_READ)
    return done.stdout
