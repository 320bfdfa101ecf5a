//! Diagnoses of failed segments that nothing explains.

use std::borrow::Cow;

use wireseal_tcp_ao::{KeyId, MktParameters};

use super::case::LEAST_MAC;
use super::evident::{Ends, Explanation, explain, segments};
use super::explained::NO_RANDOMISATION;
use super::findings::{Findings, Tried, Unexplained, UnexplainedOfSender, is_acknowledged};
use super::options::{TIMESTAMPS, option_name};
use crate::text::grouped;
use crate::verify::across::{Agreement, Copied};
use crate::verify::connection::TcpConnection;
use crate::verify::direction::Direction;
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::{Diagnosis, IsnSource, Sender};

/// What was tried, in words.
struct Extent {
    /// A sentence with a blank in front.
    tried: String,
    /// What a limit left out.
    left_out: Option<String>,
    /// What no search can exclude: a sentence with a blank in front, or nothing.
    not_excluded: String,
}

/// The segments of a sender that nothing explains.
#[derive(Clone, Copy)]
pub(super) struct Rest<'f, 'k> {
    pub(super) sender: Sender,
    pub(super) findings: &'f Findings,
    pub(super) connection: &'f TcpConnection,
    pub(super) table: &'f KeyTable<'k>,
    pub(super) agreement: &'f Agreement,
}

impl Rest<'_, '_> {
    fn unexplained(&self) -> &UnexplainedOfSender {
        &self.findings.unexplained[self.sender as usize]
    }

    /// Whether neither end has sent a good segment since the first of these: if both keep doing it, the segments are not forged.
    fn are_lasting(&self, of: fn(&UnexplainedOfSender) -> &Unexplained) -> bool {
        self.findings.unexplained.iter().all(|unexplained| of(unexplained).is_lasting())
    }

    /// Whether the ISN of an end was inferred, and no MAC has confirmed it.
    fn is_isn_guessed(&self) -> bool {
        let is_guess = |direction: &Direction| {
            matches!(direction.known_isn, Some((_, IsnSource::Inferred { is_confirmed: false })))
        };
        !self.connection.has_good() && self.connection.directions.iter().any(is_guess)
    }

    /// Whether segments of the sender with this KeyID verify.
    fn is_good_under(&self, key_id: KeyId) -> bool {
        let runs = &self.connection.direction(self.sender).key_runs;
        runs.iter().any(|run| run.key_id == key_id && run.key.is_some())
    }

    /// The keys that a KeyID names in segments of the sender, with the KeyID.
    fn key_names(&self, key_id: KeyId) -> String {
        let Self { sender, connection, table, .. } = *self;
        let named = connection.named_by(table, sender, key_id);
        let names: Vec<_> = named.map(|candidate| table.name(candidate.key as usize)).collect();
        format!("key {} (KeyID {key_id})", names.join(" or "))
    }

    /// The keys, and whether the other end accepts the segments, if a different secret is the only reason left.
    fn of_another_secret(&self) -> Option<(String, bool)> {
        let unexplained = self.unexplained();
        let (key_id, mac_length) = unexplained.bad_mac().ao?;
        let is_left = mac_length >= LEAST_MAC && unexplained.searched > 0 && !self.is_good_under(key_id);
        is_left.then(|| (self.key_names(key_id), self.is_accepted()))
    }

    /// Whether the other end's segments verify under the key that this KeyID names, and the sender's do not.
    fn is_key_of_other_end(&self, key_id: KeyId) -> bool {
        let [own, other] =
            [self.sender, self.sender.other()].map(|end| self.connection.ends[end as usize].address());
        let mut named = self.connection.named_by(self.table, self.sender, key_id);
        let scope = self.connection.scope;
        named.any(|candidate| self.agreement.is_key_of_only(scope, other, own, candidate.key))
    }

