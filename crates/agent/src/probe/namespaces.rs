//! The network namespaces of this host, and how to look at one from inside.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::host::Namespace;
use super::processes::folder;
use crate::status::network_namespace;

/// Where `ip netns` keeps its namespaces by name.
const NAMED: &str = "/run/netns";

/// A network namespace, and a file by which it is entered; that of this process needs none.
pub(super) struct Place {
    pub(super) inode: u64,
    pub(super) namespace: Option<Namespace>,
    file: Option<PathBuf>,
}

/// All network namespaces that a name or one of these processes shows, that of this process first; and how many processes would not show
/// theirs.
pub(super) fn places(pids: &[u32]) -> (Vec<Place>, usize) {
    let own = network_namespace();
    let kind = fs::metadata("/proc/self/ns/net").map(|metadata| metadata.dev()).ok();
    let mut found: BTreeMap<u64, (Namespace, PathBuf)> = BTreeMap::new();
    let mut add = |inode, name: Option<String>, pid, file: PathBuf| {
        let (namespace, _) = found.entry(inode).or_insert((Namespace { name: None, pid: None, inode }, file));
        // Of several names and processes, the first.
        namespace.name = namespace.name.take().or(name);
        namespace.pid = namespace.pid.or(pid);
    };
    let mut named: Vec<_> = fs::read_dir(NAMED).into_iter().flatten().flatten().collect();
    named.sort_by_key(fs::DirEntry::file_name);
    for entry in named {
        let file = entry.path();
        // A file that is no namespace any more is left by a restart, for example.
        if let Ok(metadata) = fs::metadata(&file)
            && Some(metadata.dev()) == kind
        {
            add(metadata.ino(), Some(entry.file_name().to_string_lossy().into_owned()), None, file);
        }
    }
    let mut hidden = 0;
    for pid in pids {
        let file = folder(*pid).join("ns/net");
        match fs::metadata(&file) {
            Ok(metadata) => add(metadata.ino(), None, Some(*pid), file),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => hidden += 1,
            // It has ended.
            Err(_) => {}
        }
    }
    found.remove(&own);
    let mut others: Vec<_> = found.into_values().collect();
    others.sort_by(|(one, _), (other, _)| (one.name.is_none(), one).cmp(&(other.name.is_none(), other)));
    let others = others.into_iter().map(|(namespace, file)| Place {
        inode: namespace.inode,
        namespace: Some(namespace),
        file: Some(file),
    });
    let own = Place { inode: own, namespace: None, file: None };
    (std::iter::once(own).chain(others).collect(), hidden)
}

impl Place {
    /// Looks at the namespace from inside: in a thread of its own, so that no other leaves its namespace.
    pub(super) fn within<T: Send>(&self, look: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let Some(file) = &self.file else { return look() };
        let file = File::open(file)?;
        // The process may have ended since, and another have its number.
        if file.metadata()?.ino() != self.inode {
            return Err(ErrorKind::NotFound.into());
        }
        thread::scope(|scope| {
            let inside = thread::Builder::new().spawn_scoped(scope, || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                look()
            })?;
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => f.write_str("this network namespace"),
            Some(Namespace { name: Some(name), .. }) => write!(f, "network namespace {name}"),
            Some(Namespace { pid: Some(pid), .. }) => write!(f, "the network namespace of process {pid}"),
            Some(Namespace { inode, .. }) => write!(f, "network namespace {inode}"),
        }
    }
}
