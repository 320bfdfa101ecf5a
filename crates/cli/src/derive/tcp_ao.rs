//! Traffic keys and MACs of TCP-AO, step by step.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wireseal_algorithms::{TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::MacKey;
use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{
    AoOption, Endpoint, FieldName, Isn, KdfContext, MacInput, MasterKey, OptionCoverage, OptionError,
    ParseError, Segment,
};
use zeroize::Zeroizing;

use crate::capture::{Content, Packet, Unreadable};

/// The context from which a segment's traffic key is derived.
///
/// A SYN contains its own ISN and needs no other; a SYN-ACK contains both. All other segments need both ISNs, their source's first.
///
/// # Errors
/// [`DeriveError::NoIsns`], and [`DeriveError::Isns`] if the ISNs contradict the segment.
pub fn context_of(segment: &Segment<'_>, isns: Option<[Isn; 2]>) -> Result<KdfContext, DeriveError> {
    let flags = segment.flags();
    let own = flags.syn().then_some(Isn(segment.sequence().0));
    let other = match (flags.syn(), flags.ack()) {
        (true, false) => Some(Isn::UNKNOWN),
        (true, true) => Some(Isn(segment.acknowledgment().0.wrapping_sub(1))),
        (false, _) => None,
    };
    let [source_isn, destination_isn] = match (isns, own.zip(other)) {
        // The second ISN of a SYN does not matter: the sender does not know it.
        (Some([source, _]), Some((own, Isn::UNKNOWN))) if !flags.ack() && source == own => {
            [own, Isn::UNKNOWN]
        }
        (Some(isns), Some((own, other))) if isns == [own, other] => isns,
        // An answer to a SYN with payload may acknowledge that as well (RFC 7413 §4.2).
        (Some([source, Isn(destination)]), Some((own, Isn(other))))
            if flags.ack() && source == own && other.wrapping_sub(destination) <= MAX_PAYLOAD =>
        {
            [own, Isn(destination)]
        }
        (Some(_), Some((own, other))) => return Err(DeriveError::Isns { own, other }),
        (Some(isns), None) => isns,
        (None, Some((own, other))) => [own, other],
        (None, None) => return Err(DeriveError::NoIsns),
    };
    let (source, destination) = (segment.source(), segment.destination());
    Ok(KdfContext { source, destination, source_isn, destination_isn })
}

/// Octets of the largest payload of a segment (RFC 8200 §3).
const MAX_PAYLOAD: u32 = 65_535;

/// The names of a segment's traffic key in RFC 5925 §5.2, at its sender and at its receiver.
#[must_use]
pub fn names_of(segment: &Segment<'_>) -> [&'static str; 2] {
    if segment.flags().syn() && !segment.flags().ack() {
        ["Send_SYN", "Receive_SYN"]
    } else {
        ["Send_other", "Receive_other"]
    }
}

/// The TCP-AO option of a segment, with a MAC that can be computed.
///
/// # Errors
/// [`DeriveError::NoOption`], [`DeriveError::Options`], and [`DeriveError::MacLength`] if the MAC does not have 4 to 16 octets.
pub fn ao_of<'a>(segment: &Segment<'a>) -> Result<AoOption<'a>, DeriveError> {
    let ao = segment.ao_option().map_err(DeriveError::Options)?.ok_or(DeriveError::NoOption)?;
    let lengths = TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH;
    if !lengths.contains(&ao.mac.len()) {
        return Err(DeriveError::MacLength(ao.mac.len()));
    }
    Ok(ao)
}

/// A field of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// What it is.
    pub name: String,
    /// Its octets.
    pub octets: Octets,
}

/// The octets of a field.
#[derive(Clone, PartialEq, Eq)]
pub enum Octets {
    /// Octets to show.
    Shown(Vec<u8>),
    /// The master key, which is not shown.
    MasterKey {
        /// How many octets it has.
        length: usize,
    },
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown(octets) => octets.fmt(f),
            Self::MasterKey { length } => write!(f, "MasterKey({length} octets)"),
        }
    }
}

