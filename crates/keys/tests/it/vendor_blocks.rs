//! The same as for lines, for routers whose configurations have blocks in braces.

use wireseal_keys::Format;

use crate::vendor_lines::check;

const JUNOS: &str = "security { authentication-key-chains { key-chain core {
    tolerance 5;
    description ours;
    key 1 {
        secret hunter2;
        start-time \"2026-1-1.00:00:00 +0000\";
        algorithm ao;
        ao-attribute {
            send-id 1;
            recv-id 2;
            tcp-ao-option enabled;
            cryptographic-algorithm aes-128-cmac-96;
        }
    }
} } }
protocols { bgp { group all {
    authentication-algorithm ao;
    authentication-key-chain core;
    neighbor 192.0.2.1;
} } }
";

const SR_OS: &str = "configure { system { security { keychains { keychain \"core\" {
    tcp-option-number {
        send tcp-ao
        receive tcp-ao
    }
    bidirectional {
        entry 1 {
            authentication-key \"hunter2\"
            algorithm aes-128-cmac-96
            begin-time 2026-01-01T00:00:00.0Z
            end-time 2027-01-01T00:00:00.0Z
            tolerance 10
        }
    }
}
} } }
router \"Base\" {
    bgp {
        neighbor \"192.0.2.1\" {
            authentication-keychain \"core\"
        }
    }
}
}
";

const SR_LINUX: &str = "system { authentication { keychain core {
    admin-state enable
    type tcp-ao
    key 1 {
        algorithm aes-128-cmac
        authentication-key hunter2
    }
} } }
network-instance default { protocols { bgp {
    neighbor 192.0.2.1 {
        authentication {
            keychain core
        }
    }
} } }
";

const BIRD: &str = "protocol bgp core {
    neighbor 192.0.2.1 as 65000;
    authentication ao;
    keys {
        key { send id 1; recv id 2; secret \"hunter2\"; algorithm cmac aes128; };
    };
}
";

