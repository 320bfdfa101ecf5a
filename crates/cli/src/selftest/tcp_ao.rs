//! The packets of RFC 9235, and the same with the algorithms of the draft.

use serde::Deserialize;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Isn, KdfContext, MasterKey, Mkt, OptionCoverage, Segment, Sne, TrafficKey, TrafficKeyOctets,
    sign_segment, verify_segment,
};

use super::vectors::{Group, Octets, read};

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    #[serde(alias = "based_on")]
    section: String,
    algorithm: String,
    master_key: Octets,
    options: String,
    source_isn: Octets,
    destination_isn: Octets,
    sne: u32,
    traffic_key: Octets,
    packet: Octets,
}

pub(super) fn run(source: &'static str, text: &str) -> Group {
    let mut group = Group::new(source, "TCP-AO: traffic keys and MACs".to_owned());
    for vector in &read::<File>(text).vectors {
        let Vector { section, algorithm, .. } = vector;
        group.count(check(vector).unwrap_or(false), || format!("section {section} under {algorithm}"));
    }
    group
}

/// Derives the traffic key; verifies the segment, verifies it with a bit flipped, and signs it again.
fn check(vector: &Vector) -> Option<bool> {
    let algorithm: TcpAoAlgorithm = vector.algorithm.parse().ok()?;
    let master_key = MasterKey::new(&vector.master_key.0).ok()?;
    let segment = Segment::parse(&vector.packet.0).ok()?;
    let ao = segment.ao_option().ok()??;
    let isn = |octets: &Octets| Some(Isn(u32::from_be_bytes(octets.0.as_slice().try_into().ok()?)));
    let context = KdfContext {
        source: segment.source(),
        destination: segment.destination(),
        source_isn: isn(&vector.source_isn)?,
        destination_isn: isn(&vector.destination_isn)?,
    };
    let options =
        if vector.options == "covered" { OptionCoverage::Covered } else { OptionCoverage::Excluded };
    let mkt = Mkt::with_short_master_key(ao.key_id, ao.rnext_key_id, algorithm, master_key)
        .ok()?
        .with_mac_length(ao.mac.len())
        .ok()?
        .with_options(options);
    let octets = TrafficKeyOctets::derive(&mkt, &context);
    let (key, sne, parameters) = (TrafficKey::new(&octets), Sne(vector.sne), mkt.parameters());

    let addresses = (segment.source_address(), segment.destination_address());
    let mut altered = segment.tcp().to_vec();
    altered[4] ^= 1;
    let altered = Segment::from_tcp(addresses.0, addresses.1, &altered).ok()?;
    let mut signed = segment.tcp().to_vec();
    let mac_at = 20 + ao.offset + ao.length() - ao.mac.len();
    signed[mac_at..mac_at + ao.mac.len()].fill(0);
    sign_segment(&key, sne, parameters, ao.rnext_key_id, addresses, &mut signed).ok()?;

    let verified = |segment| verify_segment(&key, sne, parameters, segment).is_ok();
    Some(
        octets.expose_secret() == vector.traffic_key.0
            && verified(&segment)
            && !verified(&altered)
            && signed == segment.tcp(),
    )
}
