//! quinn or s2n-quic on Wireseal, as one end of an interoperability test: `certificates`, `client` or `server`.
//!
//! It carries the octets of a file to the peer and back over one stream, and prints a report as one line of JSON. The exit status
//! is 0 if the exchange was completed, 1 if it was not, and 2 if the arguments are wrong.

mod endpoint;
mod recording;
mod s2n;
mod task;
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;

use peer_program::Failure;
use pico_args::Arguments;

use crate::task::{Stack, Task};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = Arguments::from_env();
    let command = arguments.subcommand().ok().flatten().unwrap_or_default();
    let outcome = match command.as_str() {
        "certificates" => match arguments.free_from_str::<PathBuf>() {
            Ok(folder) => endpoint::write_certificates(&folder),
            Err(error) => return misused(&error.into()),
        },
        "client" | "server" => match Task::from_arguments(arguments) {
            Ok(task) => match (task.stack, command == "client") {
                (Stack::Quinn, true) => endpoint::client(&task).await,
                (Stack::Quinn, false) => endpoint::server(&task).await,
                (Stack::S2nQuic, true) => s2n::client(&task).await,
                (Stack::S2nQuic, false) => s2n::server(&task).await,
            },
            Err(error) => return misused(&error),
        },
        _ => return misused(&"the first argument is certificates, client or server".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn misused(error: &Failure) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(2)
}
