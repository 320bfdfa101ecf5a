"""Files of a crate that use each other's names."""

import re
from pathlib import PurePosixPath

# `mod name;`, with what stands before it.
MOD = re.compile(r'((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;')
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+|\b[a-z_]\w*(?:::\w+)+")


def modules(repository, root):
    """The files of a crate by module path, from the file of its root. Modules for tests alone are left out."""
    found, todo = {}, [((), root)]
    while todo:
        path, name = todo.pop()
        found[path] = name
        here = PurePosixPath(name)
        folder = here.parent if name == root or here.stem == "mod" else here.with_suffix("")
        for attributes, child in MOD.findall(repository.code(name)):
            places = [f"{folder}/{child}.rs", f"{folder}/{child}/mod.rs"]
            place = next((place for place in places if place in repository.files), None)
            if place and "cfg(test)" not in attributes.replace(" ", ""):
                todo.append(((*path, child), place))
    return found


def leaves(tree):
    """The paths of a `use`, each with the name that it is known by: a::{b, c as d} is (a::b, b) and (a::c, d)."""
    tree = " ".join(tree.split())
    start = tree.find("{")
    if start < 0:
        path, _, alias = tree.partition(" as ")
        path = tuple(part.strip() for part in path.split("::") if part.strip())
        if path[-1:] == ("self",):
            path = path[:-1]
        yield path, alias.strip() or (path[-1] if path else "")
        return
    prefix, depth, item = tree[:start], 0, ""
    for letter in tree[start + 1 : tree.rfind("}")] + ",":
        if letter == "," and depth == 0:
            if item.strip():
                yield from leaves(prefix + item.strip())
            item = ""
        else:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            item += letter


class Crate:
    def __init__(self, repository, root):
        self.files = modules(repository, root)
        self.code = {path: self.without_tests(repository.code(name)) for path, name in self.files.items()}
        # What each module's names are short for.
        self.names = {
            path: {name: full for _, tree in USE.findall(code) for full, name in leaves(tree)}
            for path, code in self.code.items()
        }

    @staticmethod
    def without_tests(code):
        return re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", code)[0]

    def absolute(self, path, at):
        """A path as it is from the crate's root, or None for one that leaves the crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return at + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                at, path = at[:-1], path[1:]
            return at + path
        if at + path[:1] in self.files:
            return at + path
        return None

    def home(self, path, depth=0):
        """The module in whose file the last name of a path is defined, followed through re-exports."""
        module = path
        while module not in self.files:
            module = module[:-1]
        rest = path[len(module) :]
        through = self.names[module].get(rest[0]) if rest and depth < 9 else None
        if through:
            target = self.absolute(through, module)
            if target is not None and target != path:
                return self.home(target + rest[1:], depth + 1)
        return module

    def uses(self, at):
        """The modules whose names the code of `at` uses: a re-export alone is no use."""
        code = self.code[at]
        body = USE.sub("", MOD.sub("", code))
        words = set(re.findall(r"\w+", body))
        # Names that a `use` brings in; of a public one, those that are used here as well.
        paths = [
            full
            for public, tree in USE.findall(code)
            for full, name in leaves(tree)
            if full and (not public or name in words)
        ]
        paths += [tuple(path.split("::")) for path in PATH.findall(body)]
        for path in paths:
            if path[0] in self.names[at] and path[0] not in ("crate", "self", "super"):
                path = self.names[at][path[0]] + path[1:]
            target = self.absolute(path, at)
            if target is not None:
                yield self.home(target)


def circles(edges):
    """The sets of nodes that reach each other."""

    def reach(start):
        seen, todo = set(), [start]
        while todo:
            for target in edges.get(todo.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    reached = {node: reach(node) for node in edges}
    return {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in edges if node in reached[node]}


def check(repository):
    """No files of a crate use each other's names in a circle."""
    for folder in repository.packages:
        roots = [f"{folder}src/lib.rs", f"{folder}src/main.rs"]
        roots += [name for name in repository.files if re.fullmatch(rf"{folder}src/bin/[^/]+(/main)?\.rs", name)]
        for root in (root for root in roots if root in repository.files):
            crate = Crate(repository, root)
            edges = {at: {target for target in crate.uses(at) if target != at} for at in crate.files}
            for circle in sorted(sorted(crate.files[at] for at in circle) for circle in circles(edges)):
                yield ", ".join(circle)
