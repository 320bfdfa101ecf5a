//! A page of the documentation: what it tells the reader to write and to run, followed on a guest as it stands there.

use agent::WriteFile;
use wireseal_keys::KeyChains;
use wireseal_tcp_ao::Mkt;

use crate::guest::Guest;
use crate::row::prelude::*;

/// A page's text, or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub text: &'static str,
}

impl Page {
    /// The part under the heading of the second level that has these words, up to the next.
    pub fn part(self, words: &str) -> Result<Self> {
        let mut parts = self.text.split("\n## ").skip(1);
        let has_words = |part: &&str| part.lines().next().is_some_and(|heading| heading.contains(words));
        let text = parts.find(has_words).with_context(|| format!("the page has no part {words:?}"))?;
        Ok(Self { text })
    }

    /// The files to write, with their contents: each a block after the line that names it.
    pub fn files(self) -> Vec<(String, String)> {
        let mut named = None;
        let mut files = Vec::new();
        let mut blocks = self.text.split("```");
        while let Some(text) = blocks.next() {
            let name = text.split('`').rfind(|word| word.starts_with("/etc/"));
            named = name.map(ToOwned::to_owned).or(named);
            let Some((kind, block)) = blocks.next().and_then(|block| block.split_once('\n')) else { break };
            if matches!(kind, "toml" | "frr" | "ini" | "conf" | "bird")
                && let Some(name) = named.take()
            {
                files.push((name, block.to_owned()));
            }
        }
        files
    }

    /// Its commands, without those that install Debian's packages: the guest's file system was made with them.
    pub fn commands(self) -> impl Iterator<Item = &'static str> {
        let commands = self.lines_of("```sh\n");
        commands.filter(|line| !line.starts_with("apt-get ") || line.contains(" ./wireseal_"))
    }

    /// The commands that undo these.
    pub fn way_back(self) -> impl Iterator<Item = &'static str> {
        self.lines_of("```sh undo\n")
    }

    fn lines_of(self, fence: &'static str) -> impl Iterator<Item = &'static str> {
        let blocks = self.text.split(fence).skip(1).filter_map(|block| block.split("```").next());
        blocks.flat_map(str::lines)
    }

    /// Writes its files.
    pub async fn write(self, guest: &Guest) -> Result<()> {
        for (path, contents) in self.files() {
            guest.shell(&format!("mkdir -p $(dirname {path})")).await?;
            guest.call(WriteFile { path, contents }).await?;
        }
        Ok(())
    }

    /// Writes its files, then runs its commands; returns what each command has printed.
    pub async fn follow(self, guest: &Guest) -> Result<Vec<String>> {
        self.write(guest).await?;
        run(guest, self.commands()).await
    }
}

/// The key in a file that the commands of a page have made.
pub fn key(file: &str) -> Result<Mkt> {
    let chains = KeyChains::from_toml(file)?;
    let key = chains.chains().first().and_then(|chain| chain.keys().first());
    Ok(key.context("the page makes a key")?.mkt().clone())
}

/// Runs commands where the reader has downloaded the package to; returns what each has printed.
pub async fn run(guest: &Guest, commands: impl Iterator<Item = &str>) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for command in commands {
        let run = guest.shell(&format!("cd /root && {command}")).await;
        said.push(run.with_context(|| command.to_owned())?);
    }
    Ok(said)
}
