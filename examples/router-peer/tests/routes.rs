//! Routes from files.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use ipnet::IpNet;
use router_peer::routes::{self, RoutesError};

fn text(lines: &str) -> Result<std::sync::Arc<[router_peer::bgp::rib::Route]>, RoutesError> {
    routes::text(lines.as_bytes(), Path::new("routes.txt"))
}

#[test]
fn a_list_has_prefixes_next_hops_and_comments() {
    let routes = text("# all\n192.0.2.0/24\n\n2001:db8::/32 2001:db8::1 # via\n0.0.0.0/0\n").unwrap();
    let read: Vec<_> = routes.iter().map(|r| (r.prefix.to_string(), r.attributes.next_hop)).collect();
    let expected = [
        ("192.0.2.0/24".to_owned(), None),
        ("2001:db8::/32".to_owned(), Some("2001:db8::1".parse().unwrap())),
        ("0.0.0.0/0".to_owned(), None),
    ];
    assert_eq!(read, expected);
}

#[test]
fn an_error_names_file_and_line() {
    for (lines, message) in [
        ("192.0.2.0/24\nnonsense", "routes.txt: line 2: `nonsense` is no prefix"),
        ("192.0.2.0/33", "routes.txt: line 1: `192.0.2.0/33` is no prefix"),
        (
            "192.0.2.1/24",
            "routes.txt: line 1: `192.0.2.1/24` has bits beyond its length, 192.0.2.0/24 has not",
        ),
        ("192.0.2.0/24 here", "routes.txt: line 1: `here` is no address"),
        ("192.0.2.0/24 2001:db8::1", "routes.txt: line 1: prefix and next hop are of different families"),
        ("192.0.2.0/24 192.0.2.1 x", "routes.txt: line 1: `x` is one word too many"),
    ] {
        assert_eq!(text(lines).unwrap_err().to_string(), message);
    }
}

/// One MRT record of type TABLE_DUMP_V2 (RFC 6396 section 2).
fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0, 0, 0, 1, 0, 13][..], &subtype.to_be_bytes(), &length, body].concat()
}

/// A RIB record with one entry (RFC 6396 section 4.3.2): `prefix` as in NLRI.
fn rib(subtype: u16, prefix: &[u8], attributes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(attributes.len()).unwrap().to_be_bytes();
    record(subtype, &[&[0, 0, 0, 0][..], prefix, &[0, 1, 0, 0, 0, 0, 0, 1], &length, attributes].concat())
}

fn dump() -> Vec<u8> {
    let peers =
        [&[192, 0, 2, 9, 0, 0, 0, 1][..], &[2, 192, 0, 2, 9, 192, 0, 2, 9, 0, 0, 0xfc, 0x00]].concat();
    let origin = [0x40, 1, 1, 0];
    let path = [0x40, 2, 10, 2, 2, 0, 0, 0xfc, 0, 0, 1, 0, 0];
    let next_hop = [0x40, 3, 4, 192, 0, 2, 9];
    let community = [0xc0, 8, 4, 0xfc, 0, 0, 7];
    let ipv4 = [&origin[..], &path, &next_hop, &community].concat();
    let set = [&origin[..], &[0x40, 2, 6, 1, 1, 0, 0, 0xfc, 0], &next_hop].concat();
    // MP_REACH_NLRI is cut down to the next hop in a dump (RFC 6396 section 4.3.4).
    let reach = [&[0x80, 14, 17, 16, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[9]].concat();
    let ipv6 = [&origin[..], &path, &reach].concat();
    [
        record(1, &peers),
        rib(2, &[24, 198, 51, 100], &ipv4),
        rib(2, &[24, 203, 0, 113], &set),
        rib(4, &[32, 0x20, 1, 0x0d, 0xb8], &ipv6),
    ]
    .concat()
}

#[test]
fn a_dump_has_the_paths_of_both_families() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&dump()).unwrap();
    let routes = routes::load(file.path()).unwrap();
    // The path with an AS_SET is not taken.
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[0].prefix.to_string(), "198.51.100.0/24");
    assert_eq!(routes[1].prefix.to_string(), "2001:db8::/32");
    assert_eq!(routes[0].attributes.communities[..], [0xfc00_0007]);
    for route in routes.iter() {
        assert_eq!(route.attributes.as_path[..], [64512, 65536]);
        assert_eq!(route.attributes.next_hop, None);
    }
}

#[test]
fn a_dump_that_is_cut_off_or_compressed_is_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let dump = dump();
    file.write_all(&dump[..dump.len() - 3]).unwrap();
    let error = routes::load(file.path()).unwrap_err();
    assert!(matches!(error, RoutesError::Record { record: 4, .. }), "{error}");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[0x1f, 0x8b, 8, 0]).unwrap();
    assert!(matches!(routes::load(file.path()), Err(RoutesError::Compressed { .. })));
}

#[test]
fn generated_routes_are_unicast_distinct_and_repeatable() {
    let routes = routes::generate(100_000);
    let prefixes: HashSet<IpNet> = routes.iter().map(|route| route.prefix).collect();
    assert_eq!(prefixes.len(), 100_000);
    assert!(prefixes.iter().all(|prefix| *prefix == prefix.trunc() && !prefix.addr().is_multicast()));
    assert_eq!(routes, routes::generate(100_000));
    assert!(routes.iter().any(|route| route.attributes.as_path.iter().any(|&asn| asn > 65_535)));
}
