//! Which lines of IOS XE belong to what is above them, and which secrets a line gives.

use wireseal_keys::Format;

use crate::vendor_lines::{IOS_XE, check};

/// The same configuration without indentation.
fn flat() -> String {
    IOS_XE.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

#[test]
fn a_mode_ends_where_another_begins() {
    let flat = flat();
    check(
        Format::IosXe,
        &flat,
        &[
            ("router bgp", "send-id 9\nrouter bgp", "line 10, column 1, send-id: is given twice"),
            ("router bgp", "router isis\nsend-id 9\nrouter bgp", "11 not understood"),
            ("router bgp", "end\nsend-id 9\nrouter bgp", "11 not understood"),
            ("router bgp", "ip route ao\nrouter bgp", ""),
            ("key chain", "ip route ao\nkey chain", ""),
            ("key chain", "alias exec --\nkey chain", ""),
            ("key chain", "neighbor 192.0.2.9 remote-as 1\nkey chain", ""),
            ("key 1\n", "key 1 2\nkey 1\n", "2 not understood"),
            (
                "neighbor",
                "address-family ipv4 vrf red\nneighbor 192.0.2.9 ao core include-tcp-options\nexit-address-family\nneighbor",
                "0 s @ 192.0.2.9 vrf red 192.0.2.1",
            ),
            (
                "neighbor",
                "address-family ipv4 vrf red\nneighbor 192.0.2.9 ao core include-tcp-options\naddress-family ipv4\nneighbor",
                "0 s @ 192.0.2.9 vrf red 192.0.2.1",
            ),
        ],
    );
}

#[test]
fn a_no_takes_back_only_what_it_names() {
    check(
        Format::IosXe,
        IOS_XE,
        &[
            (" neighbor", " no bgp default\n neighbor", ""),
            (" neighbor", " activate neighbor 192.0.2.9\n neighbor", ""),
            (" neighbor", " no neighbor 192.0.2.9\n neighbor", "11 not understood"),
            ("  send-id", "  no include-tcp-options\n  send-id", ""),
            ("  send-id", "  no accept-ao-mismatch\n  send-id", ""),
            ("  send-id", "  no key-string\n  send-id", "3 not understood"),
            ("  send-id", "  mode include-tcp-options\n  send-id", "3 not understood"),
        ],
    );
}

#[test]
fn a_secret_is_the_rest_of_its_line_after_a_type() {
    let shown = |secret: &str| {
        format!(
            "core/1: 1/2 AES-128-CMAC-96 {secret} send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z.. Utc Covered"
        )
    };
    let secrets = ["12 hunter2", "x hunter2", "12", "x"];
    for secret in secrets {
        check(Format::IosXe, IOS_XE, &[("0 hunter2", secret, &shown(secret))]);
    }
    check(
        Format::IosXe,
        IOS_XE,
        &[("0 hunter2", "8 hunter2", "line 6, column 14, key-string: expected 0, 6 or 7, and the secret")],
    );
}
