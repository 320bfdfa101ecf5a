"""Compares the regions that no test reaches with uncovered.toml, the list of those that no test can reach.

    python3 .ci/coverage.py EXPORT     EXPORT is what `cargo llvm-cov --json` writes

For the crates below, prints each region that is neither reached nor listed, and each list entry whose code is now reached or gone. Exits with
1 if it prints any. A region is a piece of code that runs as a whole, such as one side of a `?`.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("algorithms", "mac", "aead", "tcp-ao", "quic", "keys")


def unreached(path, segments):
    """(line, column, text of the line) of each region that never ran, and the number of all regions. Skips the tests in the file."""
    lines = path.read_text().splitlines()
    tests = next((i for i, line in enumerate(lines, 1) if line.startswith("#[cfg(test)]") and i < len(lines) and lines[i].startswith("mod ") and lines[i].endswith("{")), len(lines) + 1)
    found, count = [], 0
    for line, column, runs, has_count, is_entry, is_gap in segments:
        if has_count and is_entry and not is_gap and line < tests:
            count += 1
            if runs == 0:
                found.append((line, column, lines[line - 1].strip()))
    return found, count


def main(export):
    listed = tomllib.loads((ROOT / ".ci/uncovered.toml").read_text())["region"]
    for entry in listed:
        if set(entry) != {"file", "code", "reason"}:
            sys.exit(f"uncovered.toml: an entry needs a file, a code and a reason, not {entry}")
    used = [False] * len(listed)
    findings, count, missed = [], 0, 0
    for file in json.loads(Path(export).read_text())["data"][0]["files"]:
        path = Path(file["filename"])
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        if not name.startswith(tuple(f"crates/{crate}/src/" for crate in CRATES)):
            continue
        regions, here = unreached(path, file["segments"])
        count += here
        for line, column, code in regions:
            missed += 1
            matches = [i for i, entry in enumerate(listed) if entry["file"] == name and entry["code"] == code]
            for i in matches:
                used[i] = True
            if not matches:
                findings.append(f"{name}:{line}:{column}: no test reaches this: {code}")
    findings += [f"{e['file']}: reached or gone; remove it from uncovered.toml: {e['code']}" for e, u in zip(listed, used) if not u]
    print("\n".join(findings))
    print(f"{count} regions, {count - missed} reached by a test, {missed - len([f for f in findings if 'no test' in f])} listed; {len(findings)} findings")
    return 1 if findings else 0


sys.exit(main(*sys.argv[1:]))