impl Field {
    pub(super) fn new(octets: &[u8], name: impl Into<String>) -> Self {
        Self { name: name.into(), octets: Octets::Shown(octets.to_vec()) }
    }

    pub(super) fn master_key(length: usize) -> Self {
        Self { name: "master key".to_owned(), octets: Octets::MasterKey { length } }
    }
}

const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;
/// Octets of the longest packet (RFC 8200 §3).
const MAX_PACKET: usize = 40 + 65_535;

/// The TCP segment in an IP packet or an Ethernet frame.
///
/// # Errors
/// [`DeriveError`], with what the packet is instead.
pub fn segment(octets: &[u8]) -> Result<Segment<'_>, DeriveError> {
    match segment_of(octets, 0) {
        // If the headers describe a longer packet, the end is missing.
        Err(DeriveError::Unreadable(error)) => match segment_of(octets, MAX_PACKET) {
            Err(DeriveError::CutOff { missing }) => Err(DeriveError::CutOff { missing }),
            _ => Err(DeriveError::Unreadable(error)),
        },
        found => found,
    }
}

/// The segment, if up to this many octets may be missing at the end of the packet.
fn segment_of(octets: &[u8], unrecorded: usize) -> Result<Segment<'_>, DeriveError> {
    let content = |link_type| {
        let original_length = octets.len() + unrecorded;
        Content::of(&Packet { number: 1, time: None, link_type, octets, original_length })
    };
    // A frame to an unusual address may begin like an IP packet, so try both.
    let as_ip = matches!(octets.first(), Some(0x40..=0x4f | 0x60..=0x6f));
    let content = match content(LINKTYPE_RAW) {
        found @ Content::Tcp(_) if as_ip => found,
        found => match content(LINKTYPE_ETHERNET) {
            Content::Unreadable(_) | Content::Other(_) if as_ip => found,
            found => found,
        },
    };
    match content {
        Content::Tcp(segment) if segment.missing > 0 => Err(DeriveError::CutOff { missing: segment.missing }),
        Content::Tcp(segment) => Segment::from_tcp(segment.source, segment.destination, segment.octets)
            .map_err(DeriveError::Segment),
        Content::Other(_) => Err(DeriveError::NotTcp),
        Content::Fragment { .. } => Err(DeriveError::Fragment),
        Content::Unreadable(error) => Err(DeriveError::Unreadable(error)),
    }
}

/// One computation of a KDF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The function and its key.
    pub function: String,
    /// Its input.
    pub input: Vec<Field>,
    /// A check value of the result: the first four octets of the function's MAC of 16 zero octets under it. The result itself could
    /// replace the master key in all connections, so it stays secret. `None` for the last step, whose result is the traffic key.
    pub check_value: Option<[u8; 4]>,
}

/// The steps from a master key to a traffic key.
#[must_use]
pub fn kdf(algorithm: TcpAoAlgorithm, master_key: &MasterKey, context: &KdfContext) -> Vec<Step> {
    let length = master_key.len();
    let bits = algorithm.traffic_key_length() as u16 * 8;
    let rfc_5926 = || {
        let mut input = vec![Field::new(&[1], "i, the counter"), Field::new(b"TCP-AO", "label \"TCP-AO\"")];
        input.extend(context_fields(context));
        input.push(Field::new(&bits.to_be_bytes(), format!("output length, {bits} bits")));
        input
    };
    let last = |function: String, input| Step { function, input, check_value: None };
    match algorithm.kdf() {
        TcpAoKdf::HmacSha1 => vec![last(under_master_key("HMAC-SHA-1", length), rfc_5926())],
        TcpAoKdf::HmacSha256 => vec![last(under_master_key("HMAC-SHA-256", length), rfc_5926())],
        TcpAoKdf::Aes128Cmac if length == 16 => {
            vec![last(under_master_key("AES-128-CMAC", length), rfc_5926())]
        }
        TcpAoKdf::Aes128Cmac => {
            let compressed = MacKey::aes_128_cmac(&[0; 16]).mac(&[master_key.expose_secret()]);
            let mut key = Zeroizing::new([0; 16]);
            key.copy_from_slice(compressed.as_bytes());
            let compress = Step {
                function: "AES-128-CMAC under 16 zero octets, because the master key does not have 16 octets"
                    .to_owned(),
                input: vec![Field::master_key(length)],
                check_value: Some(check_value(&MacKey::aes_128_cmac(&key))),
            };
            vec![compress, last("AES-128-CMAC under the compressed master key".to_owned(), rfc_5926())]
        }
        TcpAoKdf::HkdfSha256 => {
            let key = MacKey::hmac_sha256(&[0; 32]).mac(&[master_key.expose_secret()]);
            let extract = Step {
                function: "HKDF-Extract: HMAC-SHA-256 under 32 zero octets, the salt".to_owned(),
                input: vec![Field::master_key(length)],
                check_value: Some(check_value(&MacKey::hmac_sha256(key.as_bytes()))),
            };
            let mut info = context_fields(context);
            info.push(Field::new(&[1], "counter of HKDF-Expand"));
            vec![extract, last("HKDF-Expand: HMAC-SHA-256 under the pseudorandom key".to_owned(), info)]
        }
        TcpAoKdf::Kmac256 => {
            let mut input = vec![Field::new(&1u32.to_be_bytes(), "counter"), Field::master_key(length)];
            input.extend(context_fields(context));
            vec![last(
                format!("KMAC256 under 132 zero octets, customization \"KDF\", {bits} bits of output"),
                input,
            )]
        }
    }
}

