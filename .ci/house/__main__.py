"""Checks the rules of this repository that no lint knows, and prints every finding.

    python3 .ci/house           all rules
    python3 .ci/house RULE...   these rules

Exits with 1 if there is a finding. test_rules.py shows each rule a repository that breaks it.
"""

import sys
from pathlib import Path

from repository import Repository
from rules import RULES


def main():
    repository = Repository(Path(__file__).resolve().parent.parent.parent)
    count = 0
    for name in sys.argv[1:] or RULES:
        for finding in RULES[name](repository):
            print(f"{name}: {finding}")
            count += 1
    print(f"{count} findings")
    return 1 if count else 0


sys.exit(main())
