//! Privileges that are needed to open interfaces and files, and not to look at packets.

use std::{env, io};

use rustix::process::{Gid, Uid, geteuid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The user and group without rights to anything.
const NOBODY: u32 = 65_534;

/// A user without privileges.
#[derive(Clone, Copy, Debug)]
pub struct Unprivileged {
    /// The user.
    pub user: Uid,
    /// Its group.
    pub group: Gid,
}

impl Unprivileged {
    /// Who called sudo, if root runs the process and sudo started it. A program with the set-user-ID bit believes no variable.
    #[must_use]
    pub fn caller_of_sudo() -> Option<Self> {
        let id = |name: &str| env::var(name).ok()?.parse().ok().filter(|id| *id != 0 && *id != u32::MAX);
        let (user, group) = id("SUDO_UID").zip(id("SUDO_GID"))?;
        getuid().is_root().then(|| Self { user: Uid::from_raw(user), group: Gid::from_raw(group) })
    }
}

fn is_root() -> bool {
    getuid().is_root() || geteuid().is_root()
}

/// Opens files with the rights of who runs the program, the caller of sudo if that was used, and gives up all privileges for good, as
/// [`drop_privileges`] does. Only root itself opens them as root.
///
/// # Errors
/// Those of [`drop_privileges`].
pub fn open_as_caller<T>(open: impl FnOnce() -> T) -> io::Result<T> {
    if getuid().is_root() && Unprivileged::caller_of_sudo().is_none() {
        let opened = open();
        drop_privileges()?;
        return Ok(opened);
    }
    drop_privileges()?;
    Ok(open())
}

/// Gives up all privileges for good: if it is root becomes the caller of sudo, or nobody, without groups; gives up all capabilities; and
/// gains none by executing a program. What is open stays open.
///
/// Linux does this for one thread. Call it before there is another; threads that are started later have no privileges either.
///
/// # Errors
/// Those of the system; some privileges may be left then, so end the process.
pub fn drop_privileges() -> io::Result<()> {
    set_no_new_privs(true)?;
    if is_root() {
        let nobody = Unprivileged { user: Uid::from_raw(NOBODY), group: Gid::from_raw(NOBODY) };
        let Unprivileged { user, group } = Unprivileged::caller_of_sudo().unwrap_or(nobody);
        for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
            // The kernel does not have all of them, and what cannot be removed is out of reach below.
            let _ = remove_capability_from_bounding_set(capability);
        }
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
