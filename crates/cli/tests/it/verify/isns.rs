//! SYNs with data, whose answers acknowledge more than the SYN, and where an ISN is from.

use wireseal::verify::report::{IsnSource, Standing, Verdict};
use wireseal_tcp_ao::Isn;

use crate::support::session::{
    ACK, Found, IPV4_KEY, PSH, RST, Recorded, SYN, Session, session, verify, verify_with, with_isns,
};

/// A connection whose SYN has payload, of which the SYN-ACK acknowledges `acknowledged` octets.
fn fast_open(acknowledged: u64) -> Session {
    let mut session = Session::usual([1000, 5000]);
    open_fast(&mut session, acknowledged);
    session
}

fn open_fast(session: &mut Session, acknowledged: u64) {
    session.send(0, SYN, b"a request");
    session.next[0] -= 9 - acknowledged;
    session.send(1, SYN | ACK, &[]);
}

fn sources(found: &Found) -> [Option<IsnSource>; 2] {
    [0, 1].map(|end| found.connections[0].directions[end].isn_source)
}

#[test]
fn an_answer_to_a_syn_with_data_has_the_isn_of_the_syn() {
    for acknowledged in [0, 5, 9] {
        let mut session = fast_open(acknowledged);
        session.send(0, ACK | PSH, &b"a request"[acknowledged as usize..]);
        session.talk();
        let found = session.all_good(1);
        assert_eq!(found.connections[0].directions[0].isn, Some(Isn(1000)));
        assert_eq!(sources(&found), [Some(IsnSource::Seen); 2]);
    }
    // A retransmission without the data does not make the answer another one.
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, b"a request");
    session.next[0] = 1000;
    session.send(0, SYN, &[]);
    session.next[0] += 9;
    session.send(1, SYN | ACK, &[]);
    session.all_good(1);
}

#[test]
fn an_answer_to_more_than_was_sent_is_none() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, b"a request");
    session.next[0] += 1;
    session.send(1, SYN | ACK, &[]);
    assert_eq!(verify(&session.packets, &[IPV4_KEY]).verdicts(), [Verdict::Good, Verdict::BadMac]);
}

#[test]
fn a_forged_syn_with_data_does_not_take_the_place_of_the_genuine_one() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.again([993, 5000]);
    session.signing[0].secret = b"forged".to_vec();
    session.send(0, SYN, b"a request");
    session.again([1000, 5000]);
    session.next[0] = 1001;
    session.send(1, SYN | ACK, &[]);
    let verdicts = verify(&session.packets, &[IPV4_KEY]).verdicts();
    assert_eq!(verdicts, [Verdict::Good, Verdict::BadMac, Verdict::Good]);
}

#[test]
fn a_syn_with_data_may_open_another_connection_while_one_is_open() {
    let mut session = session();
    session.again([70_000, 90_000]);
    open_fast(&mut session, 9);
    session.send(0, ACK, &[]);
    session.talk();
    let found = session.all_good(2);
    // The SYN itself still belongs to the connection that was open.
    let isns = [0, 1].map(|end| found.connections[1].directions[end].isn);
    assert_eq!(isns, [Some(Isn(70_000)), Some(Isn(90_000))]);
}

#[test]
fn a_reset_may_answer_a_syn_with_data() {
    let mut session = Session::usual([1000, 0]);
    session.send(0, SYN, b"a request");
    session.isns[1] = Isn(0);
    session.send(1, RST | ACK, &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.connections[0].standing(), Standing::NotOpen);
    found.assert_diagnosed("refused", &["192.0.2.2:179 refused the connection"]);
}

#[test]
fn it_is_said_where_an_isn_is_from() {
    let whole = session().packets;
    let proved = Some(IsnSource::Inferred { is_confirmed: true });
    // Without the SYN; without both; and with a wrong secret.
    assert_eq!(sources(&verify(&whole[1..], &[IPV4_KEY])), [proved, Some(IsnSource::Seen)]);
    assert_eq!(sources(&verify(&whole[2..], &[IPV4_KEY])), [proved; 2]);
    let wrong = IPV4_KEY.replace("first-secret", "second-secret");
    let guessed = Some(IsnSource::Inferred { is_confirmed: false });
    let without_syn = verify(&whole[1..], &[&wrong]);
    assert_eq!(sources(&without_syn), [guessed, Some(IsnSource::Seen)]);
    without_syn.assert_diagnosed("unexplained", &["with an ISN that was only inferred"]);
    let options = with_isns("192.0.2.1:50000-192.0.2.2:179=1000,5000");
    let given = verify_with(&whole[4..], &[IPV4_KEY], options);
    assert_eq!(sources(&given), [Some(IsnSource::Given); 2]);
    assert_eq!(sources(&verify(&whole[4..], &[IPV4_KEY])), [None; 2]);
}

#[test]
fn hints_about_no_connection_are_said_to_be_unused() {
    let [used, of_another] = ["192.0.2.1:50000-192.0.2.2:179=1000,5000", "192.0.2.1:50001-192.0.2.2:179=1,2"];
    let [translated, elsewhere] = ["10.0.0.1=192.0.2.1", "10.0.0.9=198.51.100.9"];
    let mut options = with_isns(used);
    options.isns.push(of_another.parse().unwrap());
    options.nat = [translated, elsewhere].map(|hint| hint.parse().unwrap()).to_vec();
    let unused = [format!("--isn {of_another}"), format!("--nat {elsewhere}")];
    for from in [0, 4] {
        let found = verify_with(&session().packets[from..], &[IPV4_KEY], options.clone());
        assert_eq!(found.totals.unused_hints, unused);
    }
    // A connection that is left out has no use for them.
    options.ports = vec![180];
    let found = verify_with(&session().packets, &[IPV4_KEY], options);
    assert_eq!(found.totals.unused_hints.len(), 4);
}

#[test]
fn an_isn_that_is_missing_is_named() {
    let wrong = [IPV4_KEY.replace("first-secret", "second-secret")];
    let wrong: Vec<_> = wrong.iter().map(String::as_str).collect();
    let cause = |packets: &[Recorded]| {
        let found = verify(packets, &wrong);
        let of = found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "isn-not-seen");
        of.map(|diagnosis| diagnosis.cause.clone()).unwrap_or_default()
    };
    let packets = session().packets;
    let opener: Vec<_> = [0, 2, 3, 5].map(|index: usize| packets[index].clone()).into();
    assert!(
        cause(&opener).starts_with("the capture has nothing that 192.0.2.2:179 sent"),
        "{}",
        cause(&opener)
    );
    let no_syn_ack = [&packets[..1], &packets[2..]].concat();
    assert!(
        cause(&no_syn_ack).starts_with("the capture lacks the SYN-ACK of 192.0.2.2:179"),
        "{}",
        cause(&no_syn_ack)
    );
    assert!(cause(&packets[2..]).starts_with("the capture lacks the start of the connection"));
}
