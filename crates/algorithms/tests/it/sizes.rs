//! Sizes and limits, compared with the documents that define them.

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm, TcpAoKdf};

/// Name, MAC, KDF, and the lengths of the traffic key, the default MAC and the shortest master key.
const TCP_AO: [(&str, MacAlgorithm, TcpAoKdf, usize, usize, usize); 5] = [
    ("HMAC-SHA-1-96", MacAlgorithm::HmacSha1, TcpAoKdf::HmacSha1, 20, 12, 1),
    ("AES-128-CMAC-96", MacAlgorithm::Aes128Cmac, TcpAoKdf::Aes128Cmac, 16, 12, 1),
    ("hmac(sha256)", MacAlgorithm::HmacSha256, TcpAoKdf::HmacSha256, 32, 12, 1),
    ("HMAC-SHA256-128", MacAlgorithm::HmacSha256, TcpAoKdf::HkdfSha256, 32, 16, 32),
    ("KMAC256-128", MacAlgorithm::Kmac256, TcpAoKdf::Kmac256, 32, 16, 32),
];

#[test]
fn tcp_ao_sizes() {
    for (algorithm, row) in TcpAoAlgorithm::ALL.into_iter().zip(TCP_AO) {
        let found = (
            algorithm.name(),
            algorithm.mac(),
            algorithm.kdf(),
            algorithm.traffic_key_length(),
            algorithm.default_mac_length(),
            algorithm.min_master_key_length(),
        );
        assert_eq!(found, row);
    }
}

#[test]
fn a_traffic_key_fits_its_mac_and_a_mac_its_option() {
    for algorithm in TcpAoAlgorithm::ALL {
        let key_length = algorithm.mac().key_length().unwrap_or(algorithm.traffic_key_length());
        assert_eq!(key_length, algorithm.traffic_key_length());
        assert!(algorithm.default_mac_length() <= algorithm.mac().output_length());
        let lengths = TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH;
        assert!(lengths.contains(&algorithm.default_mac_length()));
        assert!(TcpAoAlgorithm::MAX_MAC_LENGTH <= algorithm.mac().output_length());
    }
}

#[test]
fn mac_sizes() {
    let found = MacAlgorithm::ALL.map(|mac| (mac.name(), mac.output_length(), mac.key_length()));
    let expected = [
        ("HMAC-SHA-1", 20, None),
        ("HMAC-SHA-256", 32, None),
        ("AES-128-CMAC", 16, Some(16)),
        ("KMAC256", 32, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn aead_sizes_and_limits() {
    let found = AeadAlgorithm::ALL.map(|aead| {
        assert_eq!(aead.header_protection_key_length(), aead.key_length());
        let limits = (aead.confidentiality_limit(), aead.integrity_limit());
        (aead.name(), aead.key_length(), aead.secret_length(), aead.max_text_length(), limits)
    });
    let expected = [
        ("TLS_AES_128_GCM_SHA256", 16, 32, 68_719_476_704, (Some(8_388_608), 4_503_599_627_370_496)),
        ("TLS_AES_256_GCM_SHA384", 32, 48, 68_719_476_704, (Some(8_388_608), 4_503_599_627_370_496)),
        ("TLS_CHACHA20_POLY1305_SHA256", 32, 32, 274_877_906_880, (None, 68_719_476_736)),
        ("TLS_AES_128_CCM_SHA256", 16, 32, 16_777_215, (Some(2_965_820), 2_965_820)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn only_the_four_tls_code_points_give_an_aead() {
    let known: Vec<u16> =
        (0..=u16::MAX).filter(|&c| AeadAlgorithm::from_tls_cipher_suite(c).is_some()).collect();
    assert_eq!(known, [0x1301, 0x1302, 0x1303, 0x1304]);
    for aead in AeadAlgorithm::ALL {
        assert_eq!(AeadAlgorithm::from_tls_cipher_suite(aead.tls_cipher_suite()), Some(aead));
    }
}

#[test]
fn an_algorithm_prints_its_name_in_a_column_of_any_width() {
    fn check(algorithm: impl core::fmt::Display, name: &str) {
        assert_eq!(algorithm.to_string(), name);
        assert_eq!(format!("{algorithm:<40}|"), format!("{name:<40}|"));
    }
    MacAlgorithm::ALL.iter().for_each(|mac| check(mac, mac.name()));
    TcpAoAlgorithm::ALL.iter().for_each(|algorithm| check(algorithm, algorithm.name()));
    AeadAlgorithm::ALL.iter().for_each(|aead| check(aead, aead.name()));
}
