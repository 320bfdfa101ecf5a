//! The programs that install rules.

use std::io::{self, ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use crate::gateway::GatewayError;

/// Runs a program with this input; returns what it prints. The first line of what it says of errors is in the error.
pub(super) fn call(program: &str, arguments: &[&str], input: &str) -> Result<String, GatewayError> {
    let output = run(program, arguments, input).map_err(|error| {
        GatewayError::Rules(match error.kind() {
            ErrorKind::NotFound => format!("{program} is not installed"),
            _ => format!("{program}: {error}"),
        })
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // nft quotes the rule that the kernel does not take.
    if said.contains("No such file or directory") && said.contains(" queue num ") {
        return Err(GatewayError::Rules(format!(
            "{program}: this kernel's nf_tables has no queues (CONFIG_NFT_QUEUE)"
        )));
    }
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim();
    let advice = match said.contains("not permitted") || said.contains("Permission denied") {
        true => " (it needs CAP_NET_ADMIN)",
        false => "",
    };
    Err(GatewayError::Rules(format!("{program}: {said}{advice}")))
}

fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // It has ended before, and says why.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait_with_output()
}
