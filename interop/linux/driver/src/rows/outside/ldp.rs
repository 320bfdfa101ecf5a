//! LDP (RFC 5036) between two FRRs, each under `wireseal run`.

use agent::Counted;

use super::daemon::{Daemon, FOLDER, write};
use super::supervised::{SESSION, Supervised};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::bgp::common::{ALONE, BOTH, FIRST, SECOND, SECRET, evidence, key_chain, key_file};
use crate::rows::wait::wait;
use wireseal_tcp_ao::KeyId;

pub fn row() -> Row {
    Row::new(
        "run-ldp",
        "wireseal run at both ends, LDP between Debian's FRRs on two guests; the key chains roll over from AES-128-CMAC-96 to hmac(sha256), the \
         session stays up",
        run,
        "another secret at one end: no session",
        twin,
    )
}

/// The key chain of one end: the other's has the ids the other way round.
fn keys(at: Port, secret: &str) -> String {
    let text = key_file(secret);
    if at == Port::South {
        return text;
    }
    let exchanged = text.lines().map(|line| match line.split_once("-id = ") {
        Some(("send", id)) => format!("recv-id = {id}"),
        Some(("recv", id)) => format!("send-id = {id}"),
        _ => line.to_owned(),
    });
    exchanged.collect::<Vec<_>>().join("\n")
}

async fn start<'a>(guest: &'a Guest, peer: Port, secret: &str) -> Result<Supervised<'a>> {
    let (own, peer) = (guest.port().ipv4(), peer.ipv4());
    let configuration = format!(
        "log stdout informational\nmpls ldp\n router-id {own}\n neighbor {peer} session holdtime 15\n \
         address-family ipv4\n  discovery transport-address {own}\n  interface eth0\n  exit\n exit-address-family\n"
    );
    write(guest, "daemon.conf", &configuration).await?;
    write(guest, "keys.toml", &keys(guest.port(), secret)).await?;
    guest.shell("sysctl -q -w net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1").await?;
    Daemon::Frr.prepare(guest).await?;
    let command = format!(
        "run --keys {FOLDER}/keys.toml --peer {peer} --port 646 -- /usr/lib/frr/ldpd -f {FOLDER}/daemon.conf -i /run/frr/ldpd.pid \
         -z /run/frr/zserv.api --vty_socket /run/frr --ctl_socket /run/frr -A 127.0.0.1"
    );
    Supervised::start(guest, "run", &command).await
}

async fn set_clocks(guests: [&Guest; 2], moment: i64) -> Result<()> {
    let set = format!("date -u -s @{moment}");
    tokio::try_join!(guests[0].shell(&set), guests[1].shell(&set)).map(drop)
}

/// Waits until a port has sent a segment under a key, from now on.
async fn await_signed(lab: &Lab, from: Port, key_id: KeyId) -> Result<()> {
    let mut seen = None;
    let is_signed = |recording: &Recording| {
        let frames = &recording.frames[*seen.get_or_insert(recording.frames.len())..];
        let mut segments = frames.iter().filter(|frame| frame.from == Some(from)).filter_map(Frame::segment);
        let is_wanted =
            segments.any(|segment| segment.ao_option().ok().flatten().is_some_and(|ao| ao.key_id == key_id));
        is_wanted.then_some(())
    };
    lab.wire.await_recorded(&format!("{from}'s segment under key {key_id}"), is_signed).await
}

async fn run(lab: &Lab) -> Result<Evidence> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let (_, mkts) = key_chain(SECRET)?;
    let before = (south.counters().await?, east.counters().await?);
    set_clocks([south, east], FIRST).await?;
    let ends = [start(south, Port::East, SECRET).await?, start(east, Port::South, SECRET).await?];
    let is_operational = async || {
        let mut all = true;
        for end in &ends {
            let said = end.guest.shell("vtysh -c 'show mpls ldp neighbor' 2>/dev/null; true").await?;
            all &= said.contains("OPERATIONAL");
        }
        Ok(all)
    };
    wait("the session", is_operational, async || ends[0].log().await).await?;
    for (moment, keys) in [(BOTH, None), (SECOND, Some((12, 22))), (ALONE, Some((12, 22)))] {
        set_clocks([south, east], moment).await?;
        if let Some((of_south, of_east)) = keys {
            await_signed(lab, Port::South, KeyId(of_south)).await?;
            await_signed(lab, Port::East, KeyId(of_east)).await?;
        }
    }
    ensure!(is_operational().await?, "the session did not stay up");
    let counted = (south.counters().await?.since(&before.0), east.counters().await?.since(&before.1));
    counted.0.check_good("south")?;
    counted.1.check_good("east")?;
    for end in ends {
        let guest = end.guest;
        let log = end.stop().await?;
        ensure!(log.matches(SESSION).count() == 1, "there were other sessions: {log}");
        Daemon::Frr.end(guest).await?;
    }
    let counters = [("south", counted.0.to_string()), ("east", counted.1.to_string())];
    let evidence = evidence(lab, &mkts, &counters, 0.0)?;
    let by_key = format!("segments by key: {:?}", evidence.wire.by_key);
    Ok(evidence.with_figures(by_key))
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let before = (south.counters().await?, east.counters().await?);
    set_clocks([south, east], FIRST).await?;
    let ends =
        [start(south, Port::East, SECRET).await?, start(east, Port::South, "what one end knows").await?];
    // The one with the higher address opens.
    let counted = south.await_counted(&before.0, Counted::bad(1)).await?;
    for end in ends {
        let guest = end.guest;
        let log = end.stop().await?;
        ensure!(!log.contains(SESSION), "there was a session: {log}");
        Daemon::Frr.end(guest).await?;
    }
    Ok(Refusal::by("south", &counted))
}
