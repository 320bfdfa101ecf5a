//! What the benches share: the same MAC by several libraries, and a connection to sign and verify with.
//!
//! Every contender is a closure over a key that was set up once, so that the benches time what a packet costs. Before
//! anything is timed, [`contenders`] compares their outputs.

pub mod quic;

use cmac::Cmac;
use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::Sha256;
use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm};
use wireseal_mac::{MacKey, OutputLength};
use wireseal_tcp_ao::{
    Connection, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair, append_ao,
};

/// Computes a MAC and gives its first octets, which keeps the computation from being left out.
pub type Contender = Box<dyn Fn(&[&[u8]]) -> [u8; 12]>;

fn start(mac: &[u8]) -> [u8; 12] {
    let mut octets = [0; 12];
    octets.copy_from_slice(&mac[..12]);
    octets
}

/// Wireseal and the other libraries that have the algorithm, each with the same key.
///
/// # Panics
/// When two of them differ on any length from 0 to 300 octets, whole or in two slices.
#[must_use]
pub fn contenders(algorithm: MacAlgorithm) -> Vec<(&'static str, Contender)> {
    let key: Vec<u8> = (0..algorithm.output_length() as u8).collect();
    let contenders = match algorithm {
        MacAlgorithm::HmacSha1 => hmac_sha1(&key),
        MacAlgorithm::HmacSha256 => hmac_sha256(&key),
        MacAlgorithm::Aes128Cmac => aes_128_cmac(&key),
        MacAlgorithm::Kmac256 => kmac256(&key),
    };
    let message: Vec<u8> = (0..300_usize).map(|i| (i * 31) as u8).collect();
    for length in 0..=message.len() {
        let (head, tail) = message[..length].split_at(length / 3);
        let expected = contenders[0].1(&[head, tail]);
        for (name, contender) in &contenders {
            assert_eq!(contender(&[head, tail]), expected, "{name} differs at {length} octets");
            assert_eq!(contender(&[&message[..length]]), expected, "{name} differs at {length} octets");
        }
    }
    contenders
}

/// A prepared RustCrypto MAC, cloned for each message: what its users do.
fn rust_crypto<M: hmac::Mac + Clone + 'static>(prepared: M) -> Contender {
    Box::new(move |message| {
        let mut mac = prepared.clone();
        message.iter().for_each(|part| mac.update(part));
        start(&mac.finalize().into_bytes())
    })
}

fn wireseal(key: MacKey) -> Contender {
    Box::new(move |message| start(key.mac(message).as_bytes()))
}

fn ring(algorithm: ring::hmac::Algorithm, key: &[u8]) -> Contender {
    let key = ring::hmac::Key::new(algorithm, key);
    Box::new(move |message| {
        let mut context = ring::hmac::Context::with_key(&key);
        message.iter().for_each(|part| context.update(part));
        start(context.sign().as_ref())
    })
}

fn aws_lc(algorithm: aws_lc_rs::hmac::Algorithm, key: &[u8]) -> Contender {
    let key = aws_lc_rs::hmac::Key::new(algorithm, key);
    Box::new(move |message| {
        let mut context = aws_lc_rs::hmac::Context::with_key(&key);
        message.iter().for_each(|part| context.update(part));
        start(context.sign().as_ref())
    })
}

fn hmac_sha1(key: &[u8]) -> Vec<(&'static str, Contender)> {
    vec![
        ("wireseal", wireseal(MacKey::hmac_sha1(key))),
        ("rustcrypto", rust_crypto(Hmac::<Sha1>::new_from_slice(key).expect("any length will do"))),
        ("ring", ring(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key)),
        ("aws-lc-rs", aws_lc(aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key)),
    ]
}

fn hmac_sha256(key: &[u8]) -> Vec<(&'static str, Contender)> {
    vec![
        ("wireseal", wireseal(MacKey::hmac_sha256(key))),
        ("rustcrypto", rust_crypto(Hmac::<Sha256>::new_from_slice(key).expect("any length will do"))),
        ("ring", ring(ring::hmac::HMAC_SHA256, key)),
        ("aws-lc-rs", aws_lc(aws_lc_rs::hmac::HMAC_SHA256, key)),
    ]
}

fn aes_128_cmac(key: &[u8]) -> Vec<(&'static str, Contender)> {
    let key: &[u8; 16] = key.try_into().expect("16 octets");
    let aws_lc = aws_lc_rs::cmac::Key::new(aws_lc_rs::cmac::AES_128, key).expect("16 octets");
    let aws_lc: Contender = Box::new(move |message| {
        let mut context = aws_lc_rs::cmac::Context::with_key(&aws_lc);
        message.iter().for_each(|part| context.update(part).expect("cannot fail"));
        start(context.sign().expect("cannot fail").as_ref())
    });
    vec![
        ("wireseal", wireseal(MacKey::aes_128_cmac(key))),
        ("rustcrypto", rust_crypto(<Cmac<aes::Aes128> as KeyInit>::new(key.into()))),
        ("aws-lc-rs", aws_lc),
    ]
}

