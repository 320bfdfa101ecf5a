//! Writing keys in any format.

use std::collections::HashSet;
use std::fmt;

use zeroize::Zeroizing;

use super::{Chain, Format, Implementation, KeyFile};
use crate::{Error, Problem};

/// Keys as text, and what was lost.
#[derive(Clone)]
pub struct Conversion {
    /// The text, secrets included.
    pub text: Zeroizing<String>,
    /// What the format cannot express, one sentence each.
    pub losses: Vec<String>,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("losses", &self.losses).finish_non_exhaustive()
    }
}

/// Writes the keys in a format. Keys that it cannot express are left out and, like everything else lost, named in the losses.
///
/// # Errors
/// [`Problem::NothingLeft`] with the losses; [`Error`] for a [format that is not written](Format::is_written), or if keys collide and the format cannot hold them.
pub fn convert(file: &KeyFile, to: Format) -> Result<Conversion, Error> {
    let Some(write) = to.table().write else {
        let reason = format!("{to} is only read: its syntax is not certain enough to be written");
        return Err(Error::text(reason));
    };
    let of_file = file.remarks.iter().filter(|remark| remark.is_lost);
    let mut losses: Vec<_> = of_file
        .map(|remark| match remark.key_id {
            Some(key_id) => format!("key {key_id}: {}", remark.sentence),
            None => remark.sentence.to_string(),
        })
        .collect();
    for chain in &file.chains {
        let lost = chain.remarks.iter().filter(|remark| remark.is_lost);
        losses.extend(lost.map(|remark| match remark.key_id {
            Some(key_id) => format!("key {}/{key_id}: {}", chain.name, remark.sentence),
            None => format!("chain {:?}: {}", chain.name, remark.sentence),
        }));
    }
    let mut taken = HashSet::new();
    let chains = chains_without_refused(file, to, &mut losses);
    let chains = chains.into_iter().filter_map(|chain| (to.table().fit)(chain, &mut taken, &mut losses));
    let chains: Vec<_> = chains.collect();
    if chains.is_empty() {
        return Err(Problem::NothingLeft { to: to.name(), losses }.into());
    }
    let text = write(&chains, &mut losses)?;
    let mut named = HashSet::new();
    losses.retain(|loss| named.insert(loss.clone()));
    Ok(Conversion { text, losses })
}

/// The chains without keys that the implementation refuses or that cannot be MKTs.
fn chains_without_refused(file: &KeyFile, to: Format, losses: &mut Vec<String>) -> Vec<Chain> {
    let implementation = Implementation::reading(Some(to));
    // A file in Linux's format may also be for other ends.
    let is_own = implementation == Implementation::reading(None);
    let mut kept = Vec::new();
    for chain in &file.chains {
        let mut chain = chain.clone();
        let named: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
        let mut names = named.iter();
        chain.keys.retain(|key| {
            let name = names.next().map_or("", String::as_str);
            if key.depends_on_local_time() && !to.table().limits.has_local_time {
                losses.push(format!(
                    "key {name} is left out: its lifetimes are in the router's local time; give --utc-offset to convert them"
                ));
                return false;
            }
            let reasons: Vec<_> = match is_own || key.secret.encryption().is_some() {
                true => key.key().err().iter().map(ToString::to_string).collect(),
                false => {
                    let refusals = implementation.refusals(key);
                    refusals.iter().map(|refusal| format!("{implementation} {refusal}")).collect()
                }
            };
            losses.extend(reasons.iter().map(|reason| format!("key {name} is left out: {reason}")));
            reasons.is_empty()
        });
        if !chain.keys.is_empty() {
            kept.push(chain);
        }
    }
    kept
}
