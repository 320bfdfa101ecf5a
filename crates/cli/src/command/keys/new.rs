//! `wireseal keys new`: a key chain with a random secret.

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, KeyChains};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::command::outcome::{Outcome, Result};
use crate::command::private::{check_terminal, fresh_secret, write_new, write_text};
use crate::command::say::say;

/// Make a key chain of one key, with a random secret.
///
/// The ids are the same in both directions by default, so the same file works at both ends. `wireseal keys convert --other-end` writes it
/// for a router.
///
/// Exit codes: 0 written, 2 the file exists, or cannot be written.
#[derive(Debug, clap::Args)]
pub(super) struct NewArguments {
    /// The name of the key chain, by which peers refer to it
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// The algorithm; both ends must support it
    #[arg(long, default_value_t = TcpAoAlgorithm::Aes128Cmac)]
    algorithm: TcpAoAlgorithm,
    /// The KeyID in segments that this end sends, 0 to 255; every implementation accepts 1 to 63
    #[arg(long, value_name = "ID", default_value_t = 1)]
    send_id: u8,
    /// The KeyID in segments that this end receives, if it differs from the SendID
    #[arg(long, value_name = "ID", requires = "send_id")]
    recv_id: Option<u8>,
    /// The new file, readable only by its owner; an existing one is never replaced. `-`, the default, is standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write to standard output even if that is a terminal
    #[arg(long)]
    show_secrets: bool,
}

pub(super) fn run(arguments: &NewArguments) -> Result {
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    if output.is_none() {
        check_terminal(arguments.show_secrets, "--output FILE")?;
    }
    let NewArguments { name, algorithm, send_id, .. } = arguments;
    let recv_id = arguments.recv_id.unwrap_or(*send_id);
    let secret = fresh_secret(secret_length(*algorithm))?;
    let mkt = Mkt::new(KeyId(*send_id), KeyId(recv_id), *algorithm, MasterKey::new(secret.expose())?)?;
    let chain = KeyChain::new(name.as_str(), vec![Key::new(u64::from(*send_id), mkt)])?;
    let text = KeyChains::new(vec![chain])?.to_toml();
    let Some(path) = output else {
        write_text(&mut io::stdout().lock(), &text)?;
        return Ok(Outcome::Good);
    };
    write_new(path, &text)?;
    let path = path.display();
    say(format_args!(
        "made {path}: key chain {name}, SendID {send_id}, RecvID {recv_id}, {algorithm}, a random secret of {} characters",
        secret.expose().len()
    ));
    let copy = if recv_id == *send_id { "copy it there, or " } else { "" };
    say(format_args!(
        "for the other end, {copy}convert it to that end's format: wireseal keys convert {path} --to FORMAT --other-end --output NEW"
    ));
    Ok(Outcome::Good)
}

/// 32 characters, which have 190 bits; more if the algorithm requires longer keys, so that these have as many bits.
fn secret_length(algorithm: TcpAoAlgorithm) -> usize {
    // A character has 5.95 bits.
    (algorithm.min_master_key_length() * 800).div_ceil(595).max(32)
}
