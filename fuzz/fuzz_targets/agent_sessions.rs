//! Saved sessions: a file is read completely or not at all, and no session twice.
//!
//! Input: the file.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use wireseal_agent::fuzzing::saved_sessions;
use wireseal_tcp_ao::ConnectionState;

fuzz_target!(|octets: &[u8]| {
    let (chunks, rest) = octets.as_chunks::<{ ConnectionState::OCTETS }>();
    let each: Vec<_> = chunks.iter().map(|chunk| ConnectionState::from_octets(chunk)).collect();
    match saved_sessions(octets) {
        Ok(sessions) => {
            assert!(rest.is_empty());
            let mut pairs = HashSet::new();
            let first = each.into_iter().map(|session| session.expect("it is read as a whole"));
            let first: Vec<_> = first.filter(|session| pairs.insert(session.pair)).collect();
            assert_eq!(sessions, first);
        }
        Err(why) => assert!(!why.is_empty() && (!rest.is_empty() || each.iter().any(Result::is_err))),
    }
});