#[test]
fn lines_of_junos() {
    check(
        Format::Junos,
        JUNOS,
        &[
            (
                "    tolerance 5;",
                "    tolerance 5; tolerance 6;",
                "line 2, column 18, tolerance: is given twice",
            ),
            ("    tolerance 5;", "    options basic;", "3600 s @ 192.0.2.1"),
            ("    tolerance 5;", "    colour red;", "3600 s @ 192.0.2.1; 2 not understood"),
            (
                "    tolerance 5;\n",
                "    tolerance 1000000000;\n",
                "line 2, column 15, tolerance: must be a whole number from 0 to 999999999",
            ),
            (
                "cryptographic-algorithm aes-128-cmac-96;",
                "cryptographic-algorithm rot13;",
                "line 12, column 37, cryptographic-algorithm: unknown TCP-AO algorithm (supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), HMAC-SHA256-128, KMAC256-128)",
            ),
            (
                "cryptographic-algorithm aes-128-cmac-96;",
                "cryptographic-algorithm aes-128-cmac-96; apply-macro x;",
                "",
            ),
            (
                "cryptographic-algorithm aes-128-cmac-96;",
                "cryptographic-algorithm aes-128-cmac-96; colour red;",
                "12 not understood",
            ),
            (
                "cryptographic-algorithm aes-128-cmac-96;",
                "cryptographic-algorithm aes-128-cmac-96; cryptographic-algorithm aes-128-cmac-96;",
                "line 12, column 54, cryptographic-algorithm: is given twice",
            ),
            (
                "send-id 1;",
                "send-id 256;",
                "line 9, column 21, send-id: must be a whole number from 0 to 255",
            ),
            (
                "recv-id 2;",
                "recv-id 256;",
                "line 10, column 21, recv-id: must be a whole number from 0 to 255",
            ),
            (
                "2026-1-1.00:00:00 +0000",
                "2026-1-1 00:00:00",
                "line 6, column 20, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
            ),
            (
                "2026-1-1.00:00:00 +0000",
                "",
                "line 6, column 20, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
            ),
            (
                "2026-1-1.00:00:00 +0000",
                "2026-1-1.00:00:00 +0000 and more",
                "line 6, column 20, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
            ),
            (
                "2026-1-1.00:00:00 +0000",
                "2026-1-1.00:00:00 +0",
                "line 6, column 20, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
            ),
            (
                "2026-1-1.00:00:00 +0000",
                "2026-1-1.00:00:00 +0\u{e9}0",
                "line 6, column 20, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
            ),
            (
                "    key 1 {",
                "    key 2 { secret other; ao-attribute { send-id 3; } }\n    key 1 {",
                "4 left-out: key 2 of chain \"core\" has ids for TCP-AO but not \"algorithm ao\", so Junos uses it for another option: it is left out",
            ),
            (
                "    key 1 {",
                "    key 2 { secret other; ao-attribute { recv-id 3; } }\n    key 1 {",
                "4 left-out: key 2 of chain \"core\" has ids for TCP-AO but not \"algorithm ao\", so Junos uses it for another option: it is left out",
            ),
            ("neighbor 192.0.2.1;", "allow [ 198.51.100.0/24 all ];", "5 s @ 198.51.100.0/24 0.0.0.0/0 ::/0"),
            (
                "neighbor 192.0.2.1;",
                "allow [ 198.51.100.0/24 everyone ];",
                "5 s @ 198.51.100.0/24; 19 not understood",
            ),
            ("secret hunter2", "secret \"$9$\"", "line 5, column 16, secret: is a damaged $9$ secret"),
            ("neighbor 192.0.2.1;", "neighbor someone;", "5 s @ "),
            (
                "neighbor 192.0.2.1;",
                "neighbor someone { authentication-key-chain core; }",
                "5 s @ ; 19 not understood",
            ),
            (
                "neighbor 192.0.2.1;",
                "neighbor 192.0.2.1 { authentication-key-chain \"a\tb\"; }",
                "19 not understood",
            ),
            (
                "authentication-key-chain core;",
                "authentication-key-chain core x;",
                "5 s @ ; 18 not understood",
            ),
            (
                "protocols {",
                "routing-options { bmp { station s { station-address nowhere; authentication-key-chain core; } } }\nprotocols {",
                "16 not understood",
            ),
            (
                "protocols {",
                "routing-options { bmp { station s { station-address 192.0.2.9; authentication-key-chain core; } } }\nprotocols {",
                "5 s @ 192.0.2.9 192.0.2.1; - older-option: not TCP-AO but the older TCP option is used with 192.0.2.9 (no authentication-algorithm ao)",
            ),
            ("neighbor 192.0.2.1;", "neighbor 192.0.2.1; neighbor 192.0.2.1;", ""),
            (
                "protocols {",
                "delete: protocols {",
                "5 s @ ; 16 not understood; 16 not understood; 16 not understood",
            ),
            ("    key 1 {", "    delete: key 2;\n    key 1 {", "4 not understood"),
            ("        ao-attribute {", "        ao-attribute;\n        ao-attribute {", ""),
            (
                "send-id 1;",
                "send-id \"1\";",
                "line 9, column 21, send-id: must be a whole number from 0 to 255",
            ),
            (
                "secret hunter2;",
                "secret hun\\ter2;",
                "core/1: 1/2 AES-128-CMAC-96 hun\\ter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z.. Utc Covered",
            ),
            ("protocols {", "\"x#\" y;\nprotocols {", ""),
            (
                "} } }\nprotocols",
                "} } }\nprotocols { bgp { group other { authentication-algorithm ao; authentication-key-chain core; neighbor 192.0.2.1; } } }\nprotocols",
                "",
            ),
            (
                "authentication-key-chain core;\n",
                "authentication-key-chain none;\n    neighbor 192.0.2.3 { authentication-key-chain nothing; }\n",
                "5 s @ ; 18 missing: key chain \"none\" is not in the file; 19 missing: key chain \"nothing\" is not in the file",
            ),
            (
                "security {",
                "groups { g { security { authentication-key-chains { key-chain core { description theirs; key 1 { algorithm md5; secret other; } } } } } }\napply-groups g;\nsecurity {",
                "",
            ),
            (
                "security {",
                "apply-groups [ g g ];\nsecurity {",
                "1 not-understood: a group that is applied here is not in this text, so what it contributes is not known",
            ),
            (
                "security {",
                "groups { g { security { authentication-key-chains { key-chain core { apply-groups h; tolerance 9; } } } } }\napply-groups [ g g ];\nsecurity {",
                "1 not-understood: a condition or a group inside of a group is not evaluated",
            ),
            (
                "security {",
                "groups { g { protocols { bgp { group <*> { neighbor 192.0.2.9; } } } security { authentication-key-chains { key-chain <*> { tolerance 7; } } } } h { protocols { bgp { group all { neighbor 192.0.2.8; } } } } }\napply-groups [ h g ];\nsecurity {",
                "5 s @ 192.0.2.1 192.0.2.8 192.0.2.9",
            ),
            (
                "protocols {",
                "system { apply-groups g; }\ngroups { g { protocols { bgp { group <*> { neighbor 192.0.2.9; } } } } }\nprotocols {",
                "",
            ),
            (
                "protocols {",
                "security { apply-groups g; }\ngroups { g { protocols { bgp { group all { neighbor 192.0.2.9; } } } } }\nprotocols {",
                "",
            ),
            (
                "protocols {",
                "security { apply-groups g; }\ngroups { g { protocols { bgp { group <*> { neighbor 192.0.2.9; } } } } }\nprotocols {",
                "",
            ),
            ("send-id 1;", "send-id +1;", "line 9, column 21, send-id: must be a whole number from 0 to 255"),
            (
                "security {",
                "delete a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a\nsecurity {",
                "",
            ),
        ],
    );
}

