use core::mem::offset_of;

use super::*;

/// A field of `linux/tcp.h` as C declares it: its name, the size of its type, and how many of them.
type Field = (&'static str, usize, usize);

/// Offsets and size by C's rules: each field at the next multiple of its type's size, here also its alignment.
fn c_layout(fields: &[Field], align: usize) -> (Vec<(&'static str, usize)>, usize) {
    let mut end = 0usize;
    let mut offsets = Vec::new();
    for (name, size, count) in fields {
        end = end.next_multiple_of(*size);
        offsets.push((*name, end));
        end += size * count;
    }
    (offsets, end.next_multiple_of(align))
}

macro_rules! assert_c_layout {
    ($struct:ident, $size:literal, $align:literal, $(($field:ident, $type:literal, $count:literal)),+ $(,)?) => {
        let fields = [$((stringify!($field), $type, $count)),+];
        let (offsets, size) = c_layout(&fields, $align);
        assert_eq!(size, $size, "{} by C's rules", stringify!($struct));
        assert_eq!(size_of::<$struct>(), $size, "{}", stringify!($struct));
        assert_eq!(vec![$((stringify!($field), offset_of!($struct, $field))),+], offsets, "{}", stringify!($struct));
    };
}

#[test]
fn ao_39_structs_are_laid_out_as_c_does() {
    assert_c_layout!(
        Add,
        288,
        8,
        (addr, 1, 128),
        (alg_name, 1, 64),
        (ifindex, 4, 1),
        (bits, 4, 1),
        (reserved2, 2, 1),
        (prefix, 1, 1),
        (sndid, 1, 1),
        (rcvid, 1, 1),
        (maclen, 1, 1),
        (keyflags, 1, 1),
        (keylen, 1, 1),
        (key, 1, 80),
    );
    assert_c_layout!(
        Del,
        144,
        8,
        (addr, 1, 128),
        (ifindex, 4, 1),
        (bits, 4, 1),
        (reserved2, 2, 1),
        (prefix, 1, 1),
        (sndid, 1, 1),
        (rcvid, 1, 1),
        (current_key, 1, 1),
        (rnext, 1, 1),
        (keyflags, 1, 1),
    );
    assert_c_layout!(
        InfoOpt,
        48,
        8,
        (bits, 4, 1),
        (reserved2, 2, 1),
        (current_key, 1, 1),
        (rnext, 1, 1),
        (pkt_good, 8, 1),
        (pkt_bad, 8, 1),
        (pkt_key_not_found, 8, 1),
        (pkt_ao_required, 8, 1),
        (pkt_dropped_icmp, 8, 1),
    );
    assert_c_layout!(
        GetKeys,
        304,
        8,
        (addr, 1, 128),
        (alg_name, 1, 64),
        (key, 1, 80),
        (nkeys, 4, 1),
        (bits, 2, 1),
        (sndid, 1, 1),
        (rcvid, 1, 1),
        (prefix, 1, 1),
        (maclen, 1, 1),
        (keyflags, 1, 1),
        (keylen, 1, 1),
        (ifindex, 4, 1),
        (pkt_good, 8, 1),
        (pkt_bad, 8, 1),
    );
    assert_c_layout!(AoRepair, 16, 8, (snt_isn, 1, 4), (rcv_isn, 1, 4), (snd_sne, 4, 1), (rcv_sne, 4, 1));
    assert_c_layout!(
        Md5Sig,
        216,
        8,
        (addr, 1, 128),
        (flags, 1, 1),
        (prefixlen, 1, 1),
        (keylen, 2, 1),
        (ifindex, 4, 1),
        (key, 1, 80),
    );
}

/// A word of bit fields as C fills it: from the low end on little-endian machines, from the high end on big-endian ones.
fn c_bit_fields(widths: &[(&'static str, u32)], width: u32, big_endian: bool) -> Vec<(&'static str, u32)> {
    let mut before = 0;
    let mut masks = Vec::new();
    for (name, bits) in widths {
        let ones = ((1u64 << bits) - 1) as u32;
        let shift = if big_endian { width - before - bits } else { before };
        masks.push((*name, ones << shift));
        before += bits;
    }
    assert_eq!(before, width);
    masks
}

#[test]
fn ao_39_bit_fields_are_placed_for_both_endians() {
    let info = [
        ("set_current", 1),
        ("set_rnext", 1),
        ("ao_required", 1),
        ("set_counters", 1),
        ("accept_icmps", 1),
        ("reserved", 27),
    ];
    let get_keys = [("is_current", 1), ("is_rnext", 1), ("get_all", 1), ("reserved", 13)];
    for (fields, width) in [(&info[..], 32), (&get_keys[..], 16)] {
        for big_endian in [false, true] {
            let expected = c_bit_fields(fields, width, big_endian);
            for (index, (name, mask)) in expected.iter().enumerate().take(fields.len() - 1) {
                assert_eq!(bit(index as u32, width, big_endian), *mask, "{name}, big-endian: {big_endian}");
            }
        }
    }
}

#[test]
fn ao_39_each_flag_is_the_field_of_its_name() {
    let here = cfg!(target_endian = "big");
    let info = c_bit_fields(
        &[("current", 1), ("rnext", 1), ("required", 1), ("counters", 1), ("icmps", 1), ("reserved", 27)],
        32,
        here,
    );
    let flags = [
        InfoOpt::SET_CURRENT,
        InfoOpt::SET_RNEXT,
        InfoOpt::AO_REQUIRED,
        InfoOpt::SET_COUNTERS,
        InfoOpt::ACCEPT_ICMPS,
    ];
    assert!(info.iter().zip(flags).all(|((_, mask), flag)| *mask == flag));
    assert_eq!((Add::SET_CURRENT, Add::SET_RNEXT), (flags[0], flags[1]));
    assert_eq!((Del::SET_CURRENT, Del::SET_RNEXT), (flags[0], flags[1]));
    let keys = c_bit_fields(&[("current", 1), ("rnext", 1), ("all", 1), ("reserved", 13)], 16, here);
    let flags = [GetKeys::IS_CURRENT, GetKeys::IS_RNEXT, GetKeys::GET_ALL];
    assert!(keys.iter().zip(flags).all(|((_, mask), flag)| *mask == u32::from(flag)));
}

#[test]
fn window_scales_are_two_bit_fields_of_one_octet() {
    for big_endian in [false, true] {
        let masks = c_bit_fields(&[("send", 4), ("receive", 4)], 8, big_endian);
        let octet = |send: u32, receive: u32| {
            let place = |value: u32, mask: u32| value << mask.trailing_zeros();
            (place(send, masks[0].1) | place(receive, masks[1].1)) as u8
        };
        assert_eq!(TcpInfo::scales(octet(7, 11), big_endian), (7, 11));
    }
}

#[test]
fn ao_36_structs_with_secrets_are_wiped_on_drop() {
    const fn is_wiped<T: ZeroizeOnDrop>() {}
    is_wiped::<Add>();
    is_wiped::<GetKeys>();
    is_wiped::<Md5Sig>();
    let mut add = Add::ZERO;
    add.key = [0x5a; 80];
    add.zeroize();
    assert_eq!(add.key, [0; 80]);
}
