//! The kernel's structs as `linux/tcp.h` lays them out, sizes and offsets checked at compile time.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of a struct's `sockaddr_storage`.
pub(crate) const ADDRESS_LENGTH: usize = 128;

/// `TCP_AO_KEYF_IFINDEX`
pub(crate) const KEYF_IFINDEX: u8 = 1 << 0;
/// `TCP_AO_KEYF_EXCLUDE_OPT`
pub(crate) const KEYF_EXCLUDE_OPT: u8 = 1 << 1;
/// `TCP_MD5SIG_FLAG_PREFIX`
pub(crate) const MD5_FLAG_PREFIX: u8 = 1 << 0;
/// `TCP_MD5SIG_FLAG_IFINDEX`
pub(crate) const MD5_FLAG_IFINDEX: u8 = 1 << 1;

/// Where C puts the bit field of one bit that has `index` bits declared before it, in a word of `width` bits: from the low
/// end on little-endian machines, from the high end on big-endian ones.
pub(crate) const fn bit(index: u32, width: u32, big_endian: bool) -> u32 {
    if big_endian { 1 << (width - 1 - index) } else { 1 << index }
}

const BIG_ENDIAN: bool = cfg!(target_endian = "big");

/// `struct tcp_ao_add`, for `TCP_AO_ADD_KEY`
#[repr(C, align(8))]
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Add {
    pub(crate) addr: [u8; ADDRESS_LENGTH],
    pub(crate) alg_name: [u8; 64],
    pub(crate) ifindex: u32,
    pub(crate) bits: u32,
    pub(crate) reserved2: u16,
    pub(crate) prefix: u8,
    pub(crate) sndid: u8,
    pub(crate) rcvid: u8,
    pub(crate) maclen: u8,
    pub(crate) keyflags: u8,
    pub(crate) keylen: u8,
    pub(crate) key: [u8; 80],
}

impl Add {
    pub(crate) const SET_CURRENT: u32 = bit(0, 32, BIG_ENDIAN);
    pub(crate) const SET_RNEXT: u32 = bit(1, 32, BIG_ENDIAN);

    pub(crate) const ZERO: Self = Self {
        addr: [0; ADDRESS_LENGTH],
        alg_name: [0; 64],
        ifindex: 0,
        bits: 0,
        reserved2: 0,
        prefix: 0,
        sndid: 0,
        rcvid: 0,
        maclen: 0,
        keyflags: 0,
        keylen: 0,
        key: [0; 80],
    };
}

/// `struct tcp_ao_del`, for `TCP_AO_DEL_KEY`
#[repr(C, align(8))]
pub(crate) struct Del {
    pub(crate) addr: [u8; ADDRESS_LENGTH],
    pub(crate) ifindex: u32,
    pub(crate) bits: u32,
    pub(crate) reserved2: u16,
    pub(crate) prefix: u8,
    pub(crate) sndid: u8,
    pub(crate) rcvid: u8,
    pub(crate) current_key: u8,
    pub(crate) rnext: u8,
    pub(crate) keyflags: u8,
}

impl Del {
    pub(crate) const SET_CURRENT: u32 = bit(0, 32, BIG_ENDIAN);
    pub(crate) const SET_RNEXT: u32 = bit(1, 32, BIG_ENDIAN);
    /// On a listening socket only: deletes a key that was made current or rnext key before it listened, too.
    pub(crate) const DEL_ASYNC: u32 = bit(2, 32, BIG_ENDIAN);
}

/// `struct tcp_ao_info_opt`, for `TCP_AO_INFO`
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InfoOpt {
    pub(crate) bits: u32,
    pub(crate) reserved2: u16,
    pub(crate) current_key: u8,
    pub(crate) rnext: u8,
    pub(crate) pkt_good: u64,
    pub(crate) pkt_bad: u64,
    pub(crate) pkt_key_not_found: u64,
    pub(crate) pkt_ao_required: u64,
    pub(crate) pkt_dropped_icmp: u64,
}

