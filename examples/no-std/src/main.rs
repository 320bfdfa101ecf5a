//! A program without std and without a heap: it verifies a segment of RFC 9235 and signs an answer, opens and seals the QUIC
//! packets of RFC 9001 across a Retry and a key update, and opens and seals a message with AES-GCM. It exits with 0 if everything is as
//! published.
//!
//! `wireseal-algorithms`, `-mac`, `-aead`, `-tcp-ao` and `-quic` are linked into it. It has its own panic handler, so a dependency that
//! pulls in std, and with it a second one, breaks the build. The C library is linked only for its start code and `memcpy`.
#![no_std]
#![no_main]

mod quic;

use core::panic::PanicInfo;

use wireseal_aead::{AeadAlgorithm, AeadInOut, AeadKey, Aes128Gcm, KeyInit};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::digest::Mac;
use wireseal_mac::{HmacSha256, MacKey};
use wireseal_tcp_ao::{Connection, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair};

/// RFC 9235 §4.1.1: the SYN of a BGP session, signed with HMAC-SHA-1-96 under the master key "testvector".
const SYN: [u8; 76] = [
    0x45, 0xe0, 0x00, 0x4c, 0xdd, 0x0f, 0x40, 0x00, 0xff, 0x06, 0xbf, 0x6b, 0x0a, 0x0b, 0x0c, 0x0d, 0xac,
    0x1b, 0x1c, 0x1d, 0xe9, 0xd7, 0x00, 0xb3, 0xfb, 0xfb, 0xab, 0x5a, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x02,
    0xff, 0xff, 0xca, 0xc4, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x01, 0x03, 0x03, 0x08, 0x04, 0x02, 0x08,
    0x0a, 0x00, 0x15, 0x5a, 0xb7, 0x00, 0x00, 0x00, 0x00, 0x1d, 0x10, 0x3d, 0x54, 0x2e, 0xe4, 0x37, 0xc6,
    0xf8, 0xed, 0xe6, 0xd7, 0xc4, 0xd6, 0x02, 0xe7,
];

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

// C's start code calls a symbol of this name; nothing here is unsafe.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    match (answer(), quic::exchange(), message()) {
        (Some(()), Some(()), Some(())) => 0,
        (None, ..) => 1,
        (_, None, _) => 2,
        (.., None) => 3,
    }
}

/// Test case 2 of GCM's authors ("The Galois/Counter Mode of Operation", appendix B), by the crate's own calls and by the traits of `aead`.
fn message() -> Option<()> {
    let sealed = 0x0388_dace_60b6_a392_f328_c2b9_71b2_fe78_u128;
    let tag = 0xab6e_47d4_2cec_13bd_f53a_67b2_1257_bddf_u128;

    let mut message = [0; 32];
    AeadKey::new(AeadAlgorithm::Aes128Gcm, &[0; 16]).ok()?.seal(&[0; 12], b"", &mut message).ok()?;
    (message[..16] == sealed.to_be_bytes() && message[16..] == tag.to_be_bytes()).then_some(())?;

    let cipher = Aes128Gcm::new(&[0; 16].into());
    let mut text = sealed.to_be_bytes();
    let tag = tag.to_be_bytes().into();
    cipher.decrypt_inout_detached(&[0; 12].into(), b"", text.as_mut_slice().into(), &tag).ok()?;
    (text == [0; 16]).then_some(())
}

/// Verifies the SYN as a listener and answers it; the peer verifies the answer.
fn answer() -> Option<()> {
    // RFC 4231 test case 2, to link the MACs directly too, and by RustCrypto's traits.
    let mac = MacKey::hmac_sha256(b"Jefe").mac(&[b"what do ya want ", b"for nothing?"]);
    (mac.truncated(4) == [0x5b, 0xdc, 0xc1, 0x46]).then_some(())?;
    let in_parts = HmacSha256::new_from_slice(b"Jefe").ok()?.chain_update(b"what do ya want ");
    in_parts.chain_update(b"for nothing?").verify_slice(mac.as_bytes()).ok()?;

    let mkt = |send, receive| {
        let master_key = MasterKey::new(b"testvector").ok()?;
        Mkt::new(KeyId(send), KeyId(receive), TcpAoAlgorithm::HmacSha1, master_key).ok()
    };
    let listener = MktSet::<2>::from_mkts([mkt(0x54, 0x3d)?]).ok()?;
    let segment = Segment::parse(&SYN).ok()?;
    let syn = listener.verify_syn(segment).ok()?;
    let mut passive = Connection::passive(&syn);

    // A SYN-ACK: 20 octets of header, then the option.
    let mut tcp = [0; 60];
    tcp[0..2].copy_from_slice(&179_u16.to_be_bytes());
    tcp[2..4].copy_from_slice(&0xe9d7_u16.to_be_bytes());
    tcp[4..8].copy_from_slice(&0x11c1_4261_u32.to_be_bytes());
    tcp[8..12].copy_from_slice(&0xfbfb_ab5b_u32.to_be_bytes());
    let options = passive.append_ao(&mut tcp[20..], 0).ok()?;
    tcp[12] = ((20 + options) as u8 / 4) << 4;
    tcp[13] = 0x12;
    let answer = &mut tcp[..20 + options];
    passive.sign(answer).ok()?;

    let client = MktSet::<2>::from_mkts([mkt(0x3d, 0x54)?]).ok()?;
    let pair = SocketPair { local: segment.source(), remote: segment.destination() };
    let mut active = Connection::active(pair, wireseal_tcp_ao::Isn(0xfbfb_ab5a), &client).ok()?;
    let answer = Segment::from_tcp(pair.remote.address(), pair.local.address(), answer).ok()?;
    active.verify(&answer).ok()?;
    active.is_established().then_some(())
}
