"""RESULTS.md."""

from lab.setup import HERE, PAYLOAD_OCTETS, crate_version

HEAD = """\
# quinn on Wireseal against other QUIC stacks

Written by `interop/quic/run`; [README.md](README.md) says what decides a row. Wireseal's end: quinn {quinn} (quinn-proto {proto}) \
and rustls {rustls}, their QUIC keys by `wireseal-rustls` on {backend}. {passed} rows passed, {failed} failed, {impossible} are not possible.

| peer | version | Wireseal is | suite | what was done | outcome |
|---|---|---|---|---|---|
"""

NOTES = """
* 1 MB is {octets:,} octets, sent as they are and back again, compared by SHA-256 at both ends.
* QUIC version 2: quinn-proto refuses it as client and has no other answer than Version Negotiation as server, and the QUIC keys \
that rustls asks a provider for know no version. Wireseal's own version 2 (RFC 9369) is therefore out of reach here; ngtcp2 0.12 has \
the draft's form of it alone.
* AES-128-CCM: of these peers ngtcp2 alone has the suite.
* quinn starts a key update of its own after 10 to 1000 packets, and so nearly every row has one.
* The integrity tag of Retry packets and the token in them are computed by quinn itself, not by Wireseal; the keys of what follows are \
Wireseal's.
"""


def write(rows):
    versions = {row.peer.name: row.peer_version for row in rows if row.peer_version}
    outcomes = [row.outcome.partition(":")[0] for row in rows]
    text = HEAD.format(
        quinn=crate_version("quinn"),
        proto=crate_version("quinn-proto"),
        rustls=crate_version("rustls"),
        backend=next((row.backend for row in rows if row.backend), "nothing"),
        passed=outcomes.count("passed"),
        failed=outcomes.count("FAILED"),
        impossible=outcomes.count("not possible"),
    )
    for row in rows:
        version = versions.get(row.peer.name, "unknown")
        role = "both ends, tshark the reader" if row.peer.reads else row.role
        cells = [row.peer.name, version, role, row.suite, row.what(), row.outcome]
        text += f"| {' | '.join(cells)} |\n"
    (HERE / "RESULTS.md").write_text(text + NOTES.format(octets=PAYLOAD_OCTETS))
