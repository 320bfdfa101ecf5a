//! The client.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use rpki::rtr::client::{Client, PayloadError, PayloadTarget};
use rpki::rtr::payload::{Action, Payload, Timing};
use wireseal_linux::{KeyManager, TcpAoStream};

use crate::config::Config;

/// Connects to a server and prints its origins until it closes the connection.
pub async fn fetch(config: &Path, server: SocketAddr) -> Result<()> {
    let peers = KeyManager::default();
    Config::load(config, &peers)?;
    let stream = TcpAoStream::connect_async(server, &peers).await?;
    Client::new(stream, Origins::default(), None).run().await?;
    Ok(())
}

/// The server's origins.
#[derive(Default)]
struct Origins(BTreeSet<Payload>);

impl PayloadTarget for Origins {
    type Update = Vec<(Action, Payload)>;

    fn start(&mut self, reset: bool) -> Self::Update {
        if reset {
            self.0.clear();
        }
        Vec::new()
    }

    fn apply(&mut self, update: Self::Update, _: Timing) -> Result<(), PayloadError> {
        for (action, payload) in update {
            match action {
                Action::Announce => self.0.insert(payload),
                Action::Withdraw => self.0.remove(&payload),
            };
        }
        println!("{} origins", self.0.len());
        for origin in self.0.iter().filter_map(Payload::to_origin) {
            println!("{} {}", origin.prefix, origin.asn);
        }
        Ok(())
    }
}