    /// Whether both ends see the addresses and ISNs of the capture: the other end accepts the segments, or has signed with these.
    fn are_numbers_seen_alike(&self) -> bool {
        let other = self.connection.direction(self.sender.other());
        // A SYN alone shows only what its sender sees.
        other.good() > other.opening().syns.into() || self.is_accepted()
    }

    fn is_accepted(&self) -> bool {
        is_acknowledged(self.connection, self.sender, self.unexplained().bad_mac().end)
    }

    /// What was tried on the sender's segments, or on those of both ends.
    fn extent(&self, is_of_both: bool) -> Extent {
        let senders = Sender::BOTH.into_iter().filter(|sender| is_of_both || *sender == self.sender);
        let ofs: Vec<_> = senders.map(|sender| &self.findings.unexplained[sender as usize]).collect();
        let union = |list: fn(&Tried) -> &[Cow<'static, str>]| {
            let mut union: Vec<&str> = Vec::new();
            for what in ofs.iter().flat_map(|of| list(of.tried())) {
                if !union.contains(&what.as_ref()) {
                    union.push(what);
                }
            }
            union
        };
        let (tried, left_out) = (union(|tried| &tried.tried), union(|tried| &tried.left_out));
        let searched: u64 = ofs.iter().map(|of| of.searched).sum();
        let on = match ofs.iter().map(|of| of.bad_mac().segments).sum::<u64>() > searched {
            true => format!(" on {searched} of them"),
            false => String::new(),
        };
        let mut possible = Vec::new();
        if !self.are_numbers_seen_alike() {
            possible.extend([
                "address translation (give --nat)",
                "sequence numbers shifted by a firewall (give the sender's with --isn)",
            ]);
        }
        if !self.is_accepted() && ofs.iter().any(|of| of.bad_mac().may_have_other_timestamps) {
            possible.push("timestamps changed on the path");
        }
        let not_excluded = match possible.is_empty() {
            true => String::new(),
            false => format!(" Not excluded: {}.", possible.join(", ")),
        };
        Extent {
            tried: format!(" Tried{on}: {}.", tried.join(", ")),
            left_out: (!left_out.is_empty()).then(|| left_out.join(", ")),
            not_excluded,
        }
    }

    /// What a copy of the SYN or SYN-ACK shows that was recorded on the other side of a device.
    fn with_copy(&self) -> Option<Explanation> {
        let Self { sender, connection, .. } = *self;
        let copies = &self.agreement.copies;
        let of_sender = copies.pair_from(connection.number, connection.ends[sender as usize]);
        let [own, other] = of_sender.or_else(|| copies.pair(connection.number, true))?;
        let signer = connection.sender(&own.ends[0]);
        let neither = if other.is_good { "" } else { ", and neither of them verifies" };
        let compare = compare_as_well(own, other);
        let [sequence, acknowledgment] = self.agreement.copies.shifts(own, other);
        if own.ends != other.ends {
            return Some(translated(own, other));
        }
        let (packet, other_packet) = (own.first.packet, other.first.packet);
        let Ends { own: own_end, other: other_end } = Ends::of(connection, signer);
        let shifted = match [sequence, acknowledgment] {
            [0, 0] => None,
            [shift, 0] => Some(format!("the sequence numbers of {own_end} (by {shift})")),
            [0, shift] => Some(format!("the sequence numbers of {other_end} (by {shift})")),
            [shift, other] => {
                Some(format!("the sequence numbers of {own_end} (by {shift}) and {other_end} (by {other})"))
            }
        };
        if let Some(shifted) = shifted {
            return Some(explain!(
                "numbers-shifted",
                "packets {packet} and {other_packet} are one segment with one MAC, on both sides of a device that shifts \
                 {shifted}{neither}",
                format!("{NO_RANDOMISATION}{compare}")
            ));
        }
        let unexplained = self.unexplained().bad_mac();
        let kinds = own.other_options(other);
        // What is changed in a SYN alone does not explain other segments; timestamps are in all of them.
        let explains_all = unexplained.syns == unexplained.segments || kinds.contains(&TIMESTAMPS);
        if !explains_all || unexplained.damaged > 0 || signer != sender {
            return None;
        }
        let mut changed: Vec<_> = kinds.into_iter().map(option_name).collect();
        if changed.is_empty() {
            let what = if own.has_same_start(other) {
                "the order or padding of the TCP options"
            } else {
                "the TCP header"
            };
            changed.push(what.into());
        }
        let changed = changed.join(", ");
        Some(explain!(
            "changed-on-the-path",
            "packets {packet} and {other_packet} are one segment with one MAC, on both sides of a device that changes \
             {changed}{neither}",
            "Stop the device between {own_end} and {other_end} from changing TCP headers, or, if it changes only options, exclude \
             these from the MAC at both ends.{compare}"
        ))
    }

