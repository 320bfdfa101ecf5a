"""The tables docs/conformance-*.md and the tests agree."""

import re
from dataclasses import dataclass


@dataclass
class Table:
    document: str
    # What the names of its rows begin with, and those of the tests that show a row.
    row_prefix: str
    test_prefix: str
    rows: int
    # Where tests are named after rows, and how many there are at least.
    crates: tuple
    least: int


TABLES = (
    Table("docs/dev/conformance-tcp-ao.md", "AO", "ao_", 44, ("crates/tcp-ao", "crates/linux", "interop/linux/driver", "models"), 150),
    Table("docs/dev/conformance-quic.md", "Q", "q_", 49, ("crates/aead", "crates/quic", "crates/rustls", "models"), 100),
)

# A function in Rust or, where other programs judge, in Python.
FUNCTION = re.compile(r"^\s*(?:pub )?(?:async )?(?:fn|def) (\w+)[(<]", re.MULTILINE)


def read(repository, table):
    """The rows of a table in order, each with the tests it names as (path, function)."""
    for line in repository.text(table.document).splitlines():
        row = re.match(rf"\| {table.row_prefix}-(\d+) \| (.*)", line)
        if row:
            quoted = row[2].split("`")[1::2]
            yield int(row[1]), {tuple(name.split("::", 1)) for name in quoted if "::" in name}


def check(repository, tables=TABLES):
    """Every row has a test, every test named exists, and every test named after a row is in it."""
    for table in tables:
        rows = list(read(repository, table))
        if [row for row, _ in rows] != list(range(1, table.rows + 1)):
            yield f"{table.document}: its rows are not {table.row_prefix}-1 to {table.row_prefix}-{table.rows}, in order"
        for row, tests in rows:
            name = f"{table.document}: {table.row_prefix}-{row}"
            if not tests:
                yield f"{name} has no test"
            for path, function in sorted(tests):
                if path not in repository.files:
                    yield f"{name}: no file {path}"
                elif function not in FUNCTION.findall(repository.text(path)):
                    yield f"{name}: {path} has no test {function}"
        yield from unnamed(repository, table, dict(rows))


def unnamed(repository, table, rows):
    """Tests that are named after a row which does not name them."""
    folders = tuple(f"{crate}/{inside}/" for crate in table.crates for inside in ("src", "tests"))
    seen = 0
    for path in repository.with_suffix(".rs"):
        if path.startswith(folders):
            for function in FUNCTION.findall(repository.text(path)):
                row = re.match(rf"{table.test_prefix}(\d+)_", function)
                if row:
                    seen += 1
                    if (path, function) not in rows.get(int(row[1]), ()):
                        yield f"{table.document}: {table.row_prefix}-{int(row[1])} lacks {path}::{function}"
    if seen < table.least:
        yield f"{table.document}: only {seen} tests are named after its rows, not {table.least}"