#[test]
fn lines_of_sr_os() {
    check(
        Format::SrOs,
        SR_OS,
        &[
            (
                "            begin-time",
                "            begin-time 2026-01-01T00:00:00.0Z\n            begin-time",
                "line 11, column 13, begin-time: is given twice",
            ),
            (
                "            end-time",
                "            end-time 2027-01-01T00:00:00.0Z\n            end-time",
                "line 12, column 13, end-time: is given twice",
            ),
            (
                "            tolerance",
                "            tolerance 10\n            tolerance",
                "line 13, column 13, tolerance: is given twice",
            ),
            (
                "            algorithm",
                "            algorithm aes-128-cmac-96\n            algorithm",
                "line 10, column 13, algorithm: is given twice",
            ),
            (
                "algorithm aes-128-cmac-96",
                "algorithm",
                "line 9, column 13, entry: expected a value after this word",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time \"\"",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027-01-01T00:00:00.0+01000",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027-01-01T00:00:00.0+0100",
                "core/1: 1/1 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z..2026-12-31T23:00:00Z Utc Covered",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027-01-01T00:00:00.0+é0",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027/01/01",
                "core/1: 1/1 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z..2027-01-01T00:00:00Z Local Covered",
            ),
            ("end-time 2027-01-01T00:00:00.0Z", "end-time 2027/01/01 UTC", ""),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time \"2027/01/01 00:00 CET\"",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027/01/01 00:00 UTC UTC",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            ("tolerance 10", "tolerance", "line 12, column 13, entry: expected a value after this word"),
            (
                "tolerance 10",
                "tolerance 4294967295",
                "line 12, column 23, tolerance: must be a whole number from 0 to 4294967294",
            ),
            ("tolerance 10", "tolerance infinite", "4294967295 s @ 192.0.2.1"),
            ("tolerance 10", "admin-state", "line 12, column 13, entry: expected a value after this word"),
            (
                "tolerance 10",
                "admin-state disable",
                "line 7, column 9: chain \"core\": entry 1 is disabled, so its key is left out",
            ),
            ("tolerance 10", "admin-state enable", "150 s @ 192.0.2.1"),
            (
                "tolerance 10",
                "shutdown",
                "line 7, column 9: chain \"core\": entry 1 is disabled, so its key is left out",
            ),
            ("tolerance 10", "no shutdown", "150 s @ 192.0.2.1"),
            ("tolerance 10", "shutdown\nno shutdown", "150 s @ 192.0.2.1"),
            ("tolerance 10", "option basic", "150 s @ 192.0.2.1"),
            ("tolerance 10", "colour red", "150 s @ 192.0.2.1; 12 not understood"),
            ("tolerance 10", "no colour", "150 s @ 192.0.2.1; 12 not understood"),
            ("tolerance 10", "no", "150 s @ 192.0.2.1; 12 not understood"),
            ("tolerance 10", "colour tolerance", "150 s @ 192.0.2.1; 12 not understood"),
            (
                "    bidirectional {",
                "    admin-state disable\n    bidirectional {",
                "line 1, column 45: chain \"core\": it is disabled, so its keys are left out",
            ),
            (
                "    bidirectional {",
                "    shutdown\n    bidirectional {",
                "line 1, column 45: chain \"core\": it is disabled, so its keys are left out",
            ),
            (
                "    bidirectional {",
                "    shutdown\n    no shutdown\n    no description\n    create\n    bidirectional {",
                "",
            ),
            ("    bidirectional {", "    colour red\n    bidirectional {", "6 not understood"),
            ("    bidirectional {", "    colour\n    bidirectional {", "6 not understood"),
            ("    bidirectional {", "    no colour\n    bidirectional {", "6 not understood"),
            ("    bidirectional {", "    colour shutdown\n    bidirectional {", "6 not understood"),
            ("        send tcp-ao\n", "        send tcp-ao\n        both tcp-ao\n", "4 not understood"),
            ("        entry 1 {", "        entry\n        entry 1 {", "line 7, column 9, entry: is missing"),
            (
                "        entry 1 {",
                "        entry 64 {",
                "line 7, column 15, entry: must be a whole number from 0 to 63",
            ),
            (
                "authentication-key \"hunter2\"",
                "authentication-key",
                "line 8, column 13, authentication-key: the secret is missing",
            ),
            ("keychain \"core\" {", "keychain\n keychain \"core\" {", ""),
            ("neighbor \"192.0.2.1\"", "neighbor \"someone\"", "5 s @ ; 19 not understood"),
            ("neighbor \"192.0.2.1\"", "neighbor \"someone-else\"", "5 s @ ; 19 not understood"),
            ("neighbor \"192.0.2.1\"", "neighbor \"fe80::1-to-core\"", "5 s @ fe80::1%to-core"),
            ("router \"Base\"", "router blue", "5 s @ 192.0.2.1 vrf blue"),
            (
                "            authentication-keychain \"core\"",
                "            authentication-keychain \"other\"",
                "5 s @ ; - missing: the keychain of neighbor 192.0.2.1 is not in this file",
            ),
            (
                "        neighbor \"192.0.2.1\" {\n            authentication-keychain \"core\"\n        }",
                "        group \"g\" {\n            authentication-keychain \"core\"\n        }\n        neighbor \"192.0.2.1\" {\n            group \"g\"\n        }\n        neighbor \"192.0.2.2\" {\n            group \"h\"\n        }",
                "",
            ),
            (
                "end-time 2027-01-01T00:00:00.0Z",
                "end-time 2027-01-01T00:00:00.0+1é0",
                "line 11, column 13, end-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
            ),
            (
                "        neighbor \"192.0.2.1\" {\n            authentication-keychain \"core\"\n        }",
                "        authentication-keychain \"core\"\n        neighbor \"192.0.2.1\" {\n        }",
                "",
            ),
            (
                "            authentication-keychain \"core\"\n        }",
                "            authentication-keychain \"y\"\n        }\n        neighbor \"192.0.2.2\" {\n            authentication-keychain \"x\"\n        }",
                "5 s @ ; - missing: the keychain of neighbor 192.0.2.2 is not in this file; - missing: the keychain of neighbor 192.0.2.1 is not in this file",
            ),
            (
                "            authentication-keychain \"core\"",
                "            no authentication-keychain \"core\"",
                "5 s @ ",
            ),
            ("router \"Base\" {\n", "router {\n", ""),
            (
                "configure {",
                "entry 1 authentication-key x\nconfigure {",
                "line 1, column 1, entry: is in no keychain: give the whole keychain, with its braces or its indentation",
            ),
            ("configure {", "entry 1 action accept\nconfigure {", ""),
            ("configure {", "certificate 1 key x\nconfigure {", ""),
            (
                "        entry 1 {",
                "        entry 1 {\n        }\n        shutdown\n        entry 1 {",
                "9 not understood",
            ),
            ("router \"Base\" {", "service {", ""),
            (
                "    bidirectional {\n        entry 1 {",
                "    send {\n        entry 1 {\n            authentication-key \"hunter2\"\n            algorithm aes-128-cmac-96\n            begin-time 2026-01-01T00:00:00.0Z\n        }\n    }\n    receive {\n        entry 1 {\n            authentication-key \"AAAA hash2\"\n            algorithm aes-128-cmac-96\n            begin-time 2026-01-01T00:00:00.0Z\n        }\n    }\n    bidirectional {\n        entry 2 {",
                "core/2: 2/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z..2027-01-01T00:00:00Z Utc Covered; core/1: 1/1 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2025-12-31T23:57:35Z.. Utc Covered; 7 pairing: send entry 1 and receive entry 1 are taken as one key, but their secrets are encrypted and cannot be compared",
            ),
        ],
    );
}