    /// The diagnosis of segments whose MAC nothing explains.
    pub(super) fn with_bad_mac(&self) -> Option<Diagnosis> {
        let Self { sender, connection, .. } = *self;
        let (unexplained, searched) = (self.unexplained().bad_mac(), self.unexplained().searched);
        let (first, (key_id, mac_length)) = (unexplained.first?, unexplained.ao?);
        let Ends { own, other } = Ends::of(connection, sender);
        let [opener, listener] = connection.ends;
        let (count, from) = (segments(unexplained.segments), first.packet);
        let key = self.key_names(key_id);
        let fail = if unexplained.segments == 1 { "fails" } else { "fail" };
        let good_under_key = self.is_good_under(key_id);
        // One sentence if it is the same for both ends.
        let own_case = self.of_another_secret();
        let is_of_both =
            own_case.is_some() && own_case == Self { sender: sender.other(), ..*self }.of_another_secret();
        let whose =
            if is_of_both { "the segments of both ends".to_owned() } else { format!("{count} of {own}") };
        let nothing = format!("nothing that was tried explains {whose} under {key}");
        let extent = self.extent(is_of_both);
        let tried = &extent.tried;
        let limit = grouped(self.table.options.limits.searches.into());
        let whole = extent.left_out.is_none();
        let is_alone = unexplained.segments == 1 && !is_of_both;
        let explanation = if mac_length < LEAST_MAC {
            explain!(
                "mac-too-short",
                "{own} sends MACs of {mac_length} octets under {key}: these match by chance, so nothing else can be said of \
                 {count}",
                "Set the length of the MAC at {own}; most implementations use 12 octets."
            )
        } else if let Some(explanation) = self.with_copy() {
            explanation
        } else if good_under_key && self.are_lasting(|of| of.bad_mac()) && searched > 0 && whole {
            explain!(
                "unexplained",
                "{count} of {own} under {key} {fail}, from packet {from} on, while others before verify; {other}'s last ones \
                 fail as well. Most likely both ends have changed to another secret under the same KeyID",
                "Give it here.{tried}"
            )
        } else if good_under_key && unexplained.is_lasting() && searched > 0 && whole {
            let advice = match self.is_accepted() {
                true => format!(
                    "{other} has acknowledged these segments, so it has that secret as well: give it here as a second key."
                ),
                false => format!(
                    "If the secret was changed at {own}, correct it there, or change it at {other} and here. Or a device on the path has \
                     begun to alter its segments."
                ),
            };
            explain!(
                "secret-changed",
                "since packet {from} most likely another secret at {own}: its segments before verify under {key}, and {count} fail, with \
                 no good one after",
                advice + tried
            )
        } else if good_under_key && searched > 0 && whole {
            let checksum = match unexplained.damaged {
                0 => "right, so this was not line noise",
                _ => "wrong as well: damaged, or recorded before the network card filled it in",
            };
            explain!(
                "altered",
                "{count} of {own} under {key} {fail} while others verify: altered on the path, or forged",
                "The TCP checksum is {checksum}."
            )
        } else if searched == 0 {
            explain!(
                "not-searched",
                "{count} of {own} under {key} {fail}, and what explains others does not explain them; nothing else was tried, \
                 because {limit} others had been searched before",
                "Select the connection with --peer or --port."
            )
        } else if let Some(left_out) = extent.left_out {
            explain!(
                "unexplained",
                "{nothing}, but the search limit was reached before everything was tried",
                "Select the connection with --peer or --port, and give only its keys. Not tried: {left_out}."
            )
        } else if connection.has_given_isns && !connection.has_good() {
            explain!(
                "unexplained",
                "the ISNs given with --isn are of another connection or in the wrong order, or the secret is another one: \
                 {nothing}",
                "Check the ISNs first."
            )
        } else if self.is_isn_guessed() {
            let not_excluded = extent.not_excluded;
            explain!(
                "unexplained",
                "{nothing}, with an ISN that was only inferred: it is another one if the SYN, which the capture lacks, had data",
                "Record from before the connection opens, or give the ISNs with --isn {opener}-{listener}=ISN,ISN. If segments fail then \
                 as well, compare the secret at {opener}, at {listener} and here.{not_excluded}{tried}"
            )
        } else if is_alone || unexplained.resets == unexplained.segments {
            let (what, more) = match is_alone {
                true => ("that one segment", "Record more segments"),
                false => ("these resets", "Record segments that are not resets"),
            };
            let not_excluded = extent.not_excluded;
            explain!(
                "unexplained",
                "{nothing}: {what} may be forged or altered on the path, or of another secret",
                "{more}; if these fail as well, compare the secret at {opener}, at {listener} and here.{not_excluded}{tried}"
            )
        } else if self.is_key_of_other_end(key_id) && self.is_accepted() {
            explain!(
                "secret-of-one-direction",
                "most likely another secret in this direction only: {other}'s segments verify under {key}, and {nothing}",
                "{other} has acknowledged these segments, so the ends agree, and the key given here is right for the other direction: give \
                 the secret of this one as a second key. Or a device between {other} and the place of the capture changes the \
                 segments.{tried}"
            )
        } else if self.is_key_of_other_end(key_id)
            && connection.direction(sender.other()).acknowledged.is_some()
        {
            let not_excluded = extent.not_excluded;
            explain!(
                "unexplained",
                "{nothing}, although {own} answers {other}'s segments, which verify under that key",
                "If {own} verifies what it answers, it has that secret: look for a second key with SendID {key_id} there, and for a device on \
                 the path that changes its segments. If it does not, correct the secret at {own}.{not_excluded}{tried}"
            )
        } else if self.is_key_of_other_end(key_id) {
            let (own_address, other_address) = (own.address(), other.address());
            let not_excluded = extent.not_excluded;
            explain!(
                "secrets-differ",
                "most likely the two ends have different secrets: {other_address}'s segments verify under {key}, and nothing that \
                 was tried explains {count} of {own}",
                "{other_address} agrees with the key given here: correct the secret at {own_address}, or at {other_address} and \
                 here.{not_excluded}{tried}"
            )
        } else {
            let agree = "so they agree: correct the secret given here.";
            let advice = match self.is_accepted() {
                true if is_of_both => format!("Each has acknowledged the other's segments, {agree}"),
                true => format!(
                    "{other} has acknowledged these segments, so the ends agree: correct the secret given here."
                ),
                false => format!("Compare the secret at {opener}, at {listener} and here."),
            };
            explain!(
                "unexplained",
                "most likely another secret: {nothing}",
                advice + &extent.not_excluded + tried
            )
        };
        Some(explanation.diagnosis(sender, first, unexplained.segments))
    }

