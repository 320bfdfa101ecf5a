"""Finds or downloads a version of Go that can build quic-go."""

import json
import os
import platform
import re
import shutil
import stat
import subprocess
from pathlib import Path

from lab.setup import ENVIRONMENT, TARGET, step

# quic-go 0.65 requires this. Since 1.21, Go downloads a newer toolchain by itself.
WANTED = "1.26.8"
DOWNLOADS_TOOLCHAINS = (1, 21)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# Debian's Go is older, but it can download the new one as a module.
DEBIAN_PACKAGES = () if shutil.which("go", path=ENVIRONMENT["PATH"]) else ("golang-go",)


def command():
    """The `go` command, in a version that is new enough."""
    answer = subprocess.run(["go", "version"], env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, re.search(r"go(\d+)\.(\d+)", answer).groups()))
    return "go" if version >= DOWNLOADS_TOOLCHAINS else downloaded()


def downloaded():
    """The toolchain from Go's module proxy, made executable because modules are not."""
    module = f"golang.org/toolchain@v0.0.1-go{WANTED}.linux-{ARCHITECTURES[platform.machine()]}"
    # Outside any module, so that the old Go does not read a newer go.mod.
    step("go", "mod", "download", module, cwd=TARGET)
    query = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(query, cwd=TARGET, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    root = Path(json.loads(answer)["Dir"])
    for folder in (root / "bin", root / "pkg" / "tool"):
        for path in filter(Path.is_file, folder.rglob("*")):
            os.chmod(path, path.stat().st_mode | stat.S_IXUSR)
    return root / "bin" / "go"
