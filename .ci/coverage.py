"""Compares the regions that no test reaches with the list of those that none can.

    python3 .ci/coverage.py EXPORT     EXPORT is what `cargo llvm-cov --json` writes

Prints each region of the crates below that is not reached and not in uncovered.toml, and each of that list that is reached or gone; exits
with 1 if there is one. A region is a piece of code that runs as a whole, such as one side of a `?`.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("algorithms", "mac", "aead", "tcp-ao", "quic", "keys")


def without_tests(lines):
    """The lines before a module of tests."""
    for at, (line, following) in enumerate(zip(lines, lines[1:])):
        if line == "#[cfg(test)]" and following.startswith("mod ") and following.endswith("{"):
            return lines[:at]
    return lines


def name(lines, line):
    """A region's name: the line that it begins in, and for a closing brace the line before."""
    text = lines[line - 1].strip()
    return text if text.strip("})];,") else f"{lines[line - 2].strip()} {text}"


def regions(export):
    """Each region of the crates: its file, line, column, name, and whether it is reached."""
    for file in json.loads(Path(export).read_text())["data"][0]["files"]:
        path = Path(file["filename"])
        if not path.is_relative_to(ROOT):
            continue
        file_name = str(path.relative_to(ROOT))
        if not file_name.startswith(tuple(f"crates/{crate}/src/" for crate in CRATES)):
            continue
        lines = without_tests(path.read_text().splitlines())
        for line, column, runs, has_count, is_entry, is_gap in file["segments"]:
            if has_count and is_entry and not is_gap and line <= len(lines):
                yield file_name, line, column, name(lines, line), runs > 0


def main(export):
    listed = {
        (file, code)
        for group in tomllib.loads((ROOT / ".ci/uncovered.toml").read_text())["unreached"]
        for file, codes in group["regions"].items()
        for code in codes
    }
    found = list(regions(export))
    unreached = [region[:4] for region in found if not region[4]]
    findings = [
        f"{file}:{line}:{column}: no test reaches this: {code}"
        for file, line, column, code in unreached
        if (file, code) not in listed
    ]
    stale = listed - {(file, code) for file, _, _, code in unreached}
    findings += [f"{file}: reached or gone, so uncovered.toml must not list it: {code}" for file, code in sorted(stale)]
    for finding in findings:
        print(finding)
    print(f"{len(found)} regions, {len(found) - len(unreached)} reached by a test; {len(findings)} findings")
    return 1 if findings else 0


sys.exit(main(*sys.argv[1:]))