    /// The diagnosis of segments whose KeyID no key has, and whose MAC is no key's.
    pub(super) fn with_unknown_key_id(&self) -> Option<Diagnosis> {
        let Self { sender, connection, table, .. } = *self;
        let (unexplained, searched) = (self.unexplained().unknown_key_id(), self.unexplained().searched);
        let (first, (key_id, _)) = (unexplained.first?, unexplained.ao?);
        let Ends { own, other } = Ends::of(connection, sender);
        let copies = self.agreement.copies.pair(connection.number, true);
        let explanation = if let Some([own, other]) = copies.filter(|[own, other]| own.ends != other.ends) {
            translated(own, other)
        } else if connection.candidates.is_empty() {
            let [opener, listener] = connection.ends.map(|end| end.address());
            let of_other = self.findings.unexplained[sender.other() as usize].unknown_key_id().ao;
            let is_same = of_other.is_some_and(|(other, _)| other == key_id);
            let who = if is_same { "each end".to_owned() } else { own.to_string() };
            explain!(
                "no-key",
                "no key given here is for {opener} and {listener}",
                "All keys are for other peers, and {who} sends KeyID {key_id}."
            )
        } else {
            let ids = |candidate: &Candidate| {
                let MktParameters { send_id, recv_id, .. } = table.parameters(*candidate);
                format!("{} (SendID {send_id}, RecvID {recv_id})", table.name(candidate.key as usize))
            };
            let mut keys: Vec<_> = connection.candidates.iter().take(4).map(ids).collect();
            if connection.candidates.len() > keys.len() {
                keys.push(format!("{} more", connection.candidates.len() - keys.len()));
            }
            let have_changed = connection.has_good() && self.are_lasting(|of| of.unknown_key_id());
            let advice = if have_changed {
                "Both ends have changed to keys that are not given here: give them as well.".to_owned()
            } else if is_acknowledged(connection, sender, unexplained.end) {
                format!(
                    "{other} has acknowledged these segments, so both ends have that key: give it here as well."
                )
            } else {
                format!(
                    "Either {other} needs a key with RecvID {key_id}, or {own} must send under another one."
                )
            };
            let (count, keys) = (segments(unexplained.segments), keys.join(", "));
            let tried = if searched > 0 { " or verifies them under another" } else { "" };
            explain!(
                "unknown-key-id",
                "{own} sends KeyID {key_id} in {count}, and no key given here for it has this id{tried}; the keys are {keys}",
                advice
            )
        };
        Some(explanation.diagnosis(sender, first, unexplained.segments))
    }
}

