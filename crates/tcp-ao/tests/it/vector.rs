//! The packets of RFC 9235 and the same packets under the draft's algorithms, read from `tests/data/vectors`.

use serde::Deserialize;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    AoOption, Isn, KdfContext, KeyId, MasterKey, Mkt, OptionCoverage, Segment, Sne, SocketPair,
};

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
pub(crate) struct Vector {
    #[serde(alias = "based_on")]
    pub(crate) section: String,
    algorithm: String,
    master_key: Hex,
    traffic_key_type: String,
    options: String,
    source_isn: Hex,
    destination_isn: Hex,
    sne: u32,
    pub(crate) traffic_key: Hex,
    pub(crate) mac: Hex,
    pub(crate) packet: Hex,
}

/// Octets that a file spells in hexadecimal.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        base16ct::mixed::decode_vec(&text).map(Self).map_err(|error| format!("{text}: {error}"))
    }
}

pub(crate) fn rfc_9235() -> Vec<Vector> {
    read(include_str!("../data/vectors/rfc9235.json"), 32)
}

pub(crate) fn draft_tcp_ao_algs() -> Vec<Vector> {
    read(include_str!("../data/vectors/draft-tcp-ao-algs.json"), 64)
}

fn read(text: &str, count: usize) -> Vec<Vector> {
    let vectors = serde_json::from_str::<File>(text).unwrap().vectors;
    assert_eq!(vectors.len(), count);
    vectors
}

impl Vector {
    pub(crate) fn algorithm(&self) -> TcpAoAlgorithm {
        match self.algorithm.as_str() {
            "HMAC-SHA-1-96" => TcpAoAlgorithm::HmacSha1,
            "AES-128-CMAC-96" => TcpAoAlgorithm::Aes128Cmac,
            "HMAC-SHA256-128" => TcpAoAlgorithm::HmacSha256_128,
            "KMAC256-128" => TcpAoAlgorithm::Kmac256_128,
            other => panic!("{other} is no algorithm of the vectors"),
        }
    }

    pub(crate) fn master_key(&self) -> MasterKey {
        MasterKey::new(&self.master_key.0).unwrap()
    }

    pub(crate) fn coverage(&self) -> OptionCoverage {
        match self.options.as_str() {
            "covered" => OptionCoverage::Covered,
            "not covered" => OptionCoverage::Excluded,
            other => panic!("{other} is neither covered nor not covered"),
        }
    }

    pub(crate) fn sne(&self) -> Sne {
        Sne(self.sne)
    }

    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment::parse(&self.packet.0).unwrap()
    }

    pub(crate) fn ao(&self) -> AoOption<'_> {
        self.segment().ao_option().unwrap().unwrap()
    }

    /// The KDF context of the segment's traffic key, from the view of the end that computes it.
    pub(crate) fn context(&self) -> KdfContext {
        let isn = |hex: &Hex| Isn(u32::from_be_bytes(hex.0.as_slice().try_into().unwrap()));
        let (source_isn, destination_isn) = (isn(&self.source_isn), isn(&self.destination_isn));
        let sent = SocketPair { local: self.segment().source(), remote: self.segment().destination() };
        match self.traffic_key_type.as_str() {
            "Send_SYN" => KdfContext::syn(sent.local, sent.remote, source_isn),
            "Send_other" => KdfContext::send_other(sent, source_isn, destination_isn),
            "Receive_other" => KdfContext::receive_other(sent.reversed(), destination_isn, source_isn),
            other => panic!("{other} is no traffic key of the vectors"),
        }
    }

    /// The MKT as the sender of the segment has it.
    pub(crate) fn senders_mkt(&self) -> Mkt {
        self.mkt(self.ao().key_id, self.ao().rnext_key_id)
    }

    /// The MKT as the receiver of the segment has it.
    pub(crate) fn receivers_mkt(&self) -> Mkt {
        self.mkt(self.ao().rnext_key_id, self.ao().key_id)
    }

    fn mkt(&self, send_id: KeyId, recv_id: KeyId) -> Mkt {
        Mkt::with_short_master_key(send_id, recv_id, self.algorithm(), self.master_key())
            .unwrap()
            .with_mac_length(self.ao().mac.len())
            .unwrap()
            .with_options(self.coverage())
    }

    /// The TCP segment before it is signed: ids and MAC zeroed.
    pub(crate) fn unsigned_tcp(&self) -> Vec<u8> {
        let mut tcp = self.segment().tcp().to_vec();
        let start = 20 + self.ao().offset;
        tcp[start + 2..start + self.ao().length()].fill(0);
        tcp
    }
}

/// The handshakes among the vectors: SYN, SYN-ACK, data forth, data back, all under one master key.
pub(crate) fn handshakes(vectors: &[Vector]) -> Vec<[&Vector; 4]> {
    let syns =
        vectors.iter().filter(|vector| vector.segment().flags().syn() && !vector.segment().flags().ack());
    let matching = |syn: &Vector, number: usize| {
        let section = syn.section.trim_end_matches('1');
        vectors
            .iter()
            .find(|other| {
                other.section == format!("{section}{number}")
                    && other.algorithm == syn.algorithm
                    && other.master_key == syn.master_key
            })
            .unwrap()
    };
    syns.map(|syn| [syn, matching(syn, 2), matching(syn, 3), matching(syn, 4)]).collect()
}
