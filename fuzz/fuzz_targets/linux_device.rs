//! The kernel's answers about a network device (rtnetlink) agree with a slow reader.
//!
//! Input: the answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::netlink::{attributes, u16_at, u32_at};
use wireseal_linux::device_of_answer;

const NLMSG_ERROR: u16 = 2;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;

fuzz_target!(|answer: &[u8]| {
    let result = device_of_answer(answer);
    if u16_at(answer, 4) == Some(NLMSG_ERROR) {
        let error = result.expect_err("the kernel says so");
        // Without a number the answer is cut off.
        let errno = u32_at(answer, 16).map(|errno| errno.cast_signed().saturating_neg());
        assert_eq!(error.raw_os_error(), errno);
        return;
    }
    let (Some(own), Some(rest)) = (u32_at(answer, 20), answer.get(32..)) else {
        return assert!(result.is_err(), "the headers are cut off");
    };
    let first = |octets, kind| {
        attributes(octets).into_iter().find(|(other, _)| *other == kind).map(|(_, value)| value)
    };
    let described = first(rest, IFLA_LINKINFO).unwrap_or_default();
    let is_vrf = |kind| first(described, kind).is_some_and(|text| text.starts_with(b"vrf\0"));
    match result {
        Ok((index, vrf)) => {
            assert_eq!(index, own);
            let expected = if is_vrf(IFLA_INFO_KIND) {
                own
            } else if is_vrf(IFLA_INFO_SLAVE_KIND) {
                first(rest, IFLA_MASTER).and_then(|master| u32_at(master, 0)).expect("a number")
            } else {
                0
            };
            assert_eq!(vrf, expected);
        }
        Err(_) => {
            let master = first(rest, IFLA_MASTER).is_some_and(|master| master.len() == 4);
            assert!(!is_vrf(IFLA_INFO_KIND) && is_vrf(IFLA_INFO_SLAVE_KIND) && !master);
        }
    }
});
