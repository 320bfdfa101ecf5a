"""RESULTS.md."""

import datetime

from lab.setup import HERE, PAYLOAD_OCTETS, commit, crate_version, debian_version

HEAD = """\
# quinn, s2n-quic and ngtcp2 on Wireseal against other QUIC stacks

Written by `interop/quic/run` on {date} at commit {commit}; [README.md](README.md) says what decides a row. Wireseal's end: quinn {quinn} (quinn-proto {proto}) \
or s2n-quic {s2n_quic}, and rustls {rustls}, with QUIC keys from `wireseal-rustls` or `wireseal-quinn` (the key module) on {backend}; or ngtcp2 {ngtcp2} \
and GnuTLS, with QUIC keys from libwireseal. Peers: {peers}. \
{passed} rows passed, {failed} failed, {impossible} are not possible.

| peer | Wireseal is | stack | keys through | suite | what was done | outcome | seconds |
|---|---|---|---|---|---|---|---|
"""

NOTES = """\
* 1 MB is {octets:,} octets, sent to the server and back, compared by SHA-256 at both ends. A row with tshark passes if that opens every packet sealed, in every key phase.
* QUIC version 2 (RFC 9369): quinn-proto refuses it as a client and answers it with Version Negotiation as a server, and rustls does not \
tell a provider the version; s2n-quic has no version but 1. Wireseal's own version 2 cannot be tested here. ngtcp2 0.12 has only its draft.
* AES-128-CCM: only ngtcp2 has this suite.
* s2n-quic makes the keys of Initial packets and the integrity tag of Retry packets with AWS-LC, whatever the TLS provider, so Wireseal seals and opens its Handshake and \
1-RTT packets. It starts a key update 10,000 packets short of a key's confidentiality limit; in its rows with one, Wireseal's keys state a limit of 10,500 packets.
* quinn starts a key update of its own after 10 to 1000 packets, so nearly every row has one.
* Through rustls, quinn computes the token and the integrity tag of Retry packets itself; the key module does that, too. The keys of all other packets of quinn are Wireseal's either way.
* ngtcp2 on Wireseal: TLS is GnuTLS's; keys, packets and the tags of Retry packets are libwireseal's, through ngtcp2's callbacks. It starts key updates only on demand.
"""


def write(rows):
    """Writes the outcomes of all rows, a short line for each; the reasons come after them."""
    versions = {row.peer.name: row.peer_version for row in rows if row.peer_version}
    outcomes = [row.outcome.partition(":")[0] for row in rows]
    text = HEAD.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=commit(),
        quinn=crate_version("quinn"),
        proto=crate_version("quinn-proto"),
        s2n_quic=crate_version("s2n-quic"),
        rustls=crate_version("rustls"),
        ngtcp2=debian_version("libngtcp2-dev"),
        backend=next((row.backend for row in rows if row.backend), "nothing"),
        peers=", ".join(f"{name} {version.removeprefix('v')}" for name, version in versions.items()),
        passed=outcomes.count("passed"),
        failed=outcomes.count("FAILED"),
        impossible=outcomes.count("not possible"),
    )
    for row, outcome in zip(rows, outcomes):
        role = "both ends" if row.peer.reads else row.role
        end = [row.stack, row.keys.replace("-", " ")]
        suite = row.suite.removeprefix("TLS_")
        cells = [row.peer.name, role, *end, suite, row.what(), outcome, f"{row.seconds:.1f}"]
        text += f"| {' | '.join(cells)} |\n"
    text += "\n"
    impossible = {row.outcome: row.peer.name for row in rows if row.outcome.startswith("not possible: ")}
    for outcome, peer in impossible.items():
        text += f"* Not possible with {peer}: {outcome.removeprefix('not possible: ')}.\n"
    (HERE / "RESULTS.md").write_text(text + NOTES.format(octets=PAYLOAD_OCTETS))
