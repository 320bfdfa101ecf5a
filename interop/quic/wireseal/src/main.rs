//! quinn on Wireseal, as one end of an interoperability test: `certificates`, `client` or `server`.
//!
//! It carries the octets of one file to the peer and back over one stream, and prints one JSON object on what it saw. It exits
//! with 0 when the exchange came to its end, 1 when it did not, and 2 when its arguments make no sense.

mod counted;
mod echo;
mod endpoint;
mod http3;
mod provider;
mod recording;
mod report;
mod updates;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use pico_args::Arguments;

/// Why a run came to nothing, in words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The application protocol on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    /// The server sends back what it receives.
    Echo,
    /// One HTTP/3 request whose body goes up; what comes down is the body of the response.
    Http3,
}

impl Application {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Echo => b"wireseal-interop",
            Self::Http3 => b"h3",
        }
    }

    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "echo" => Ok(Self::Echo),
            "h3" => Ok(Self::Http3),
            _ => Err(format!("--application is echo or h3, not {name}")),
        }
    }
}

/// What one run is to do.
#[derive(Debug)]
struct Task {
    /// A client's peer, or where a server listens.
    address: SocketAddr,
    application: Application,
    /// The one suite offered or accepted, by its name in the TLS registry, such as `TLS_AES_128_GCM_SHA256`.
    suite: String,
    /// The QUIC version that a client offers, as on the wire; a server takes those that quinn has.
    version: u32,
    /// Whether this end starts key updates.
    update_keys: bool,
    /// Whether a server asks for the address to be validated first.
    retry: bool,
    /// Folder with `ca.pem`, `server.pem` and `server.key`.
    certificates: PathBuf,
    /// File whose octets a client sends.
    payload: PathBuf,
    /// Where to record the datagrams that this end sends, if anywhere.
    record: Option<PathBuf>,
}

fn task(mut arguments: Arguments) -> Result<Task, Failure> {
    let task = Task {
        address: arguments.value_from_str("--address")?,
        application: arguments.value_from_fn("--application", Application::from_name)?,
        suite: arguments.value_from_str("--suite")?,
        version: arguments
            .opt_value_from_fn("--version", |hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16))?
            .unwrap_or(1),
        update_keys: arguments.contains("--update-keys"),
        retry: arguments.contains("--retry"),
        certificates: arguments.value_from_str("--certificates")?,
        payload: arguments.opt_value_from_str("--payload")?.unwrap_or_default(),
        record: arguments.opt_value_from_str("--record")?,
    };
    match arguments.finish().first() {
        None => Ok(task),
        Some(unknown) => Err(format!("{} is no argument of this program", unknown.display()).into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = Arguments::from_env();
    let command = arguments.subcommand().ok().flatten().unwrap_or_default();
    let outcome = match command.as_str() {
        "certificates" => match arguments.free_from_str::<PathBuf>() {
            Ok(folder) => endpoint::write_certificates(&folder),
            Err(error) => return misused(&error.into()),
        },
        "client" | "server" => {
            let task = match task(arguments) {
                Ok(task) => task,
                Err(error) => return misused(&error),
            };
            if command == "client" { endpoint::client(&task).await } else { endpoint::server(&task).await }
        }
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
