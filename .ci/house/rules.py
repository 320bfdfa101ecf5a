"""The rules, by name. Each takes a repository and yields its findings."""

import re

import circles
import conformance

# The crates of the workspace, each with those it may depend on; a crate may only depend on one above it. What is not here may
# not be a member, so that a new crate is given its place. See ARCHITECTURE.md.
CRATES = {
    "wireseal-algorithms": (),
    "wireseal-kernels": ("wireseal-algorithms",),
    "wireseal-mac": ("wireseal-algorithms", "wireseal-kernels"),
    "wireseal-aead": ("wireseal-algorithms", "wireseal-kernels"),
    "wireseal-tcp-ao": ("wireseal-algorithms", "wireseal-mac"),
    "wireseal-keys": ("wireseal-algorithms", "wireseal-mac", "wireseal-tcp-ao"),
    "wireseal-quic": ("wireseal-algorithms", "wireseal-kernels", "wireseal-aead"),
    "wireseal-linux": ("wireseal-algorithms", "wireseal-mac", "wireseal-tcp-ao", "wireseal-keys"),
    "wireseal-smoltcp": ("wireseal-algorithms", "wireseal-tcp-ao"),
    "wireseal-rustls": ("wireseal-algorithms", "wireseal-quic"),
    "wireseal-quinn": ("wireseal-quic",),
    "wireseal-agent": ("wireseal-tcp-ao", "wireseal-keys", "wireseal-linux"),
}
LIBRARIES = tuple(CRATES)
PROTOCOLS = tuple(name for name in LIBRARIES if name not in ("wireseal-kernels", "wireseal-mac", "wireseal-aead"))
CRATES |= {
    "wireseal-c": ("wireseal-algorithms", "wireseal-aead", "wireseal-tcp-ao", "wireseal-keys", "wireseal-quic", "wireseal-linux"),
    "wireseal": LIBRARIES,
    "wireseal-interop-speaker": ("wireseal-tcp-ao", "wireseal-keys", "wireseal-smoltcp"),
    "router-peer": (*PROTOCOLS, "wireseal-interop-speaker"),
    "rtr": ("wireseal-linux",),
    "bgp-daemon-keys": ("wireseal-linux", "wireseal-interop-speaker"),
    "firmware": ("wireseal-algorithms", "wireseal-tcp-ao", "wireseal-smoltcp", "wireseal-quic"),
    "quinn-without-c": ("wireseal-quinn", "wireseal-rustls"),
    "wireseal-models": ("wireseal-algorithms", "wireseal-tcp-ao", "wireseal-keys", "wireseal-quic", "wireseal-linux"),
    "wireseal-bench-peers": (),
    "wireseal-benches": (*LIBRARIES, "wireseal", "wireseal-bench-peers"),
}

# Where `unsafe` may be: whole folders, and single files of a package that denies it elsewhere.
UNSAFE = (
    "crates/kernels/",
    "crates/linux/src/sys.rs",
    # Pointers that C gives.
    "crates/c/",
    # Calls that the kernel refuses and crates/linux never makes.
    "interop/linux/guest/src/options.rs",
    # Calls of the C libraries that the benches compare with.
    "benches/peers/",
    # C's start code calls `main` by its name, and `no_mangle` is an unsafe attribute.
    "examples/no-std/src/main.rs",
    "examples/no-std/src/start.rs",
    # The addresses of the board's registers, and its stack as it is measured: only the image knows what is there.
    "examples/firmware/src/board.rs",
)

MAX_LINES = 600


def dependencies(manifest):
    """The names of all packages that a manifest depends on, whatever for."""
    places = [manifest, *manifest.get("target", {}).values()]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    for table in (place.get(kind, {}) for place in places for kind in kinds):
        for key, value in table.items():
            yield value.get("package", key) if isinstance(value, dict) else key


def arrows(repository, allowed=None):
    """Dependencies between the crates of the workspace run one way."""
    allowed = CRATES if allowed is None else allowed
    order = list(allowed)
    for name, targets in allowed.items():
        for target in targets:
            if target not in order or order.index(target) >= order.index(name):
                yield f"the table itself has {name} -> {target}, which is not above it"
    excluded = repository.manifests[""]["workspace"].get("exclude", [])
    names = {manifest["package"]["name"] for manifest in repository.packages.values()}
    for folder, manifest in repository.packages.items():
        name = manifest["package"]["name"]
        if any(f"{folder}/".startswith(f"{other}/") for other in excluded) and name not in allowed:
            continue
        if name not in allowed:
            yield f"{name} has no row in the table of crates"
            continue
        for target in dependencies(manifest):
            # A crate may name itself, to turn its features on for its tests.
            if target in names and target != name and target not in allowed[name]:
                yield f"{name} -> {target}"


