"""The other stacks: how each is built and started, and what it can do."""

import importlib.util
import sys

from lab import go, ngtcp2, tshark
from lab.processes import last_json
from lab.setup import CARGO_TARGET, CERTIFICATES, HERE, PAYLOAD, TARGET, crate_version, step

GCM_AND_CHACHA = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]


class Programmed:
    """A library, driven by a small program of ours that speaks the echo protocol and reports as JSON."""

    application = "echo"
    reads = False
    suites = GCM_AND_CHACHA
    debian_packages = ()
    crate = None
    # The version 2 of RFC 9369, not of its drafts.
    speaks_version_2 = False
    # Why the stack cannot start a key update, by role.
    no_key_update = {}
    # Whether its server ends with the connection.
    server_ends = True

    def build(self):
        """Builds what cargo does not."""

    def server(self, row, folder):
        return self.command("server", "127.0.0.1:0", row), None

    def client(self, row, port, folder):
        return self.command("client", f"127.0.0.1:{port}", row)

    def command(self, role, address, row):
        command = [*self.program, role, "--address", address]
        command += ["--certificates", CERTIFICATES, "--payload", PAYLOAD]
        command += ["--retry"] if row.retry and role == "server" else []
        command += ["--update-keys"] if row.updates == "peer" else []
        command += ["--version", row.version] if self.speaks_version_2 else []
        return command

    def report(self, row, folder):
        """The program's report, from its standard output."""
        role = "server" if row.role == "client" else "client"
        return last_json((folder / f"{role}.out").read_text())


class Aioquic(Programmed):
    name = "aioquic"
    venv = TARGET / "aioquic"
    program = (venv / "bin" / "python", HERE / "peers" / "aioquic" / "peer.py")
    # Debian has the part of venv that installs pip in a package of its own.
    debian_packages = () if importlib.util.find_spec("ensurepip") else ("python3-venv",)
    speaks_version_2 = True

    def build(self):
        step(sys.executable, "-m", "venv", self.venv)
        requirements = HERE / "peers" / "aioquic" / "requirements.txt"
        step(self.venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)


class QuicGo(Programmed):
    name = "quic-go"
    debian_packages = go.DEBIAN_PACKAGES
    program = (TARGET / "quic-go" / "peer",)

    def build(self):
        step(go.command(), "build", "-o", *self.program, ".", cwd=HERE / "peers" / "quic-go")


class RustCrate(Programmed):
    """A Rust library, in a crate named after the peer."""

    def __init__(self):
        self.crate = f"peer-{self.name}"
        self.program = (CARGO_TARGET / "debug" / self.crate,)

    def report(self, row, folder):
        return super().report(row, folder) | {"version": crate_version(self.name)}


class Quiche(RustCrate):
    name = "quiche"
    # To build BoringSSL and its bindings.
    debian_packages = ("cmake", "g++", "git", "libclang-dev")
    no_key_update = dict.fromkeys(["client", "server"], "quiche follows key updates and never starts one")


class S2nQuic(RustCrate):
    name = "s2n-quic"
    debian_packages = ("cmake", "g++")
    no_key_update = dict.fromkeys(
        ["client", "server"],
        "s2n-quic starts one only 10,000 packets short of the confidentiality limit, 2^23 packets for AES-GCM",
    )


PEERS = [Aioquic(), QuicGo(), ngtcp2.Ngtcp2(), Quiche(), S2nQuic(), tshark.Tshark()]
