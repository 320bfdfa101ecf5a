//! `wireseal --version`: which build this is, and what it uses on this machine.

use wireseal_algorithms::TcpAoAlgorithm;

use super::selftest::write_machine;

/// The version and the commit, in one line.
pub(super) fn short() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("WIRESEAL_COMMIT") {
        "" => version.to_owned(),
        commit => format!("{version} ({commit})"),
    }
}

/// Also what was built in, and which of it this processor uses.
pub(super) fn long() -> String {
    let libraries = if cfg!(target_feature = "crt-static") { "static" } else { "with shared libraries" };
    let algorithms = TcpAoAlgorithm::ALL.map(TcpAoAlgorithm::name).join(", ");
    let mut machine = Vec::new();
    // Writing to memory does not fail.
    let _ = write_machine(&mut machine);
    format!(
        "{}\n\
         target:                {}, {libraries}\n\
         TCP-AO:                {algorithms}\n\
         {}",
        short(),
        env!("WIRESEAL_TARGET"),
        String::from_utf8_lossy(&machine).trim_end()
    )
}
