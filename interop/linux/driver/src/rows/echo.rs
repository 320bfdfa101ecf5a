//! A connection between the first guest's kernel and the echo service of another host ([`EchoHost`]).

use std::net::SocketAddr;

use agent::{Accept, Amount, Connect, Counted, Finish, GetInfo, Key, Open, SetKeys, Transfer};
use speaker::protection::mirrored;
use wireseal_tcp_ao::{Mkt, Segment, SocketPair};

use crate::echo_host::{EchoHost, Report};
use crate::row::prelude::*;
use crate::verify::verify;

/// Octets there and back between two checks of the keys.
const PIECE: u64 = 8 << 10;

/// A socket of the kernel's for connections with a host at this port, with these keys, the first of which is preferred. All are written as the
/// host's. It refuses unsigned segments.
pub async fn kernel_socket(lab: &Lab, family: Family, port: Port, mkts: &[Mkt]) -> Result<u64> {
    let key = |mkt: &Mkt| anyhow::Ok(Key::new(port.address(family), &mirrored(mkt)?)?);
    let mut keys: Vec<Key> = mkts.iter().map(key).collect::<Result<_>>()?;
    keys[0].is_preferred = true;
    let local = Port::North.at(family, 0);
    lab.north.call(Open { local, keys, required: true }).await
}

/// An established connection.
pub struct Session<'a> {
    pub lab: &'a Lab,
    pub host: EchoHost,
    /// As the host sees it.
    pub pair: SocketPair,
    socket: u64,
    before: Counted,
    carried: u64,
}

impl<'a> Session<'a> {
    /// Opens a connection from a socket of the kernel's; `before` is what the kernel had counted by then.
    pub async fn open(
        lab: &'a Lab,
        host: EchoHost,
        family: Family,
        socket: u64,
        before: Counted,
    ) -> Result<Self> {
        let remote = host.service(family);
        let local = lab.north.call(Connect { socket, remote }).await?;
        let pair = SocketPair { local: remote.into(), remote: local.into() };
        Ok(Self { lab, host, pair, socket, before, carried: 0 })
    }

    /// Accepts a connection at a listening socket of the kernel's.
    pub async fn accept(
        lab: &'a Lab,
        host: EchoHost,
        (listener, listens_at): (u64, SocketAddr),
        before: Counted,
    ) -> Result<Self> {
        let socket = lab.north.call(Accept { socket: listener }).await?;
        let calls = |recording: &Recording| Some(recording.segments_from(host.port()).next()?.source());
        let local = lab.wire.await_recorded("a call", calls).await?;
        let pair = SocketPair { local, remote: listens_at.into() };
        Ok(Self { lab, host, pair, socket, before, carried: 0 })
    }

    /// Sends this many octets, and checks that they come back.
    pub async fn echo(&mut self, octets: u64) -> Result<()> {
        let amount = Amount { octets, seed: 7, from: self.carried };
        self.lab.north.call(Transfer { socket: self.socket, send: amount, receive: amount }).await?;
        self.carried += octets;
        Ok(())
    }

    /// Sends octets that do not come back, until `sign` is done. Fails if they do.
    pub async fn until_refused<T>(&self, octets: u64, sign: impl Future<Output = Result<T>>) -> Result<T> {
        let amount = Amount { octets, seed: 7, from: self.carried };
        let transfer = self.lab.north.call(Transfer { socket: self.socket, send: amount, receive: amount });
        refused(sign, transfer).await
    }

    /// Waits until everything is acknowledged and nothing more is sent.
    pub async fn quiet(&self) -> Result<()> {
        self.lab.quiet(self.pair, [self.host.port(), Port::North]).await
    }

    /// Rolls over to each of these in turn, under traffic: first the kernel follows the host, then the host follows the kernel.
    pub async fn roll_over(&mut self, turns: &[&Mkt]) -> Result<()> {
        for mkt in turns {
            self.host.roll_over().await?;
            self.carry_until(async |session| {
                let info = session.lab.north.call(GetInfo { socket: session.socket }).await?;
                Ok(info.and_then(|info| info.current_key) == Some(mkt.recv_id().0))
            })
            .await?;
            let rnext = Some(mkt.send_id().0);
            self.lab.north.call(SetKeys { socket: self.socket, current: None, rnext }).await?;
            self.carry_until(async |session| {
                let id = |segment: Segment<'_>| Some(segment.ao_option().ok()??.key_id);
                let port = session.host.port();
                let last =
                    session.lab.wire.look(|recording| recording.segments_from(port).last().and_then(id));
                Ok(last == Some(mkt.send_id()))
            })
            .await?;
        }
        Ok(())
    }

    /// Sends pieces there and back until this holds.
    async fn carry_until(&mut self, is_so: impl AsyncFn(&Session<'_>) -> Result<bool>) -> Result<()> {
        for _ in 0..20 {
            self.echo(PIECE).await?;
            if is_so(self).await? {
                return self.echo(PIECE).await;
            }
        }
        bail!("the end does not change its key")
    }

    /// Closes it, and accounts for all segments, of which the recording is judged with these keys; besides good ones, the host must have
    /// counted these. Also returns the host's last report.
    pub async fn close(self, mkts: &[Mkt], beside: Counted) -> Result<(Evidence, Report)> {
        let Self { lab, host, socket, before, .. } = self;
        lab.north.call(Finish { socket }).await?;
        while !lab.is_still([host.port(), Port::North]).await? {}
        let to = |port| lab.wire.segments_from(port);
        let report = host.report().await?;
        let counted = report.counted.check(host.name, &Counted::good(to(Port::North)).plus(&beside))?;
        let kernel = lab.north.counters().await?.since(&before);
        let kernel = kernel.check("the kernel", &Counted::good(to(host.port())))?;
        let recording = lab.wire.take_recording();
        let wire = verify(lab, &recording, mkts)?;
        wire.check_all_verified()?;
        let counters = vec![("kernel".into(), kernel.to_string()), (host.name.into(), counted.to_string())];
        Ok((Evidence { counters, wire, recording, ..Evidence::default() }, report))
    }
}

/// Fails unless both ends have signed with each of these.
pub fn check_used(evidence: &Evidence, mkts: &[Mkt]) -> Result<()> {
    for id in mkts.iter().flat_map(|mkt| [mkt.send_id(), mkt.recv_id()]) {
        ensure!(evidence.wire.by_key.contains_key(&id.0), "nothing was sent with KeyID {id}");
    }
    Ok(())
}
