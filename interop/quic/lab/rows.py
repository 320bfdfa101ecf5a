"""The matrix: what each row does, and whether it passes."""

import re
import subprocess
import time
from dataclasses import dataclass

from lab import libwireseal, processes, recorded
from lab.setup import CERTIFICATES, PAYLOAD, PAYLOAD_OCTETS, PROGRAM, TARGET, payload_digest

LOGS = TARGET / "logs"
VERSION_1 = "00000001"
VERSION_2 = "6b3343cf"
# From quinn as client, and from aioquic when quinn's server answers with Version Negotiation.
VERSION_REFUSED = "unsupported QUIC version|Could not find a common protocol version"
# quinn's and ngtcp2's after a quarter and after three quarters of the payload, s2n-quic's after some packets.
UPDATES_BY_US = {"quinn": 2, "s2n-quic": 1, "ngtcp2": 2}
# Wireseal's ends: the stack, and how Wireseal's keys get to it.
ENDS = [("quinn", "rustls"), ("quinn", "key-module"), ("s2n-quic", "rustls"), ("ngtcp2", "libwireseal")]
STACKS = list(dict.fromkeys(stack for stack, _ in ENDS))
NO_HTTP_3 = {
    "s2n-quic": "the peer speaks only HTTP/3, and no published crate has it for s2n-quic",
    "ngtcp2": "the peer speaks only HTTP/3, and the example in C has only the echo",
}
NO_RECORDING = {
    "s2n-quic": "s2n-quic has a socket of its own, and no stable way to see what it sends",
    "ngtcp2": "the example in C records nothing",
}
NO_VERSION_2 = {
    ("s2n-quic", "client"): "s2n-quic has only version 1",
    ("s2n-quic", "server"): "s2n-quic has only version 1, and takes Initial packets of version 2 for 0-RTT packets, which it drops",
    ("ngtcp2", "client"): "ngtcp2 0.12 has only the draft of version 2",
    ("ngtcp2", "server"): "ngtcp2 0.12 has only the draft of version 2",
}


@dataclass
class Row:
    peer: object
    # Wireseal's end, or "reader" if Wireseal is both and the peer reads along.
    role: str
    suite: str
    # What runs on Wireseal: "quinn", "s2n-quic" or "ngtcp2".
    stack: str
    # How Wireseal's keys get to it: "rustls", "key-module" or "libwireseal".
    keys: str
    # Which end starts key updates: "us", "peer" or "".
    updates: str = ""
    retry: bool = False
    version: str = VERSION_1
    # Why the row cannot be run, or "".
    impossible: str = ""
    # Set by the run: the peer's version, the library behind Wireseal's ciphers, and the duration.
    peer_version: str = ""
    backend: str = ""
    outcome: str = ""
    seconds: float = 0.0

    def what(self):
        done = "handshake, 1 MB each way"
        if self.version == VERSION_2:
            return f"QUIC version 2, {done}"
        if self.peer.reads:
            return f"{done}, two key updates asked of {self.stack}"
        if self.updates:
            return f"{done}, key update by {self.stack if self.updates == 'us' else 'the peer'}"
        return f"Retry, {done}" if self.retry else done

    def line(self):
        return f"{self.peer.name:9} {self.role:7} {self.stack:8} {self.keys:11} {self.suite:29} {self.what():52} {self.outcome}"

    def our_command(self, role, address, update_keys):
        """The command of Wireseal's end."""
        if self.stack == "ngtcp2":
            command = [libwireseal.PROGRAM, role]
        else:
            command = [PROGRAM, role, "--stack", self.stack, "--keys", self.keys, "--application", self.peer.application]
        command += ["--suite", self.suite, "--certificates", CERTIFICATES, "--payload", PAYLOAD]
        # The others take no version.
        command += ["--version", self.version] if self.stack == "quinn" else []
        command += ["--update-keys"] if update_keys else []
        return [*command, "--address", address]

    def folder(self):
        words = [self.peer.name, self.role, self.stack, self.keys, self.suite, self.what()]
        return LOGS / re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower())


def matrix(peers, stacks):
    for peer in peers:
        for stack, keys in ENDS:
            if stack in stacks:
                yield from rows_of(peer, stack, keys)


