//! The kernel's messages with queued packets (nfnetlink_queue) agree with a slow reader.
//!
//! Input: a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_agent::fuzzing::queue_message;
use wireseal_fuzz::netlink::{attributes, messages, u32_at};

const NLMSG_ERROR: u16 = 2;
/// NFNL_SUBSYS_QUEUE and NFQNL_MSG_PACKET.
const PACKET: u16 = 3 << 8;
const NFQA_PACKET_HDR: u16 = 1;
const NFQA_MARK: u16 = 3;
const NFQA_IFINDEX_INDEV: u16 = 5;
const NFQA_IFINDEX_OUTDEV: u16 = 6;
const NFQA_PAYLOAD: u16 = 10;
const NFQA_CAP_LEN: u16 = 13;

fuzz_target!(|message: &[u8]| {
    let (packet, result) = queue_message(message);
    let (all, _) = messages(message);
    let Some(first) = all.first() else { return assert!(packet.is_none() && result.is_none()) };
    if let Some(result) = result {
        assert!(packet.is_none() && first.kind == NLMSG_ERROR);
        let code = u32_at(first.payload, 0).expect("a number").cast_signed();
        assert_eq!(
            result.err().map(|error| error.raw_os_error()),
            (code != 0).then(|| Some(code.saturating_neg()))
        );
    }
    let Some(([queue, id, hook, from_device, to_device, mark], octets)) = packet else { return };
    assert_eq!(first.kind, PACKET);
    assert_eq!(queue, u32::from(first.payload[2]) << 8 | u32::from(first.payload[3]));
    let all = attributes(&first.payload[4..]);
    let last = |kind| all.iter().rev().find(|(other, _)| *other == kind).map(|(_, value)| *value);
    let number = |value: &[u8]| u32::from_be_bytes(*value.first_chunk().expect("four octets"));
    let header = last(NFQA_PACKET_HDR).expect("it names the packet");
    assert_eq!((id, hook), (number(header), u32::from(header[6])));
    for (kind, found) in
        [(NFQA_IFINDEX_INDEV, from_device), (NFQA_IFINDEX_OUTDEV, to_device), (NFQA_MARK, mark)]
    {
        assert_eq!(found, last(kind).map_or(0, number));
    }
    // A packet that was cut off is refused by the shim, as an empty one.
    let expected = if last(NFQA_CAP_LEN).is_some() { &[] } else { last(NFQA_PAYLOAD).expect("its octets") };
    assert_eq!(octets, expected);
});
