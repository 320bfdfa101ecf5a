"""Compares the regions that no test reaches with the list of those that none can.

    python3 .ci/coverage.py FOLDER     FOLDER is where `cargo llvm-cov --no-report` builds

Prints each region of the crates below that is not reached and not in uncovered.toml, and each of that list that is reached or gone; exits
with 1 if there is one. A region is a piece of code that runs as a whole, such as one side of a `?`.
"""

import json
import os
import subprocess
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


def exports(folder):
    """Exports the coverage of each test program separately. Given several at once, llvm-cov counts a function only in the first that contains it,
    even if only another calls it."""
    profile = folder / "all.profdata"
    merge = [os.environ["LLVM_PROFDATA"], "merge", "-sparse", "-o", profile, *folder.glob("*.profraw")]
    subprocess.run(merge, check=True)
    for program in (folder / "debug/deps").iterdir():
        if not program.suffix and os.access(program, os.X_OK):
            export = [os.environ["LLVM_COV"], "export", "-skip-functions", "-skip-expansions", f"-instr-profile={profile}", program]
            said = subprocess.run(export, check=True, stdout=subprocess.PIPE).stdout
            yield from json.loads(said)["data"][0]["files"]


def regions(folder):
    """Each region of the crates: its file, line, column and name, and whether it is reached."""
    found = {}
    for file in exports(folder):
        path = Path(file["filename"])
        if not path.is_relative_to(ROOT):
            continue
        file_name = str(path.relative_to(ROOT))
        if not file_name.startswith(tuple(f"crates/{crate}/src/" for crate in CRATES)):
            continue
        lines = without_tests(path.read_text().splitlines())
        for line, column, runs, has_count, is_entry, is_gap in file["segments"]:
            if has_count and is_entry and not is_gap and line <= len(lines):
                region = file_name, line, column, name(lines, line)
                found[region] = found.get(region, False) or runs > 0
    return found


def main(folder):
    listed = {
        (file, code)
        for group in tomllib.loads((ROOT / ".ci/uncovered.toml").read_text())["unreached"]
        for file, codes in group["regions"].items()
        for code in codes
    }
    found = regions(Path(folder))
    unreached = sorted(region for region, is_reached in found.items() if not is_reached)
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
