"""Each rule is shown a repository that keeps it and one that breaks it."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import circles
import conformance
import rules
from repository import Repository


class Rules(unittest.TestCase):
    def repository(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        subprocess.run(["git", "init", "-q", folder.name], check=True)
        for name, text in files.items():
            path = Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Repository(folder.name)

    def found(self, rule, files, *arguments):
        return sorted(rule(self.repository(files), *arguments))

    def test_arrows(self):
        files = {
            "Cargo.toml": "[workspace]\nexclude = ['fuzz']",
            "a/Cargo.toml": "[package]\nname = 'a'\n[dev-dependencies]\na = { path = '.' }\nserde = '1'",
            "b/Cargo.toml": "[package]\nname = 'b'\n[target.'cfg(unix)'.dependencies]\nx = { package = 'a' }",
            "fuzz/Cargo.toml": "[package]\nname = 'fuzz'\n[dependencies]\nb = '1'",
        }
        self.assertEqual(self.found(rules.arrows, files, {"a": (), "b": ("a",)}), [])
        self.assertEqual(self.found(rules.arrows, files, {"a": (), "b": ()}), ["b -> a"])
        self.assertEqual(self.found(rules.arrows, files, {"b": ()}), ["a has no row in the table of crates", "b -> a"])
        turned = {"b": ("a",), "a": ()}
        self.assertEqual(self.found(rules.arrows, files, turned), ["the table itself has b -> a, which is not above it"])

    def test_unsafe_code(self):
        sources = {
            "block": "fn f(p: *const u8) -> u8 { unsafe { *p } }",
            "function": "unsafe fn f() {}",
            "implementation": "mod a { unsafe impl Send for super::A {} }",
            "attribute": "#[unsafe(no_mangle)] fn f() {}",
            "macro": "macro_rules! m { () => { unsafe { f() } } }",
            "lint": "#![allow(unsafe_code)]",
            "quote": "const QUOTE: char = '\"'; unsafe fn f() {} const NEXT: char = '\"';",
        }
        words = {
            "comments": "//! unsafe\n/* unsafe /* { */ /// unsafe { }\nfn f() {} // unsafe",
            "strings": r"""const A: [&str; 3] = ["unsafe", "\" unsafe {", r#"" unsafe"#]; const B: &[u8] = b"unsafe";""",
            "names": "fn is_unsafe<'unsafety>(not_unsafe: &'unsafety str) -> &'unsafety str { not_unsafe }",
        }
        files = {f"{name}.rs": text for name, text in (sources | words).items()}
        found = [finding.split()[0] for finding in self.found(rules.unsafe, files, ())]
        self.assertEqual(found, sorted(f"{name}.rs" for name in sources))
        self.assertEqual(len(self.found(rules.unsafe, files, ("block.rs", "lint.rs"))), len(sources) - 2)
        self.assertIn("nothing/ needs no exception", self.found(rules.unsafe, files, ("nothing/",)))

    def test_the_compiler_is_told(self):
        files = {
            "Cargo.toml": "[workspace.lints.rust]\nunsafe_code = 'forbid'",
            "a/Cargo.toml": "[package]\nname = 'a'\n[lints]\nworkspace = true",
            "b/Cargo.toml": "[package]\nname = 'b'\n[lints.rust]\nunsafe_code = { level = 'forbid' }",
            "c/Cargo.toml": "[package]\nname = 'c'\n[lints.rust]\nunsafe_code = 'deny'",
            "d/Cargo.toml": "[package]\nname = 'd'",
            "e/Cargo.toml": "[package]\nname = 'e'\n[lints.rust]\nunsafe_code = 'warn'",
            "f/Cargo.toml": "[workspace.lints.rust]\nunsafe_code = 'allow'",
            "f/g/Cargo.toml": "[package]\nname = 'g'\n[lints]\nworkspace = true",
            "h/Cargo.toml": "[package]\nname = 'h'",
            **{name: "unsafe fn f() {}" for name in ("c/src/sys.rs", "e/src/sys.rs", "h/src/lib.rs")},
        }
        expected = [
            "d/Cargo.toml: unsafe_code is None, not forbid",
            "e/Cargo.toml: unsafe_code is warn, not deny",
            "f/g/Cargo.toml: unsafe_code is allow, not forbid",
        ]
        self.assertEqual(self.found(rules.unsafe, files, ("c/src/sys.rs", "e/src/sys.rs", "h/")), expected)

    def test_conformance(self):
        table = conformance.Table("table.md", "AO", "ao_", 2, ("crate",), 2)
        files = {
            "table.md": "| AO-1 | a thing | `crate/tests/t.rs::ao_01_a` |\n| AO-2 | another | `other.py::test` |\n",
            "crate/tests/t.rs": "#[test]\nfn ao_01_a() {}\n",
            "crate/src/lib.rs": "    pub async fn ao_02_b() {}\n",
            "other.py": "def test():\n",
        }
        self.assertEqual(self.found(conformance.check, files, [table]), ["table.md: AO-2 lacks crate/src/lib.rs::ao_02_b"])
        files["table.md"] = "| AO-1 | a thing | `gone.rs::ao_01_a`, `crate/src/lib.rs::ao_01_a` |\n| AO-3 | another | none |\n"
        del files["crate/tests/t.rs"]
        expected = [
            "table.md: AO-1: crate/src/lib.rs has no test ao_01_a",
            "table.md: AO-1: no file gone.rs",
            "table.md: AO-2 lacks crate/src/lib.rs::ao_02_b",
            "table.md: AO-3 has no test",
            "table.md: its rows are not AO-1 to AO-2, in order",
            "table.md: only 1 tests are named after its rows, not 2",
        ]
        self.assertEqual(self.found(conformance.check, files, [table]), expected)

    def test_sizes(self):
        self.assertEqual(self.found(rules.sizes, {"a.rs": "\n" * 600, "b.rs": "", "c.rs": ""}), [])
        long = self.found(rules.sizes, {"a.rs": "\n" * 601, "b.rs": "\n" * 250})
        self.assertEqual(long, ["a.rs has 601 lines, more than 600"])

    def circles(self, **modules):
        files = {f"src/{name.replace('__', '/')}.rs": text for name, text in modules.items()}
        return self.found(circles.check, {"Cargo.toml": "[package]\nname = 'a'", **files})

    def test_circles(self):
        declare = "mod a; mod b;"
        one_way = {"a": "use crate::b::{self, B};", "b": "pub struct B; // crate::a::A"}
        self.assertEqual(self.circles(lib=declare, **one_way), [])
        for back in ("use super::a::{A};", "fn f() { crate::a::f() }", "use crate::{a as other};", "use super::*; use crate::a::*;"):
            self.assertEqual(self.circles(lib=declare, a="use crate::b::B;", b=back), ["src/a.rs, src/b.rs"], back)
        # What a parent re-exports is its child's; what it uses or defines is its own.
        shared = {"a__mod": "mod c; pub use c::C;", "a__c": "pub struct C;", "b": "use crate::a::C;"}
        self.assertEqual(self.circles(lib=declare, **shared), [])
        self.assertEqual(self.circles(lib="mod a; mod b; pub use a::C;", **shared | {"a__c": "pub struct C; use crate::b::B;"}), ["src/a/c.rs, src/b.rs"])
        parent = {"lib": "mod a;", "a__mod": "mod c; pub struct A; fn f() { c::f() }", "a__c": "use super::A;"}
        self.assertEqual(self.circles(**parent), ["src/a/c.rs, src/a/mod.rs"])
        # Tests may use what they test.
        self.assertEqual(self.circles(lib="#[cfg(test)]\nmod a; fn f() {}", a="use super::f;"), [])

    def test_citations(self):
        good = "/// RFC 9001 §5.3, RFC 9001 appendix A, and the sections of RFC 9000. FIPS 180-4 §5.1.1\n"
        self.assertEqual(self.found(rules.citations, {"a.rs": good}), [])
        for bad in ("RFC 9001, section 5", "RFC 9001 (section 5)", "RFC 9001,\n/// sections 5 and 6", "RFC 9001, §5", "SP 800-185, appendix A"):
            self.assertEqual(len(self.found(rules.citations, {"a.rs": f"/// {bad}\n"})), 1, bad)

    def test_ignored_tests(self):
        for text in ("#[test]\n#[ignore]\nfn t() {}", '#[ignore = "slow"]', "#[cfg_attr(miri, ignore)]"):
            self.assertEqual(self.found(rules.ignored, {"a.rs": text}), ["a.rs has an ignored test"])
        self.assertEqual(self.found(rules.ignored, {"a.rs": "// #[ignore]\nfn ignore() {}"}), [])

    def test_readmes(self):
        files = {
            "crates/a/README.md": "```rust,no_run\na();\n```\n",
            "crates/a/src/lib.rs": '#[doc = include_str!("../README.md")]\nstruct Readme;\n',
            "README.md": "```sh\nls\n```\n",
        }
        self.assertEqual(self.found(rules.readmes, files), [])
        files["README.md"] = "```rust,ignore\na();\n```\n"
        files["examples/router-peer/src/lib.rs"] = files["crates/a/src/lib.rs"]
        files["crates/a/src/lib.rs"] = "//! a();\n"
        expected = [
            "README.md: rust,ignore is not compiled",
            "crates/a/src/lib.rs does not include crates/a/README.md for doctests",
            "examples/router-peer/src/lib.rs does not include README.md for doctests",
        ]
        self.assertEqual(self.found(rules.readmes, files), expected)

    def test_stages(self):
        files = {
            ".ci/stages/test": "",
            ".ci/stages/lint": "",
            ".ci/run": "table='\n#stage when lane minutes\ntest   each  1  5\nfuzz  all  2  8\n'\n",
        }
        self.assertEqual(self.found(rules.stages, files), [".ci/run: fuzz is no stage", ".ci/run: lint is missing"])


if __name__ == "__main__":
    unittest.main()
