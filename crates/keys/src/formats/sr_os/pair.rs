//! Send entries and receive entries that are one key.

use super::entry::Entry;

/// A key, and how certain it is that both entries are one.
pub(super) struct Pair<'a> {
    pub(super) send: Entry<'a>,
    pub(super) receive: Entry<'a>,
    /// Whether the secrets could be compared.
    pub(super) is_certain: bool,
}

/// Whether two entries may be one key.
type Rule = fn(&Entry<'_>, &Entry<'_>) -> bool;

/// The rules in order of strength; an entry is taken by the first rule that has another for it.
const RULES: [(Rule, bool); 4] = [
    (|send, receive| has_same_secret(send, receive) && send.begin == receive.begin, true),
    (has_same_secret, true),
    (|send, receive| has_unknown_secret(send, receive) && send.begin == receive.begin, false),
    (has_unknown_secret, false),
];

/// Pairs entries. An MKT has both directions, so those that are left are no keys.
pub(super) fn pair<'a>(send: Vec<Entry<'a>>, mut receive: Vec<Entry<'a>>) -> (Vec<Pair<'a>>, Vec<Entry<'a>>) {
    let mut found: Vec<_> = send.iter().map(|_| None).collect();
    for (rule, is_certain) in RULES {
        for (send, found) in send.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let at =
                receive.iter().position(|receive| send.algorithm == receive.algorithm && rule(send, receive));
            *found = at.map(|at| (receive.remove(at), is_certain));
        }
    }
    let mut pairs = Vec::with_capacity(send.len());
    let mut alone = Vec::new();
    for (send, found) in send.into_iter().zip(found) {
        match found {
            Some((receive, is_certain)) => pairs.push(Pair { send, receive, is_certain }),
            None => alone.push(send),
        }
    }
    alone.extend(receive);
    (pairs, alone)
}

fn has_same_secret(send: &Entry<'_>, receive: &Entry<'_>) -> bool {
    match (send.secret.encryption(), receive.secret.encryption()) {
        (None, None) => send.secret.expose() == receive.secret.expose(),
        (one, other) => one == other && send.written.text() == receive.written.text(),
    }
}

fn has_unknown_secret(send: &Entry<'_>, receive: &Entry<'_>) -> bool {
    send.secret.encryption().is_some() || receive.secret.encryption().is_some()
}
