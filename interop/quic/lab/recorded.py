"""Rows with quinn on Wireseal at both ends, and tshark reading the recording with the key log."""

import itertools
from collections import Counter

from lab import processes, tshark
from lab.setup import PAYLOAD_OCTETS, payload_digest

UPDATES = 2
CCM = "TLS_AES_128_CCM_SHA256"
# Of the first generation of 1-RTT keys. Later ones are derived from it.
SECRETS = {"client": "CLIENT_TRAFFIC_SECRET_0", "server": "SERVER_TRAFFIC_SECRET_0"}


def read(row, folder):
    """Runs both ends, lets tshark read what they sent, and returns the outcome."""
    port, reports = exchange(row, folder)
    row.peer_version, row.backend = row.peer.version(), reports["client"]["backend"]
    recording = folder / "recording.pcapng"
    tshark.merge([folder / f"{role}.pcap" for role in SECRETS], recording)
    key_log = folder / "client.keys"

    seen = by_sender(tshark.packets(recording, key_log), port)
    faults = faults_of_ends(row, reports, folder)
    if row.suite == CCM and (reason := closed_to_tshark(seen, reports)) and not faults:
        return f"not possible: tshark opens only Initial packets, and says of the others: {reason}"
    for role in SECRETS:
        faults += faults_of_reading(role, seen[role], reports[role])
        wrong = wrong_digit(key_log, SECRETS[role])
        faults += faults_of_wrong_reading(role, by_sender(tshark.packets(recording, wrong), port), seen)
    if faults:
        raise processes.Failed("; ".join(faults))
    return "passed: tshark opened every packet sealed, in every key phase"


def exchange(row, folder):
    """Runs both ends. Returns the server's port and both reports."""

    def command(role, address):
        key_log = folder / f"{role}.keys"
        # rustls appends to a key log.
        key_log.unlink(missing_ok=True)
        ours = row.our_command(role, address, update_keys=role == "client")
        return ["env", f"SSLKEYLOGFILE={key_log}", *ours, "--record", folder / f"{role}.pcap"]

    failure = processes.Pair(
        folder,
        server=lambda: (command("server", "127.0.0.1:0"), None),
        client=lambda port: command("client", f"127.0.0.1:{port}"),
        server_ends=True,
    ).run()
    if failure:
        raise processes.Failed(failure)
    outputs = {role: (folder / f"{role}.out").read_text() for role in SECRETS}
    port = int(outputs["server"].split()[1])
    return port, {role: processes.last_json(output) for role, output in outputs.items()}


def by_sender(packets, server_port):
    """The packets of each end, in the order sent."""
    sent = {"client": [], "server": []}
    for packet in packets:
        sent["server" if packet.source_port == server_port else "client"].append(packet)
    return sent


def faults_of_ends(row, reports, folder):
    """What the ends should have done but did not."""
    logs = [sorted((folder / f"{role}.keys").read_text().splitlines()) for role in SECRETS]
    expectations = [(logs[0] == logs[1], "the key logs of the two ends differ")]
    started = reports["client"]["updates_started"]
    expectations.append((started == UPDATES, f"quinn started {started} updates on demand, not {UPDATES}"))
    for role, report in reports.items():
        received = (report["received"], report["sha256"]) == (PAYLOAD_OCTETS, payload_digest())
        expectations.append((received, f"the {role} has not received the payload"))
        expectations.append((report["suite"] == row.suite, f"the keys of the {role} were of {report['suite']}"))
    return [fault for as_expected, fault in expectations if not as_expected]


def faults_of_reading(role, seen, report):
    """Where tshark opened something other than what Wireseal sealed, by level and generation."""
    opened = Counter(packet.level for packet in seen if packet.opened)
    sealed = generations_sealed(report)
    read = [packets for _, packets in key_phases(seen)]
    closed = sum(not packet.opened for packet in seen)
    phases = [phase for phase, _ in key_phases(seen)]
    alternating = [str(number % 2) for number in range(len(sealed))]
    expectations = [
        (closed == 0, f"tshark did not open {closed} of {len(seen)} packets of the {role}"),
        (read == sealed, f"the {role} sealed {sealed} packets by key generation, tshark opened {read}"),
        (phases == alternating, f"the key phases of the {role} were {phases}"),
        (len(sealed) > UPDATES, f"the {role} sealed packets in only {len(sealed)} key generations"),
    ]
    for level in ("Initial", "Handshake"):
        count = report[level.lower()]["sealed"]
        fault = f"the {role} sealed {count} {level} packets, tshark opened {opened[level]}"
        expectations.append((0 < count == opened[level], fault))
    return [fault for as_expected, fault in expectations if not as_expected]


def faults_of_wrong_reading(role, seen, seen_before):
    """What tshark opened although the 1-RTT secret of `role` is wrong, or did not open although its secret is right.

    1-RTT packets of the other end do not count: tshark reads a wrong key phase bit under a wrong mask, and then updates the keys
    of both ends.
    """
    ours = [packet for packet in seen[role] if packet.level == tshark.ONE_RTT]
    opened = sum(packet.opened for packet in ours)
    before = sum(packet.level == tshark.ONE_RTT for packet in seen_before[role])
    others = [packet for packets in seen.values() for packet in packets if packet.level != tshark.ONE_RTT]
    expectations = [
        (len(ours) == before, f"with a wrong secret, {len(ours)} 1-RTT packets of the {role}, not {before}"),
        (opened == 0, f"tshark opened {opened} 1-RTT packets of the {role} with a wrong secret"),
        (all(packet.opened for packet in others), "a wrong 1-RTT secret closed packets of other levels"),
    ]
    return [fault for as_expected, fault in expectations if not as_expected]


def closed_to_tshark(seen, reports):
    """Why tshark cannot open the suite, if it opens only Initial packets, which have another suite."""
    for role, report in reports.items():
        sealed = report["initial"]["sealed"] + report["handshake"]["sealed"] + sum(generations_sealed(report))
        initial = [packet.opened for packet in seen[role] if packet.level == "Initial"]
        others = [packet.opened for packet in seen[role] if packet.level != "Initial"]
        if len(seen[role]) != sealed or not all(initial) or any(others):
            return None
    failures = Counter(packet.failure for packets in seen.values() for packet in packets if packet.failure)
    return failures.most_common(1)[0][0] if failures else None


def generations_sealed(report):
    """Packets sealed in each generation of 1-RTT keys, up to the last one used."""
    sealed = [generation["sealed"] for generation in report["generations"]]
    while sealed and sealed[-1] == 0:
        sealed.pop()
    return sealed


def key_phases(packets):
    """The key phase bits in the order sent, each with the number of opened packets until it changed."""
    opened = [packet.key_phase for packet in packets if packet.level == tshark.ONE_RTT and packet.opened]
    return [(phase, len(list(group))) for phase, group in itertools.groupby(opened)]


def wrong_digit(key_log, label):
    """A copy of the key log with another last digit in one secret."""
    copy = key_log.with_name(f"wrong-{label.lower().replace('_', '-')}.keys")
    lines = key_log.read_text().splitlines()
    changed = [f"{line[:-1]}{int(line[-1], 16) ^ 1:x}" if line.startswith(f"{label} ") else line for line in lines]
    if sum(before != after for before, after in zip(lines, changed)) != 1:
        raise processes.Failed(f"the key log has no {label}, or several")
    copy.write_text("".join(f"{line}\n" for line in changed))
    return copy
