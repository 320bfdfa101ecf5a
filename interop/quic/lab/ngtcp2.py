"""Debian's ngtcp2: programs that use HTTP/3 and report in their logs."""

import hashlib
import re
import shutil
import socket

from lab.setup import CERTIFICATES, PAYLOAD, TARGET, debian_version

HTDOCS = TARGET / "ngtcp2" / "htdocs"
SUITES = {
    "AES-128-GCM": "TLS_AES_128_GCM_SHA256",
    "AES-256-GCM": "TLS_AES_256_GCM_SHA384",
    "CHACHA20-POLY1305": "TLS_CHACHA20_POLY1305_SHA256",
    "AES-128-CCM": "TLS_AES_128_CCM_SHA256",
}
# Soon after the handshake, during the transfer.
KEY_UPDATE_AFTER = "2ms"


class Ngtcp2:
    name = "ngtcp2"
    application = "h3"
    reads = False
    suites = list(SUITES.values())
    debian_packages = ("ngtcp2-client", "ngtcp2-server")
    crate = None
    # It has only the draft of version 2.
    speaks_version_2 = False
    no_key_update = {"server": "the server has no switch for it"}
    # It runs until it is killed.
    server_ends = False

    def build(self):
        HTDOCS.mkdir(parents=True, exist_ok=True)

    def server(self, row, folder):
        # It sends a file and writes what it receives to its log. Both are the payload.
        shutil.copyfile(PAYLOAD, HTDOCS / "payload")
        port = free_port()
        command = ["gtlsserver", "--htdocs", HTDOCS, "--no-quic-dump"]
        command += ["--validate-addr"] if row.retry else []
        command += ["127.0.0.1", port, CERTIFICATES / "server.key", CERTIFICATES / "server.pem"]
        return command, port

    def client(self, row, port, folder):
        command = ["gtlsclient", "--http-method=POST", f"--data={PAYLOAD}", f"--download={folder}"]
        command += ["--no-quic-dump", "--no-http-dump", "--exit-on-all-streams-close"]
        command += [f"--key-update={KEY_UPDATE_AFTER}"] if row.updates == "peer" else []
        return [*command, "127.0.0.1", port, f"https://localhost:{port}/payload"]

    def report(self, row, folder):
        if row.role == "client":
            log = (folder / "server.err").read_text(errors="replace")
            received = bodies(log)
            retry = "Sending Retry packet" in log
            package = "ngtcp2-server"
        else:
            log = (folder / "client.err").read_text(errors="replace")
            received = (folder / "payload").read_bytes()
            retry = "type=Retry" in log
            package = "ngtcp2-client"
        updates = max(key_phase_changes(log, "rx"), key_phase_changes(log, "tx"))
        local = log.count("\nInitiate key update\n")
        suite = re.search(r"^Negotiated cipher suite is (.*)$", log, re.MULTILINE)
        return {
            "version": debian_version(package),
            "suite": SUITES.get(suite[1], suite[1]) if suite else "no suite",
            "received": len(received),
            "sha256": hashlib.sha256(received).hexdigest(),
            "updates_local": local,
            "updates_remote": updates - local,
            "retry": retry,
        }


def key_phase_changes(log, direction):
    """How often the key phase bit changed, in packet number order."""
    pattern = rf"pkt {direction} pkn=(\d+) .*type=1RTT k=([01])"
    packets = sorted({(int(number), phase) for number, phase in re.findall(pattern, log)})
    # A connection starts with key phase 0.
    phases = ["0", *(phase for _, phase in packets)]
    return sum(before != after for before, after in zip(phases, phases[1:]))


def bodies(log):
    """The HTTP bodies, from the hexadecimal dumps in the log."""
    received = bytearray()
    dumped = False
    for line in log.splitlines():
        if re.match(r"http: stream 0x[0-9a-f]+ body \d+ bytes", line):
            dumped = True
        elif dumped and (dump := re.match(r"[0-9a-f]{8}  ((?:[0-9a-f]{2} +){1,16})", line)):
            received += bytes.fromhex(dump[1])
        elif not re.match(r"[0-9a-f]{8}$", line):
            dumped = False
    return received


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