/// What to do besides if neither of two copies verifies: a sentence with a blank in front, or nothing.
fn compare_as_well(own: &Copied, other: &Copied) -> String {
    match other.connection {
        _ if other.is_good => String::new(),
        number if number == own.connection => " Also compare the secrets.".to_owned(),
        number => format!(
            " Also see why segments of connection {number} fail; if nothing explains them either, compare the secrets."
        ),
    }
}

/// A segment that was recorded on both sides of a NAT.
fn translated(own: &Copied, other: &Copied) -> Explanation {
    let (number, other_number) = (own.connection, other.connection);
    let are_ports = own.ends.map(|end| end.address()) == other.ends.map(|end| end.address());
    let what = if are_ports { "ports" } else { "addresses" };
    let same = if own.shifts_from(other) == [0, 0] { "the same ISNs and MACs" } else { "the same MACs" };
    let neither = if other.is_good { "" } else { ", and neither of them verifies" };
    let compare = compare_as_well(own, other);
    let (later, or_replayed) = match own.is_near(other) {
        true => (String::new(), ""),
        false => (own.later_than(other), ", or someone has sent the segments again"),
    };
    explain!(
        "addresses-rewritten",
        "connection {number} has {same} as connection {other_number} under other {what}{later}: {what} are translated on the \
         path{or_replayed}{neither}",
        "TCP-AO signs addresses and ports, so it cannot pass address translation (RFC 5925 §9.2): take the NAT out of the path, or \
         run the session through a tunnel. The capture is from both sides of it.{compare}"
    )
}
