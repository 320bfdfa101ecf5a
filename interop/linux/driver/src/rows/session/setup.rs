//! The ends of a session, their keys, and how they are set up.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use agent::{Connect, Key, Listen, Open};
use speaker::protection;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::prelude::*;
use crate::userspace::Userspace;

/// The port of the userspace end's first listener.
pub const USERSPACE_PORT: u16 = 179;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The driver's stack.
    Userspace,
    /// The first guest's kernel.
    Kernel,
}

impl End {
    pub const BOTH: [Self; 2] = [Self::Userspace, Self::Kernel];

    pub const fn other(self) -> Self {
        match self {
            Self::Userspace => Self::Kernel,
            Self::Kernel => Self::Userspace,
        }
    }

    pub const fn port(self) -> Port {
        match self {
            Self::Userspace => Port::Userspace,
            Self::Kernel => Port::North,
        }
    }

    pub const fn address(self, family: Family) -> IpAddr {
        self.port().address(family)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Userspace { "userspace" } else { "kernel" })
    }
}

/// Both versions of IP, each with either end.
pub fn families_and_ends() -> impl Iterator<Item = (Family, End)> {
    Family::ALL.into_iter().flat_map(|family| End::BOTH.map(|end| (family, end)))
}

/// The key `number` as the userspace end has it: SendID 10 more, RecvID 20 more, a secret of its own.
pub fn key(number: u8, algorithm: TcpAoAlgorithm) -> Result<Mkt> {
    key_with(number, algorithm, &format!("secret of key {number}, 32 octets"))
}

/// The same with this secret.
pub fn key_with(number: u8, algorithm: TcpAoAlgorithm, secret: &str) -> Result<Mkt> {
    let master_key = MasterKey::new(secret.as_bytes())?;
    Ok(Mkt::with_short_master_key(KeyId(10 + number), KeyId(20 + number), algorithm, master_key)?)
}

/// A key for the kernel's socket, of one as userspace has it.
pub fn kernel_key(family: Family, mkt: &Mkt) -> Result<Key> {
    Ok(Key::new(End::Userspace.address(family), &protection::mirrored(mkt)?)?)
}

/// How a session is set up. All keys are as the userspace end has them, or would.
#[derive(Clone, Debug)]
pub struct Setup {
    pub family: Family,
    pub opener: End,
    /// The keys of the userspace end; without any it is unprotected.
    pub userspace: Vec<Mkt>,
    /// The keys of the kernel's socket; without any it is unprotected.
    pub kernel: Vec<Mkt>,
    /// Distinguishes concurrent sessions: each has its own port and carries its own octets.
    pub number: u16,
}

impl Setup {
    /// Both ends have the same keys.
    pub fn with_keys(family: Family, opener: End, mkts: &[Mkt]) -> Self {
        Self { family, opener, userspace: mkts.to_vec(), kernel: mkts.to_vec(), number: 0 }
    }

    /// The userspace end by itself.
    pub fn userspace(&self, lab: &Lab) -> Result<Userspace> {
        self.userspace_seeded(lab, fastrand::u64(..))
    }

    /// The same with this seed.
    pub fn userspace_seeded(&self, lab: &Lab, seed: u64) -> Result<Userspace> {
        let peer = Userspace::peer(End::Kernel.address(self.family), &self.userspace)?;
        let peers = if self.userspace.is_empty() { Vec::new() } else { vec![peer] };
        Userspace::start(&lab.wire, peers, seed)
    }

    /// A socket of the kernel's, bound, with its keys.
    pub async fn kernel_socket(&self, lab: &Lab) -> Result<u64> {
        self.kernel_socket_at(lab, 0, false).await
    }

    /// The same at a port, perhaps refusing unsigned segments.
    pub async fn kernel_socket_at(&self, lab: &Lab, port: u16, required: bool) -> Result<u64> {
        lab.north.call(Open { local: self.family.any(port), keys: self.kernel_keys()?, required }).await
    }

    /// With the first of them the kernel opens a connection; left alone, Linux would take the last.
    pub fn kernel_keys(&self) -> Result<Vec<Key>> {
        let keys = self.kernel.iter().map(|mkt| kernel_key(self.family, mkt));
        let mut keys: Vec<Key> = keys.collect::<Result<_>>()?;
        if let Some(first) = keys.first_mut().filter(|_| self.opener == End::Kernel) {
            first.is_preferred = true;
        }
        Ok(keys)
    }

    /// Where userspace listens.
    pub const fn userspace_listens_at(&self) -> SocketAddr {
        Port::Userspace.at(self.family, USERSPACE_PORT + self.number)
    }

    /// Has the opener try to connect until `sign` is done. Fails if it connects.
    pub async fn until_refused<T>(
        &self,
        lab: &Lab,
        userspace: &Userspace,
        socket: u64,
        sign: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.opener {
            End::Userspace => {
                let port = lab.north.call(Listen { socket }).await?.port();
                refused(sign, userspace.connect(End::Kernel.port().at(self.family, port))).await
            }
            End::Kernel => {
                let remote = self.userspace_listens_at();
                let mut listener = userspace.stack.listen(None, remote.port())?;
                let connect = lab.north.call(Connect { socket, remote });
                refused(refused(sign, userspace.accept(&mut listener)), connect).await
            }
        }
    }
}
