use super::*;

/// As `iptables -S` prints a table.
const LISTED: &str = "-P PREROUTING ACCEPT
-P OUTPUT ACCEPT
-N WIRESEAL-OLD
-N WIRESEAL-IN
-N OTHER
-A PREROUTING -p udp -j ACCEPT
-A PREROUTING -j WIRESEAL-IN
-A OUTPUT -j WIRESEAL-OLD
-A OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD
-A WIRESEAL-OLD -j ACCEPT
-A WIRESEAL-IN -j WIRESEAL-OLD
";

#[test]
fn what_is_ours_takes_the_place_of_whatever_was() {
    let content = Content {
        jumps: vec![("PREROUTING", "WIRESEAL-IN")],
        chains: vec!["WIRESEAL-IN".to_owned()],
        rules: "-A WIRESEAL-IN -p tcp -j DROP\n".to_owned(),
    };
    let expected = "*raw
:WIRESEAL-IN - [0:0]
:WIRESEAL-OLD - [0:0]
-D PREROUTING -j WIRESEAL-IN
-D OUTPUT -j WIRESEAL-OLD
-D OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD
-A WIRESEAL-IN -p tcp -j DROP
-I PREROUTING -j WIRESEAL-IN
-X WIRESEAL-OLD
COMMIT
";
    assert_eq!(restored("raw", LISTED, &content), expected);
    assert_eq!(restored("raw", "-P OUTPUT ACCEPT\n-A OUTPUT -j OTHER\n", &Content::default()), "");
}

#[test]
fn a_jump_behind_another_rule_is_not_the_jump() {
    let expected = [
        "-A OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD",
        "-A OUTPUT -j WIRESEAL-OLD",
        "-A PREROUTING -j WIRESEAL-IN (behind another rule)",
        "-N WIRESEAL-IN",
        "-A WIRESEAL-IN -j WIRESEAL-OLD",
        "-N WIRESEAL-OLD",
        "-A WIRESEAL-OLD -j ACCEPT",
    ];
    assert_eq!(ours(LISTED), expected);
}
