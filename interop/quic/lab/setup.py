"""Installs and builds everything into target/interop-quic, with apt-get, pip, go and cargo."""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TARGET = HERE.parent.parent / "target" / "interop-quic"
CARGO_TARGET = TARGET / "cargo"
PROGRAM = CARGO_TARGET / "debug" / "wireseal-interop-quic"
CERTIFICATES = TARGET / "certificates"
PAYLOAD = TARGET / "payload"
PAYLOAD_OCTETS = 1_000_000

ENVIRONMENT = os.environ | {
    "CARGO_TARGET_DIR": str(CARGO_TARGET),
    "CARGO_TERM_COLOR": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "GOCACHE": str(TARGET / "go" / "build"),
    # Otherwise the cache would be read-only and could not be removed.
    "GOFLAGS": "-modcacherw",
    "GOMODCACHE": str(TARGET / "go" / "modules"),
    # Where Go's own distribution and Debian's servers are installed: not in every shell's path.
    "PATH": os.environ["PATH"] + ":/usr/local/go/bin:/usr/sbin",
}


def step(*command, cwd=HERE):
    """Runs a command, and ends the whole run if it fails."""
    started = time.monotonic()
    print("==>", *(str(part).removeprefix(f"{HERE.parent.parent}/") for part in command), flush=True)
    try:
        subprocess.run(command, cwd=cwd, env=ENVIRONMENT, check=True)
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is not installed")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{command[0]} ended with status {error.returncode}")
    print(f"    ({time.monotonic() - started:.0f} s)", flush=True)


def install_and_build(ends):
    TARGET.mkdir(parents=True, exist_ok=True)
    install_packages({package for end in ends for package in end.debian_packages})
    for end in ends:
        end.build()
    crates = ["wireseal-interop-quic", *(end.crate for end in ends if end.crate)]
    step("cargo", "build", "--locked", *(f"--package={crate}" for crate in crates))

    CERTIFICATES.mkdir(exist_ok=True)
    step(PROGRAM, "certificates", CERTIFICATES)
    PAYLOAD.write_bytes(os.urandom(PAYLOAD_OCTETS))


def payload_digest():
    """SHA-256 of the payload, in hexadecimal."""
    return hashlib.sha256(PAYLOAD.read_bytes()).hexdigest()


def install_packages(packages):
    missing = sorted(package for package in packages if not installed(package))
    if missing:
        step("apt-get", "update", "-q")
        step("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing)


def installed(package):
    # A tool that was installed in another way will do.
    return shutil.which(package, path=ENVIRONMENT["PATH"]) or debian_version(package)


def debian_version(package):
    """The version of an installed package, or None."""
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    status, _, version = answer.partition(" ")
    return version if status == "installed" else None


@functools.cache
def crate_version(crate):
    """The version of a crate in the programs."""
    query = ["cargo", "pkgid", "--locked", "--package", crate]
    answer = subprocess.run(query, cwd=HERE, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    return re.split("[#@]", answer.strip())[-1]


def commit():
    """The commit that was tested, and whether anything but documents and results has changed since."""
    git = ["git", "-C", HERE]
    number = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    same = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ":/", ":!/*.md", ":!/.ci/results"], capture_output=True, check=False)
    return (number or "unknown") + ("" if same.returncode == 0 else " with changes")