def rows_of(peer, *end):
    stack, keys = end
    suite = peer.suites[0]
    if peer.reads:
        impossible = NO_RECORDING.get(stack, "")
        yield from (Row(peer, "reader", suite, *end, impossible=impossible) for suite in peer.suites)
        return
    for role, other in (("client", "server"), ("server", "client")):
        if stack in NO_HTTP_3 and peer.application != "echo":
            yield Row(peer, role, suite, *end, impossible=NO_HTTP_3[stack])
            continue
        for each in peer.suites:
            yield Row(peer, role, each, *end)
        yield Row(peer, role, suite, *end, updates="us")
        yield Row(peer, role, suite, *end, updates="peer", impossible=peer.no_key_update.get(other, ""))
        yield Row(peer, role, suite, *end, retry=True)
        # The stack itself refuses it, whatever its keys.
        if peer.speaks_version_2 and keys != "key-module":
            impossible = NO_VERSION_2.get((stack, role), "")
            yield Row(peer, role, suite, *end, version=VERSION_2, impossible=impossible)


def run(row):
    """Runs a row, and sets its outcome."""
    if row.impossible:
        row.outcome = f"not possible: {row.impossible}"
        return
    folder = row.folder()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        row.outcome = recorded.read(row, folder) if row.peer.reads else exchange(row, folder)
    except (processes.Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        row.outcome = f"FAILED: {error}; see {folder.relative_to(TARGET)}"
    row.seconds = time.monotonic() - started


def exchange(row, folder):
    """Runs Wireseal's end and the peer's, and returns the outcome."""

    def ours(address):
        return row.our_command(row.role, address, update_keys=row.updates == "us")

    if row.role == "client":
        pair = processes.Pair(
            folder,
            server=lambda: row.peer.server(row, folder),
            client=lambda port: ours(f"127.0.0.1:{port}"),
            server_ends=row.peer.server_ends,
        )
    else:
        retry = ["--retry"] if row.retry else []
        pair = processes.Pair(
            folder,
            server=lambda: ([*ours("127.0.0.1:0"), *retry], None),
            client=lambda port: row.peer.client(row, port, folder),
            server_ends=True,
        )
    failure = pair.run()
    refusal = row.version == VERSION_2 and re.search(VERSION_REFUSED, (folder / "client.err").read_text())
    if refusal:
        return f"not possible: quinn has no version 2 ({refusal[0]})"
    if failure:
        raise processes.Failed(failure)
    our_report = processes.last_json((folder / f"{row.role}.out").read_text())
    peer_report = row.peer.report(row, folder)
    row.peer_version = peer_report["version"]
    row.backend = our_report["backend"]
    if faults := judge(row, our_report, peer_report):
        raise processes.Failed("; ".join(faults))
    return "passed"


def judge(row, ours, peer):
    """What the two reports should show but do not."""
    payload = (PAYLOAD_OCTETS, payload_digest())
    generations = [(packets["sealed"], packets["opened"]) for packets in ours["generations"]]
    both_ways = [number for number, packets in enumerate(generations) if all(packets)]
    last = max(both_ways, default=0)
    # The connection's last packet may have started one more, which was not answered.
    seen = max((number for number, packets in enumerate(generations) if any(packets)), default=0)
    by_us, by_peer = peer["updates_remote"], peer["updates_local"]
    # s2n-quic makes these keys itself, and Wireseal must not be asked for them.
    initial = not any(ours["initial"].values()) if row.stack == "s2n-quic" else all(ours["initial"].values())

    expectations = [
        ((ours["received"], ours["sha256"]) == payload, "Wireseal's end did not receive the payload"),
        ((peer["received"], peer["sha256"]) == payload, "the peer did not receive the payload"),
        (ours["suite"] == row.suite, f"Wireseal's keys were of {ours['suite']}"),
        (peer["suite"] == row.suite, f"the peer negotiated {peer['suite']}"),
        (initial, f"packets under Wireseal's Initial keys: {ours['initial']}"),
        (all(ours["handshake"].values()), "no packets both ways under Wireseal's Handshake keys"),
        (both_ways == [*range(last + 1)], f"packets both ways only in the generations {both_ways}"),
        (last <= by_us + by_peer <= seen, f"the peer counts {by_us + by_peer} updates, Wireseal {last}"),
        (ours["retry"] == row.retry, f"Retry at Wireseal's end: {ours['retry']}"),
        (peer["retry"] == row.retry, f"Retry at the peer's: {peer['retry']}"),
    ]
    wanted = UPDATES_BY_US[row.stack] if row.updates == "us" else 0
    started = ours["updates_started"]
    expectations += [
        (started == wanted, f"{started} updates started on demand, not {wanted}"),
        (by_us >= wanted, f"the peer saw {by_us} updates by {row.stack}, not {wanted}"),
        (last >= wanted, f"the last key generation was {last}"),
        (by_peer > 0 or row.updates != "peer", "the peer started no update"),
        (by_peer == 0 or row.updates == "peer", "the peer started an update"),
    ]
    return [fault for as_expected, fault in expectations if not as_expected]
