"""Wireseal's end in C: examples/ngtcp2 on the static library. Its arguments and its report are those of the ends in Rust."""

from lab.setup import CARGO_TARGET, HERE, TARGET, step

REPOSITORY = HERE.parent.parent
PROGRAM = TARGET / "libwireseal" / "ngtcp2-wireseal"

debian_packages = ("gcc", "make", "pkg-config", "libngtcp2-dev", "libngtcp2-crypto-gnutls-dev", "libgnutls28-dev")
# It is in the repository's workspace, not in the lab's.
crate = None


def build():
    manifest = REPOSITORY / "crates/c/Cargo.toml"
    features = ["--no-default-features", "--features", "std,quic,kernels,ring"]
    step("cargo", "rustc", "--locked", "--manifest-path", manifest, *features, "--crate-type", "staticlib")
    library = f"{CARGO_TARGET}/debug/libwireseal_c.a -lm -lpthread -ldl"
    folders = [f"BUILD={PROGRAM.parent}", f"WIRESEAL_CFLAGS=-I{REPOSITORY}/crates/c/include", f"WIRESEAL_LIBS={library}"]
    step("make", "--always-make", "-C", REPOSITORY / "examples/ngtcp2", *folders)