/// No other library that is kept has KMAC; RustCrypto's cSHAKE256 is what there is to build it from.
fn kmac256(key: &[u8]) -> Vec<(&'static str, Contender)> {
    use cshake::digest::{ExtendableOutput, Update, XofReader};
    let mut block = vec![1, 136, 2, 1, 0];
    block.splice(2.., if key.len() < 32 { vec![1, (key.len() * 8) as u8] } else { vec![2, 1, 0] });
    block.extend_from_slice(key);
    block.resize(136, 0);
    let mut prepared = cshake::CShake256::new_with_function_name(b"KMAC", b"");
    prepared.update(&block);
    let rust_crypto: Contender = Box::new(move |message| {
        let mut xof = prepared.clone();
        message.iter().for_each(|part| xof.update(part));
        xof.update(&[1, 0, 2]);
        let mut output = [0; 32];
        xof.finalize_xof().read(&mut output);
        start(&output)
    });
    vec![
        ("wireseal", wireseal(MacKey::kmac256(key, b"", OutputLength::Octets32))),
        ("rustcrypto cshake", rust_crypto),
    ]
}

/// One end of an established connection, and a segment of `payload` octets in each direction with room for the option
/// but none besides; both ends share the key, so that what `sign` makes of the first is what the other end verifies.
#[derive(Debug)]
pub struct Established {
    /// The end that signs.
    pub sender: Connection<2>,
    /// The end that verifies.
    pub receiver: Connection<2>,
    /// The segment, signed.
    pub tcp: Vec<u8>,
}

/// The MKTs that the benches use for an algorithm.
///
/// # Panics
/// Never: the keys are of a length that every algorithm takes.
#[must_use]
pub fn mkts(algorithm: TcpAoAlgorithm) -> MktSet<2> {
    let mkt = |id| Mkt::new(KeyId(id), KeyId(id), algorithm, MasterKey::new(&[id; 32])?);
    let mkts = [mkt(1), mkt(2)].map(|mkt| mkt.expect("32 octets are enough for all"));
    MktSet::from_mkts(mkts).expect("two ids")
}

/// The socket pair that the benches use.
#[must_use]
pub fn pair() -> SocketPair {
    let end = |last, port| Endpoint::new(std::net::Ipv4Addr::new(192, 0, 2, last), port);
    SocketPair { local: end(1, 50_000), remote: end(2, 179) }
}

/// A TCP segment from one end of `pair` to the other, with an AO option for `mac_length` octets, unsigned.
///
/// # Panics
/// Never: the option always fits.
#[must_use]
pub fn segment(pair: &SocketPair, sequence: u32, flags: u8, mac_length: usize, payload: usize) -> Vec<u8> {
    let mut options = [0; 40];
    let options_length = append_ao(&mut options, 0, mac_length).expect("the option space is empty");
    let mut tcp = Vec::new();
    tcp.extend_from_slice(&pair.local.port().to_be_bytes());
    tcp.extend_from_slice(&pair.remote.port().to_be_bytes());
    tcp.extend_from_slice(&sequence.to_be_bytes());
    tcp.extend_from_slice(&[0, 0, 0, 1]);
    tcp.extend_from_slice(&[((20 + options_length) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(&options[..options_length]);
    tcp.resize(tcp.len() + payload, 0x5a);
    tcp
}

/// Runs a handshake between two ends and prepares a segment of `length` octets, header included.
///
/// # Panics
/// When a segment that was signed does not verify.
#[must_use]
pub fn established(algorithm: TcpAoAlgorithm, length: usize) -> Established {
    let (mkts, pair) = (mkts(algorithm), pair());
    let mac_length = algorithm.default_mac_length();
    let mut sender = Connection::active(pair, Isn(1000), &mkts).expect("there is a key");
    let mut syn = segment(&pair, 1000, 0x02, mac_length, 0);
    sender.sign(&mut syn).expect("a SYN");
    let (source, destination) = (pair.local.address(), pair.remote.address());
    let syn = Segment::from_tcp(source, destination, &syn).expect("well-formed");
    let mut receiver = Connection::passive(&mkts.verify_syn(syn).expect("just signed"));
    let mut syn_ack = segment(&pair.reversed(), 5000, 0x12, mac_length, 0);
    receiver.sign(&mut syn_ack).expect("a SYN-ACK");
    let syn_ack = Segment::from_tcp(destination, source, &syn_ack).expect("well-formed");
    sender.verify(&syn_ack).expect("just signed");
    let payload = length - segment(&pair, 0, 0, mac_length, 0).len();
    let mut tcp = segment(&pair, 1001, 0x18, mac_length, payload);
    sender.sign(&mut tcp).expect("established");
    let signed = Segment::from_tcp(source, destination, &tcp).expect("well-formed");
    receiver.verify(&signed).expect("just signed");
    Established { sender, receiver, tcp }
}
