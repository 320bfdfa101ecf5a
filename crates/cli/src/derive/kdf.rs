//! The derivation of a traffic key, step by step (RFC 5926 §3.1, draft-ietf-tcpm-tcp-ao-algs-07).

use std::net::IpAddr;

use wireseal_algorithms::{TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::MacKey;
use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, MasterKey};
use zeroize::Zeroizing;

use super::{Field, Octets};

/// One computation of a KDF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The function and its key.
    pub function: String,
    /// Its input.
    pub input: Vec<Field>,
    /// A check value of the result: the first four octets of the function's MAC of 16 zero octets under it. The result itself
    /// replaces the master key in all connections, so it is as secret. `None` for the last step, whose result is the traffic key.
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
        address(source, "source"),
        address(destination, "destination"),
        port(source, "source"),
        port(destination, "destination"),
        isn(source_isn, "source"),
        isn(destination_isn, "destination"),
    ]
}

/// The address of an end.
fn address(end: &Endpoint, name: &str) -> Field {
    let octets = match end.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    Field { name: format!("{name} address {}", end.address()), octets: Octets::Shown(octets) }
}
