"""The files of a repository, its crates, and Rust without comments and strings."""

import functools
import re
import subprocess
import tomllib
from pathlib import Path

# Comments, strings and character literals. A lifetime is not one: its quote is not closed after one character.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]+?|[^\\'\n])'""", re.DOTALL
)


class Repository:
    def __init__(self, root):
        self.root = Path(root)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
        self.files = sorted(name for name in set(listed.split("\0")) if name and (self.root / name).is_file())

    def with_suffix(self, *suffixes):
        return [name for name in self.files if name.endswith(suffixes)]

    @functools.cache
    def text(self, name):
        return (self.root / name).read_text()

    @functools.cache
    def code(self, name):
        """A Rust file with comments and literals blanked, line for line."""
        return NO_CODE.sub(lambda match: '""' + "\n" * match[0].count("\n"), self.text(name))

    @functools.cached_property
    def manifests(self):
        """Each Cargo.toml, by its folder ("" or with a slash at its end)."""
        names = [name for name in self.files if Path(name).name == "Cargo.toml"]
        return {name.removesuffix("Cargo.toml"): tomllib.loads(self.text(name)) for name in names}

    @functools.cached_property
    def packages(self):
        """The manifests that have a package, by folder."""
        return {folder: manifest for folder, manifest in self.manifests.items() if "package" in manifest}

    def package_of(self, name):
        """The folder of the package that a file belongs to, or None."""
        return max((folder for folder in self.packages if name.startswith(folder)), key=len, default=None)