fn under_master_key(function: &str, length: usize) -> String {
    format!("{function} under the master key ({length} octets, not shown)")
}

fn check_value(key: &MacKey) -> [u8; 4] {
    let mac = key.mac(&[&[0; 16]]);
    std::array::from_fn(|place| mac.as_bytes()[place])
}

/// The context of RFC 5925 §5.2.
fn context_fields(context: &KdfContext) -> Vec<Field> {
    let KdfContext { source, destination, source_isn, destination_isn } = context;
    let isn = |Isn(isn): &Isn, name| Field::new(&isn.to_be_bytes(), format!("{name} ISN"));
    let port =
        |end: &Endpoint, name| Field::new(&end.port().to_be_bytes(), format!("{name} port {}", end.port()));
    vec![
        address_field(source, "source"),
        address_field(destination, "destination"),
        port(source, "source"),
        port(destination, "destination"),
        isn(source_isn, "source"),
        isn(destination_isn, "destination"),
    ]
}

/// The address of an end.
fn address_field(end: &Endpoint, name: &str) -> Field {
    let octets = match end.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    Field { name: format!("{name} address {}", end.address()), octets: Octets::Shown(octets) }
}

/// The parts of [`FieldName::Header`] by their lengths.
const HEADER: [(usize, &str); 6] = [
    (2, "source port"),
    (2, "destination port"),
    (4, "sequence number"),
    (4, "acknowledgment number"),
    (2, "data offset and flags"),
    (2, "window"),
];

/// The fields of a segment's MAC input with this coverage of options, in order.
#[must_use]
pub fn mac_input(input: &MacInput<'_>, options: OptionCoverage) -> Vec<Field> {
    let mut fields = Vec::new();
    for field in input.fields() {
        let octets = field.as_ref();
        let name = match field.name {
            FieldName::Sne => format!("SNE {}", number(octets)),
            FieldName::Source => format!("pseudo-header: source address {}", address(octets)),
            FieldName::Destination => format!("pseudo-header: destination address {}", address(octets)),
            FieldName::Protocol if octets.len() == 2 => "pseudo-header: zero, protocol 6".to_owned(),
            FieldName::Protocol => "pseudo-header: zeros, next header 6".to_owned(),
            FieldName::TcpLength => format!("pseudo-header: TCP length {}, with all options", number(octets)),
            FieldName::Header => {
                split(&mut fields, octets, HEADER);
                continue;
            }
            FieldName::Checksum => "checksum, zeroed".to_owned(),
            FieldName::UrgentPointer => "urgent pointer".to_owned(),
            FieldName::OptionsBeforeAo | FieldName::OptionsAfterAo => {
                other_options(&mut fields, octets);
                continue;
            }
            FieldName::AoHeader => {
                let remark = if options == OptionCoverage::Covered { "" } else { ", the only option" };
                let names = [
                    (2, format!("TCP-AO option: kind, length{remark}")),
                    (1, format!("TCP-AO option: KeyID {}", octets[2])),
                    (1, format!("TCP-AO option: RNextKeyID {}", octets[3])),
                ];
                split(&mut fields, octets, names);
                continue;
            }
            FieldName::AoMac => "TCP-AO option: MAC, zeroed".to_owned(),
            FieldName::Payload => format!("payload, {} octets", octets.len()),
        };
        fields.push(Field::new(octets, name));
    }
    fields
}