impl InfoOpt {
    pub(crate) const SET_CURRENT: u32 = bit(0, 32, BIG_ENDIAN);
    pub(crate) const SET_RNEXT: u32 = bit(1, 32, BIG_ENDIAN);
    pub(crate) const AO_REQUIRED: u32 = bit(2, 32, BIG_ENDIAN);
    pub(crate) const SET_COUNTERS: u32 = bit(3, 32, BIG_ENDIAN);
    pub(crate) const ACCEPT_ICMPS: u32 = bit(4, 32, BIG_ENDIAN);

    pub(crate) const ZERO: Self = Self {
        bits: 0,
        reserved2: 0,
        current_key: 0,
        rnext: 0,
        pkt_good: 0,
        pkt_bad: 0,
        pkt_key_not_found: 0,
        pkt_ao_required: 0,
        pkt_dropped_icmp: 0,
    };
}

/// `struct tcp_ao_getsockopt`, for `TCP_AO_GET_KEYS`
#[repr(C, align(8))]
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct GetKeys {
    pub(crate) addr: [u8; ADDRESS_LENGTH],
    pub(crate) alg_name: [u8; 64],
    pub(crate) key: [u8; 80],
    pub(crate) nkeys: u32,
    pub(crate) bits: u16,
    pub(crate) sndid: u8,
    pub(crate) rcvid: u8,
    pub(crate) prefix: u8,
    pub(crate) maclen: u8,
    pub(crate) keyflags: u8,
    pub(crate) keylen: u8,
    pub(crate) ifindex: u32,
    pub(crate) pkt_good: u64,
    pub(crate) pkt_bad: u64,
}

impl GetKeys {
    pub(crate) const IS_CURRENT: u16 = bit(0, 16, BIG_ENDIAN) as u16;
    pub(crate) const IS_RNEXT: u16 = bit(1, 16, BIG_ENDIAN) as u16;
    pub(crate) const GET_ALL: u16 = bit(2, 16, BIG_ENDIAN) as u16;

    pub(crate) const ZERO: Self = Self {
        addr: [0; ADDRESS_LENGTH],
        alg_name: [0; 64],
        key: [0; 80],
        nkeys: 0,
        bits: 0,
        sndid: 0,
        rcvid: 0,
        prefix: 0,
        maclen: 0,
        keyflags: 0,
        keylen: 0,
        ifindex: 0,
        pkt_good: 0,
        pkt_bad: 0,
    };
}

/// `struct tcp_ao_repair`, for `TCP_AO_REPAIR`; the ISNs are in network byte order
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AoRepair {
    pub(crate) snt_isn: [u8; 4],
    pub(crate) rcv_isn: [u8; 4],
    pub(crate) snd_sne: u32,
    pub(crate) rcv_sne: u32,
}

impl AoRepair {
    pub(crate) const ZERO: Self = Self { snt_isn: [0; 4], rcv_isn: [0; 4], snd_sne: 0, rcv_sne: 0 };
}

/// `struct tcp_md5sig`, for `TCP_MD5SIG_EXT`
#[repr(C, align(8))]
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Md5Sig {
    pub(crate) addr: [u8; ADDRESS_LENGTH],
    pub(crate) flags: u8,
    pub(crate) prefixlen: u8,
    pub(crate) keylen: u16,
    pub(crate) ifindex: u32,
    pub(crate) key: [u8; 80],
}

/// `struct tcp_repair_window`, for `TCP_REPAIR_WINDOW`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RepairWindow {
    pub(crate) snd_wl1: u32,
    pub(crate) snd_wnd: u32,
    pub(crate) max_window: u32,
    pub(crate) rcv_wnd: u32,
    pub(crate) rcv_wup: u32,
}

/// `struct tcp_repair_opt`, for `TCP_REPAIR_OPTIONS`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RepairOption {
    pub(crate) code: u32,
    pub(crate) value: u32,
}

