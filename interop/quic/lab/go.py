"""A Go that quic-go can be built with, where there is none yet."""

import json
import os
import platform
import re
import shutil
import stat
import subprocess
from pathlib import Path

from lab.setup import ENVIRONMENT, TARGET, step

# What quic-go 0.65 asks for. From 1.21 on Go fetches a newer self by itself.
WANTED = "1.26.8"
FETCHES_ITSELF = (1, 21)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# Debian's Go is older than that, and can fetch the new one as the module it is published as.
DEBIAN_PACKAGES = () if shutil.which("go", path=ENVIRONMENT["PATH"]) else ("golang-go",)


def command():
    """The command `go`, of a version that will do."""
    answer = subprocess.run(["go", "version"], env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, re.search(r"go(\d+)\.(\d+)", answer).groups()))
    return "go" if version >= FETCHES_ITSELF else fetched()


def fetched():
    """The toolchain from Go's module proxy, made executable, as modules are not."""
    module = f"golang.org/toolchain@v0.0.1-go{WANTED}.linux-{ARCHITECTURES[platform.machine()]}"
    # Outside of any module, so that the old Go reads no go.mod of the new.
    step("go", "mod", "download", module, cwd=TARGET)
    query = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(query, cwd=TARGET, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    root = Path(json.loads(answer)["Dir"])
    for folder in (root / "bin", root / "pkg" / "tool"):
        for path in filter(Path.is_file, folder.rglob("*")):
            os.chmod(path, path.stat().st_mode | stat.S_IXUSR)
    return root / "bin" / "go"
