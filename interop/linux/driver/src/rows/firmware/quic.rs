//! A client's first QUIC packet, which the microcontroller opens.

use etherparse::{PacketBuilder, ether_type};
use serde_json::Value;

use crate::firmware::Firmware;
use crate::prelude::*;

/// RFC 9001 appendix A.
const VECTORS: &str = include_str!("../../../../../../crates/quic/tests/data/vectors/rfc9001.json");
const OPENED: &str = "Initial packet 2, 1162 octets of payload";
const NOT_OPENED: &str = "a datagram that is no Initial packet";

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "firmware-quic-initial",
        "a Cortex-M4 opens the client's Initial packet of RFC 9001 §A.2 with RustCrypto's ciphers; it goes on after one that is cut \
         off",
        open,
        "one bit of the payload changed",
        open_changed,
    )]
}

/// The client's Initial packet of RFC 9001 §A.2.
fn initial() -> Result<Vec<u8>> {
    let vectors: Value = serde_json::from_str(VECTORS)?;
    let packet = vectors["client_initial"]["packet"].as_str().context("no packet")?;
    let octet = |at: usize| Ok(u8::from_str_radix(packet.get(at..at + 2).context("half an octet")?, 16)?);
    (0..packet.len()).step_by(2).map(octet).collect()
}

/// Sends a datagram to the board; gives what its console says of it.
async fn send(lab: &Lab, firmware: &Firmware, datagram: &[u8]) -> Result<String> {
    let (from, to) = (Port::Host, Port::Firmware);
    let mut frame =
        [&to.hardware_address()[..], &from.hardware_address(), &ether_type::IPV4.0.to_be_bytes()].concat();
    PacketBuilder::ipv4(from.ipv4().octets(), to.ipv4().octets(), 64)
        .udp(50_000, 443)
        .write(&mut frame, datagram)?;
    lab.wire.inject(to, frame);
    firmware.line().await
}

async fn open(lab: &Lab) -> Result<Evidence> {
    lab.clear().await?;
    let firmware = Firmware::boot(lab, 1).await?;
    let initial = initial()?;
    for (datagram, wanted) in [(&initial[..], OPENED), (&initial[..40], NOT_OPENED), (&initial, OPENED)] {
        let said = send(lab, &firmware, datagram).await?;
        ensure!(said == wanted, "the console says {said}");
    }
    let report = firmware.report().await?;
    let counters = vec![("firmware".into(), report.counted.to_string())];
    Ok(Evidence { counters, figures: OPENED.to_owned(), ..Evidence::default() })
}

async fn open_changed(lab: &Lab) -> Result<Refusal> {
    lab.clear().await?;
    let firmware = Firmware::boot(lab, 1).await?;
    let mut initial = initial()?;
    initial[600] ^= 1;
    let said = send(lab, &firmware, &initial).await?;
    ensure!(said == NOT_OPENED, "the console says {said}");
    Ok(Refusal::of(format!("firmware: {said}"), 1))
}