/// The start of `struct tcp_info`, for `TCP_INFO`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TcpInfo {
    pub(crate) state: u8,
    pub(crate) ca_state: u8,
    pub(crate) retransmits: u8,
    pub(crate) probes: u8,
    pub(crate) backoff: u8,
    pub(crate) options: u8,
    pub(crate) window_scales: u8,
    pub(crate) flags: u8,
}

impl TcpInfo {
    pub(crate) const ESTABLISHED: u8 = 1;
    pub(crate) const TIMESTAMPS: u8 = 1;
    pub(crate) const SACK: u8 = 2;
    pub(crate) const WINDOW_SCALE: u8 = 4;

    /// The shifts of the windows that the peer and this end announce: two bit fields of four bits.
    pub(crate) const fn scales(window_scales: u8, big_endian: bool) -> (u8, u8) {
        let (low, high) = (window_scales & 0xf, window_scales >> 4);
        if big_endian { (high, low) } else { (low, high) }
    }

    pub(crate) const fn window_scales(&self) -> (u8, u8) {
        Self::scales(self.window_scales, BIG_ENDIAN)
    }
}

macro_rules! assert_layout {
    ($struct:ident, $size:literal, align $align:literal, $($field:ident @ $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$struct>() == $size, "size");
            assert!(align_of::<$struct>() == $align, "alignment");
            $(assert!(core::mem::offset_of!($struct, $field) == $offset, stringify!($field));)+
        };
    };
}

assert_layout!(Add, 288, align 8, addr @ 0, alg_name @ 128, ifindex @ 192, bits @ 196, reserved2 @ 200, prefix @ 202,
    sndid @ 203, rcvid @ 204, maclen @ 205, keyflags @ 206, keylen @ 207, key @ 208);
assert_layout!(Del, 144, align 8, addr @ 0, ifindex @ 128, bits @ 132, reserved2 @ 136, prefix @ 138, sndid @ 139,
    rcvid @ 140, current_key @ 141, rnext @ 142, keyflags @ 143);
assert_layout!(InfoOpt, 48, align 8, bits @ 0, reserved2 @ 4, current_key @ 6, rnext @ 7, pkt_good @ 8, pkt_bad @ 16,
    pkt_key_not_found @ 24, pkt_ao_required @ 32, pkt_dropped_icmp @ 40);
assert_layout!(GetKeys, 304, align 8, addr @ 0, alg_name @ 128, key @ 192, nkeys @ 272, bits @ 276, sndid @ 278,
    rcvid @ 279, prefix @ 280, maclen @ 281, keyflags @ 282, keylen @ 283, ifindex @ 284, pkt_good @ 288,
    pkt_bad @ 296);
assert_layout!(AoRepair, 16, align 8, snt_isn @ 0, rcv_isn @ 4, snd_sne @ 8, rcv_sne @ 12);
assert_layout!(Md5Sig, 216, align 8, addr @ 0, flags @ 128, prefixlen @ 129, keylen @ 130, ifindex @ 132, key @ 136);
assert_layout!(RepairWindow, 20, align 4, snd_wl1 @ 0, snd_wnd @ 4, max_window @ 8, rcv_wnd @ 12, rcv_wup @ 16);
assert_layout!(RepairOption, 8, align 4, code @ 0, value @ 4);
assert_layout!(TcpInfo, 8, align 1, state @ 0, options @ 5, window_scales @ 6);

// What compilers for either kind of machine make of the header's bit fields.
const _: () = {
    assert!(bit(0, 32, false) == 0x0000_0001 && bit(0, 32, true) == 0x8000_0000);
    assert!(bit(4, 32, false) == 0x0000_0010 && bit(4, 32, true) == 0x0800_0000);
    assert!(bit(2, 16, false) == 0x0004 && bit(2, 16, true) == 0x2000);
};

#[cfg(test)]
mod tests;
