//! Ends with different secrets, one of which is the secret given.

use wireseal::verify::report::Verdict;
use wireseal_tcp_ao::Endpoint;

use crate::support::found::{Found, IPV4_KEY, verify};
use crate::support::session::{ACK, MSS, SYN, Session, session};

/// The ends of a connection that the usual listener opens.
fn the_other_way() -> [Endpoint; 2] {
    [Endpoint::new([192, 0, 2, 2], 50_001), Endpoint::new([192, 0, 2, 1], 179)]
}

/// What is found if 192.0.2.2 has another secret, and each end sends three SYNs to the other.
fn each_end_opens(order: [usize; 2]) -> Found {
    let mut sessions = [Session::usual([1000, 5000]), Session::usual([7000, 9000])];
    sessions[1].ends = the_other_way();
    sessions[1].signing[0].secret = b"another secret".to_vec();
    let mut packets = Vec::new();
    for place in order {
        let syn = sessions[place].signed(0, SYN, &MSS, &[]);
        sessions[place].repeat(0, &syn, 3);
        packets.append(&mut sessions[place].packets);
    }
    verify(&packets, &[IPV4_KEY])
}

#[test]
fn the_first_line_says_that_the_ends_have_different_secrets() {
    let different = "most likely the two ends have different secrets: 192.0.2.1's segments verify under key 100 (KeyID 100), and \
                     nothing that was tried explains 3 segments of 192.0.2.2:50001";
    for order in [[0, 1], [1, 0]] {
        let found = each_end_opens(order);
        assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (3, 3));
        assert_eq!(found.last_line(&[IPV4_KEY]), format!("3 of 6 segments failed: {different}"));
        let sentences: Vec<_> = found.diagnoses().iter().map(|it| (it.kind, it.sentence())).collect();
        let advice = "192.0.2.1 agrees with the key given here: correct the secret at 192.0.2.2, or at 192.0.2.1 and here.";
        assert!(sentences.contains(&("secrets-differ", format!("{different}. {advice}"))), "{sentences:#?}");
        let unanswered = "192.0.2.2:179 did not answer any of the 3 SYNs of 192.0.2.1:50000, which verify under key 100 (KeyID 100); its \
                          own segments do not, so most likely the two ends have different secrets. Correct the secret at \
                          192.0.2.2, or at 192.0.2.1 and here.";
        assert!(sentences.contains(&("syn-unanswered", unanswered.to_owned())), "{sentences:#?}");
    }
}

#[test]
fn one_end_of_a_connection_has_another_secret() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[1].secret = b"another secret".to_vec();
    session.send(0, SYN, &[]);
    let syn_ack = session.signed(1, SYN | ACK, &MSS, &[]);
    session.repeat(1, &syn_ack, 4);
    let found = verify(&session.packets, &[IPV4_KEY]);
    let first = "4 of 5 segments failed: most likely the two ends have different secrets: 192.0.2.1's segments verify under key 100 \
                 (KeyID 100), and nothing that was tried explains 4 segments of 192.0.2.2:179";
    assert_eq!(found.last_line(&[IPV4_KEY]), first);
    assert_eq!(found.kinds(), ["secrets-differ", "syn-ack-unanswered"]);
}

/// An end whose segments verify elsewhere has the secret: the others are forged.
#[test]
fn forged_syns_do_not_show_another_secret() {
    let mut genuine = session();
    let mut forged = Session::usual([7000, 9000]);
    forged.ends = the_other_way();
    forged.signing[0].secret = b"guessed".to_vec();
    forged.time = genuine.time;
    let syn = forged.signed(0, SYN, &MSS, &[]);
    forged.repeat(0, &syn, 3);
    genuine.packets.append(&mut forged.packets);
    let found = verify(&genuine.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["unexplained", "syn-unanswered"]);
}
