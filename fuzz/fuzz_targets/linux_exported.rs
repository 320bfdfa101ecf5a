//! Connections exported from a socket: octets read back the same, truncated ones are refused with the name of the field, and `Debug` does not show the queues.
//!
//! Input: the octets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_linux::{Exported, ExportedError};
use wireseal_tcp_ao::ConnectionState;

fuzz_target!(|octets: &[u8]| {
    let exported = match Exported::from_octets(octets) {
        Ok(exported) => exported,
        Err(error) => {
            assert!(matches!(error, ExportedError::Version(_)) == (octets.first() != Some(&1)), "{error}");
            return;
        }
    };
    assert_eq!(exported.to_octets(), octets, "there is one encoding of each state");
    let queues = exported.tcp.send_queue.len() + exported.tcp.receive_queue.len();
    assert!(queues + ConnectionState::OCTETS < octets.len());
    // The queues' contents are not shown, however long they are.
    assert!(format!("{exported:?}").len() < 2000);
    for length in [0, 1, octets.len() / 2, octets.len() - 1] {
        let error = Exported::from_octets(&octets[..length]).expect_err("it is cut off");
        assert!(!error.to_string().is_empty());
    }
    let longer = [octets, &[0]].concat();
    assert!(matches!(Exported::from_octets(&longer), Err(ExportedError::Authentication(_))));
});