def unsafe(repository, allowed=UNSAFE):
    """Unsafe code is where it may be, and the compiler is told to refuse it everywhere else."""
    using = [name for name in repository.with_suffix(".rs") if re.search(r"\bunsafe(_code)?\b", repository.code(name))]
    for name in using:
        if not name.startswith(allowed):
            yield f"{name} has unsafe code, or a lint's name about it"
    for place in allowed:
        if not any(name.startswith(place) for name in using):
            yield f"{place} needs no exception"
    for folder, manifest in repository.packages.items():
        if folder in allowed:
            continue
        wanted = "deny" if any(repository.package_of(place) == folder for place in allowed) else "forbid"
        found = lint_level(repository, folder)
        if found != wanted:
            yield f"{folder}Cargo.toml: unsafe_code is {found}, not {wanted}"


def lint_level(repository, folder):
    """What the compiler is told of `unsafe_code` in a package."""
    lints = repository.packages[folder].get("lints", {})
    if lints.get("workspace"):
        around = [place for place, found in repository.manifests.items() if folder.startswith(place) and "workspace" in found]
        lints = repository.manifests[max(around, key=len)]["workspace"].get("lints", {})
    level = lints.get("rust", {}).get("unsafe_code")
    return level.get("level") if isinstance(level, dict) else level


def sizes(repository):
    """No file is too long to hold in the head."""
    for name in repository.with_suffix(".rs"):
        if (count := repository.text(name).count("\n")) > MAX_LINES:
            yield f"{name} has {count} lines, more than {MAX_LINES}"


DOCUMENT = r"\b(?:RFC \d+|FIPS [\d-]+|SP \d+-\w+|draft-[\w-]+)"
# A line of a comment may end between two words.
GAP = r"(?:\s|//[/!]?|#)+"
CITATION = re.compile(rf"{DOCUMENT}(?:,?{GAP}\(?[Ss]ections?\b|,{GAP}(?:§|[Aa]ppendi(?:x|ces)\b))")


def citations(repository):
    """A document is cited as "RFC 9001 §5" or "RFC 9001 appendix A"."""
    for name in repository.with_suffix(".rs", ".md", ".toml", ".py", ".sh"):
        text = repository.text(name)
        for match in [] if name.startswith(".ci/") else CITATION.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].split())}"


def ignored(repository):
    """No test is left out."""
    for name in repository.with_suffix(".rs"):
        if re.search(r"#\[\s*(ignore\b|cfg_attr\(.*\bignore\b)", repository.code(name)):
            yield f"{name} has an ignored test"


def readmes(repository):
    """The Rust in a README is compiled: a crate's with its doctests, the workspace's with router-peer's."""
    for name in repository.files:
        crate = re.fullmatch(r"(crates/\w[\w-]*/)?README\.md", name)
        blocks = re.findall(r"^```(rust\b.*)", repository.text(name), re.M) if crate else []
        if not blocks:
            continue
        place = f"{crate[1]}src/lib.rs" if crate[1] else "examples/router-peer/src/lib.rs"
        # From the folder of the source file.
        path = "../" * (1 if crate[1] else 3) + "README.md"
        if f'#[doc = include_str!("{path}")]' not in repository.text(place):
            yield f"{place} does not include {name} for doctests"
        yield from (f"{name}: {block} is not compiled" for block in blocks if "ignore" in block)


def stages(repository):
    """The table of .ci/run has every stage of .ci/stages, and no other."""
    there = {name.removeprefix(".ci/stages/") for name in repository.files if name.startswith(".ci/stages/")}
    listed = set(re.findall(r"^([a-z0-9.-]+) +(?:each|all) +[12] +\d+$", repository.text(".ci/run"), re.M))
    for stage in sorted(there ^ listed):
        yield f".ci/run: {stage} is " + ("missing" if stage in there else "no stage")


RULES = {
    "arrows": arrows,
    "unsafe": unsafe,
    "conformance": conformance.check,
    "sizes": sizes,
    "circles": circles.check,
    "citations": citations,
    "ignored": ignored,
    "readmes": readmes,
    "stages": stages,
}
