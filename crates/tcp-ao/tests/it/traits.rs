//! Conversions, texts, serde, and the one error type.

use std::net::SocketAddr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::ip::IpHeader;
use wireseal_tcp_ao::{
    AoOption, ConnectionIdentifier, Counters, Endpoint, Error, Isn, KeyId, MasterKey, MktParameters,
    OptionCoverage, Segment, SocketPair, append_ao,
};

use crate::support::{ipv4_pair, ipv6_pair, mkt, mkts};

#[test]
fn endpoints_are_socket_addresses_and_texts() {
    for endpoint in [ipv4_pair().local, ipv6_pair().remote] {
        assert_eq!(Endpoint::from(SocketAddr::from(endpoint)), endpoint);
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
    let mapped: Endpoint = "[::ffff:192.0.2.2]:179".parse().unwrap();
    assert_eq!(mapped, ipv4_pair().remote);
    assert!("192.0.2.2".parse::<Endpoint>().is_err());
}

#[test]
fn key_ids_are_octets_and_texts() {
    assert_eq!((KeyId::from(7), u8::from(KeyId(7))), (KeyId(7), 7));
    assert_eq!(KeyId(255).to_string().parse(), Ok(KeyId(255)));
    assert!("256".parse::<KeyId>().is_err());
}

#[test]
fn every_error_becomes_the_one_type() {
    fn text<T>(result: Result<T, impl Into<Error>>) -> String {
        result.map(drop).map_err(Into::into).unwrap_err().to_string()
    }
    let ends = || crate::support::Ends::<2>::with_ids(&[(1, 2)]);
    let texts = [
        text(Segment::parse(&[])),
        text(IpHeader::parse(&[])),
        text(AoOption::find(&[29, 2])),
        text(append_ao(&mut [], 0, 12)),
        text(
            mkts::<1>(&[(1, 2)]).verify_syn(
                Segment::parse(&crate::support::packet(
                    ipv4_pair(),
                    &crate::support::Parts::new(ipv4_pair(), crate::support::SYN, 1, 0).unsigned(),
                ))
                .unwrap(),
            ),
        ),
        text(ends().active.sign(&mut [])),
        text(MasterKey::new(b"")),
        text(ends().active.set_rnext_key(KeyId(9))),
        text(wireseal_tcp_ao::ConnectionState::from_octets(&[])),
    ];
    // Each prints as the error that it holds.
    assert_eq!(texts[6], "master key is empty");
    assert_eq!(texts[7], "the connection has no key with RecvID 9");
    assert!(texts.iter().all(|text| !text.is_empty()));
}

/// What serde writes; checks that it reads the same value.
fn written<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> String {
    let text = serde_json::to_string(value).unwrap();
    let again: T = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    text
}

#[test]
fn serde_writes_what_people_write() {
    assert_eq!(written(&(KeyId(7), Isn(1))), "[7,1]");
    assert_eq!(written(&TcpAoAlgorithm::Aes128Cmac), r#""AES-128-CMAC-96""#);
    assert_eq!(
        serde_json::from_str::<TcpAoAlgorithm>(r#""cmac aes128""#).unwrap(),
        TcpAoAlgorithm::Aes128Cmac
    );
    assert_eq!(
        written(&SocketPair { ..ipv6_pair() }),
        r#"{"local":"[2001:db8::1]:49152","remote":"[2001:db8::2]:179"}"#
    );
    let parameters = *mkt(1, 2, TcpAoAlgorithm::HmacSha1).with_options(OptionCoverage::Excluded).parameters();
    let text = written(&parameters);
    assert_eq!(
        text,
        r#"{"send-id":1,"recv-id":2,"algorithm":"HMAC-SHA-1-96","mac-length":12,"options":"excluded","accept-only":false}"#
    );
    let error = serde_json::from_str::<MktParameters>(&text.replace("12", "17")).unwrap_err();
    assert!(error.to_string().contains("MAC length is 17 octets"), "{error}");
    let error = serde_json::from_str::<MktParameters>(&text.replace("12", "[12]")).unwrap_err();
    assert!(error.to_string().starts_with("invalid type: sequence, expected usize"), "{error}");
    let between =
        ConnectionIdentifier::between("192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap());
    assert_eq!(
        written(&between),
        r#"{"local":"192.0.2.0/24","remote":"2001:db8::/32","local-port":null,"remote-port":null}"#
    );
    let counters = Counters { good: 3, ..Counters::default() };
    assert_eq!(written(&counters), r#"{"good":3,"bad":0,"key_not_found":0,"required":0,"dropped_icmp":0}"#);
}
