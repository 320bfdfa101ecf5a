"""Puts libwireseal and its header into the wheel: `pip wheel ./python`, with Rust. WIRESEAL_LIBRARY names a library that is built already."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

REPOSITORY = Path(__file__).resolve().parent.parent


class WithLibrary(build_py):
    def run(self):
        super().run()
        library = os.environ.get("WIRESEAL_LIBRARY")
        if not library:
            command = ["cargo", "rustc", "--release", "--locked", "-p", "wireseal-c", "--crate-type", "cdylib"]
            # Where it is depends on the user's configuration of Cargo. Nine tenths of it would be for a debugger.
            command += ["--message-format", "json-render-diagnostics", "--", "-Cstrip=debuginfo"]
            built = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
            files = [file for line in built.splitlines() for file in json.loads(line).get("filenames", [])]
            library = next(file for file in files if file.endswith("/libwireseal_c.so"))
        shutil.copyfile(library, Path(self.build_lib, "wireseal/libwireseal.so"))
        shutil.copyfile(REPOSITORY / "crates/c/include/wireseal.h", Path(self.build_lib, "wireseal/wireseal.h"))


class ForThisMachine(bdist_wheel):
    """Any Python 3, but only this kind of machine."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": WithLibrary, "bdist_wheel": ForThisMachine})
