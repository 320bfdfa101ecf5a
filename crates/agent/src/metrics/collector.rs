//! What is exported, asked for anew each time.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::status::{Segments, Status, StatusSource};

struct FromStatus(StatusSource);

impl fmt::Debug for FromStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromStatus")
    }
}

/// Everything that is exported.
pub(super) fn registry(source: StatusSource) -> Registry {
    let mut registry = Registry::with_prefix("wireseal");
    registry.register_collector(Box::new(FromStatus(source)));
    registry
}

impl Collector for FromStatus {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = (self.0)();
        let mut family = Families(&mut encoder);
        let (command, version) = (status.command.name(), env!("CARGO_PKG_VERSION"));
        family.gauges(
            "info",
            "The instance; always 1.",
            [([("command", command), ("version", version)], 1)],
        )?;
        family.gauges(
            "start_timestamp_seconds",
            "When the instance was started, in seconds since 1970.",
            [([], status.since.unix_seconds())],
        )?;
        if let Some(rules) = &status.rules {
            let help = "Whether the gateway's rules are in place: 1, or 0.";
            family.gauges("rules_in_place", help, [([], i64::from(rules.problem.is_none()))])?;
        }
        family.peers(&status)?;
        family.keys(&status)
    }
}

/// The families of metrics, in the form in which Prometheus wants them.
struct Families<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl Families<'_, '_> {
    fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, &'l str); N], i64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn peers(&mut self, status: &Status) -> fmt::Result {
        let sessions = status.peers.iter().map(|peer| {
            let established = peer.sessions.iter().filter(|session| session.is_established);
            ([("peer", &peer.peer[..])], established.count() as i64)
        });
        self.gauges("sessions", "Established sessions.", sessions)?;
        let behind = status.peers.iter().map(|peer| {
            let behind = peer.sessions.iter().filter(|session| session.is_peer_behind);
            ([("peer", &peer.peer[..])], behind.count() as i64)
        });
        let help = "Sessions whose peer does not sign with the key yet that it was asked for.";
        self.gauges("sessions_on_old_key", help, behind)?;
        let help = "Segments received, by verdict.";
        let mut metric = self.0.encode_descriptor("segments", help, None, MetricType::Counter)?;
        for peer in &status.peers {
            for (verdict, segments) in peer.segments.by_verdict() {
                let labels = [("peer", &peer.peer[..]), ("verdict", verdict)];
                ConstCounter::new(segments).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Segments that came to listeners and that no connection took, of any peer, by verdict.";
        let mut metric = self.0.encode_descriptor("listener_segments", help, None, MetricType::Counter)?;
        let all = status.listeners.iter().map(|listener| listener.segments);
        for (verdict, segments) in all.fold(Segments::default(), Segments::plus).by_verdict() {
            ConstCounter::new(segments).encode(metric.encode_family(&[("verdict", verdict)])?)?;
        }
        Ok(())
    }

    fn keys(&mut self, status: &Status) -> fmt::Result {
        let keys = || status.peers.iter().filter_map(|peer| Some((&peer.peer[..], peer.key.as_ref()?)));
        let ids: Vec<_> = keys().map(|(_, key)| (key.send_id.to_string(), key.recv_id.to_string())).collect();
        let started = keys().zip(&ids).map(|((peer, key), (send_id, recv_id))| {
            let labels =
                [("peer", peer), ("send_id", send_id), ("recv_id", recv_id), ("algorithm", &key.algorithm)];
            (labels, key.since.unix_seconds())
        });
        let help = "Since when the present key is sent with, in seconds since 1970.";
        self.gauges("key_start_timestamp_seconds", help, started)?;
        let ends = keys().filter_map(|(peer, key)| Some(([("peer", peer)], key.until?.unix_seconds())));
        let help = "When the send lifetime of the present key ends, in seconds since 1970; missing if never.";
        self.gauges("key_end_timestamp_seconds", help, ends)?;
        let chains = status.peers.iter();
        let chains =
            chains.filter_map(|peer| Some(([("peer", &peer.peer[..])], peer.chain_end?.unix_seconds())));
        let help = "When no key of the chain will be valid for sending any more, in seconds since 1970; missing if never.";
        self.gauges("key_chain_end_timestamp_seconds", help, chains)
    }
}