fn number(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |number, octet| number << 8 | u32::from(*octet))
}

fn address(octets: &[u8]) -> String {
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(octets), _) => Ipv4Addr::from(octets).to_string(),
        (_, Ok(octets)) => Ipv6Addr::from(octets).to_string(),
        _ => String::new(),
    }
}

/// Adds parts of these lengths.
fn split(
    fields: &mut Vec<Field>,
    mut octets: &[u8],
    parts: impl IntoIterator<Item = (usize, impl Into<String>)>,
) {
    for (length, name) in parts {
        let (part, rest) = octets.split_at(length);
        fields.push(Field::new(part, name));
        octets = rest;
    }
}

/// Adds every option, and the octets between and after them.
fn other_options(fields: &mut Vec<Field>, mut octets: &[u8]) {
    while let [kind, rest @ ..] = octets {
        let length = match *kind {
            kind::END_OF_LIST => octets.len(),
            kind::NO_OPERATION => 1,
            // Options before TCP-AO have valid lengths, or it would not have been found; those after it may not.
            _ => rest.first().map_or(1, |length| usize::from(*length).clamp(2, octets.len())),
        };
        let (option, rest) = octets.split_at(length);
        fields.push(Field::new(option, name_of(*kind)));
        octets = rest;
    }
}

fn name_of(kind: u8) -> String {
    let name = match kind {
        kind::END_OF_LIST => "end of options, and padding",
        kind::NO_OPERATION => "no-operation",
        kind::MAXIMUM_SEGMENT_SIZE => "maximum segment size",
        3 => "window scale",
        4 => "SACK permitted",
        kind::SELECTIVE_ACKNOWLEDGMENT => "SACK",
        8 => "timestamps",
        _ => return format!("option of kind {kind}"),
    };
    format!("option: {name}")
}

/// Why nothing can be derived: the packet or the ISNs are wrong. Caller error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeriveError {
    /// The packet's headers cannot be read.
    #[error("packet: {0}")]
    Unreadable(Unreadable),
    /// The packet is an IP fragment.
    #[error("packet: it is a fragment, but the MAC covers the whole segment")]
    Fragment,
    /// The packet is not TCP.
    #[error("packet: it is not TCP")]
    NotTcp,
    /// The packet ends before its segment.
    #[error("packet: {missing} octets are missing at its end, but the MAC covers all of them")]
    CutOff {
        /// How many octets are missing.
        missing: usize,
    },
    /// The TCP header cannot be read.
    #[error("packet: {0}")]
    Segment(ParseError),
    /// The TCP options cannot be read.
    #[error("packet: {0}")]
    Options(OptionError),
    /// The segment has no TCP-AO option.
    #[error("packet: the segment has no TCP-AO option")]
    NoOption,
    /// The TCP-AO option has a MAC of this many octets.
    #[error("packet: the TCP-AO option has a MAC of {0} octets; it must have 4 to 16")]
    MacLength(usize),
    /// The segment does not show the ISNs, and they were not given.
    #[error(
        "--isns: a segment without SYN does not show the ISNs of its connection; give those of its source and \
         destination as --isns SRC,DST"
    )]
    NoIsns,
    /// The given ISNs are not those of the segment.
    #[error("--isns: the segment has SYN and shows that they are {:#010x},{:#010x}", .own.0, .other.0)]
    Isns {
        /// The ISN of its source.
        own: Isn,
        /// The ISN of its destination.
        other: Isn,
    },
}