#[test]
fn lines_of_sr_linux() {
    check(
        Format::SrLinux,
        SR_LINUX,
        &[
            (
                "        algorithm",
                "        algorithm aes-128-cmac\n        algorithm",
                "line 6, column 9, key: is given twice",
            ),
            (
                "        authentication-key",
                "        authentication-key hunter2\n        authentication-key",
                "line 7, column 9, key: is given twice",
            ),
            (
                "algorithm aes-128-cmac",
                "algorithm",
                "line 5, column 9, key: expected a value after this word",
            ),
            (
                "algorithm aes-128-cmac",
                "algorithm rot13",
                "line 5, column 19, algorithm: expected hmac-sha-1 or aes-128-cmac",
            ),
            (
                "algorithm aes-128-cmac",
                "algorithm hmac-sha-256",
                "line 1, column 27: chain \"core\": no published model of SR Linux (20.6 to 26.3) accepts an algorithm for a keychain of type tcp-ao, so TCP-AO in SR Linux is not proven; key core/1 is left out: its algorithm is hmac-sha-256, whose KDF Nokia does not document",
            ),
            ("key 1 {", "key 256 {", "line 4, column 9, key: must be a whole number from 0 to 255"),
            ("    type tcp-ao", "    tolerance 0\n    type tcp-ao", ""),
            ("    type tcp-ao", "    tolerance 1\n    type tcp-ao", "3 not understood"),
            (
                "authentication { keychain core",
                "authentication { keychain\nkeychain core",
                "2 refused: no published model of SR Linux (20.6 to 26.3) accepts an algorithm for a keychain of type tcp-ao, so TCP-AO in SR Linux is not proven",
            ),
        ],
    );
}

#[test]
fn lines_of_bird() {
    check(
        Format::Bird,
        BIRD,
        &[
            (
                "authentication ao",
                "authentication none",
                "line 1, column 1: has no key for TCP-AO (read as bird); left out: the keys of a protocol with another authentication than ao",
            ),
            (
                "authentication ao",
                "authentication sometimes",
                "line 3, column 20, authentication: expected none, md5 or ao",
            ),
            ("algorithm cmac aes128;", "algorithm cmac aes128", "line 5, column 77, algorithm: expected ;"),
            (
                "algorithm cmac aes128; };",
                "algorithm cmac aes128 };",
                "line 5, column 77, algorithm: expected ;",
            ),
            ("neighbor 192.0.2.1 as 65000;", "neighbor 192.0.2.1 as 65000; vrf default;", ""),
            ("send id 1;", "send id/* one */1;", ""),
            ("send id 1;", "send id 1/* one */;", ""),
            (
                "algorithm cmac aes128;",
                "algorithm;",
                "line 5, column 64, algorithm: unknown TCP-AO algorithm (supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), HMAC-SHA256-128, KMAC256-128)",
            ),
        ],
    );
}
