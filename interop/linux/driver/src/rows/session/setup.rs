//! The ends of a session, their keys, and how they are set up.

use std::net::IpAddr;

use agent::{Key, Open};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, MktSet};

use crate::failure::Failure;
use crate::guest::{at, unspecified_like};
use crate::lab::{Addresses, Family, Lab};
use crate::userspace::Userspace;
use crate::wire::Port;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The driver's stack.
    Userspace,
    /// The guest's kernel.
    Kernel,
}

impl End {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Userspace, Self::Kernel];

    /// As it is written in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Userspace => "userspace",
            Self::Kernel => "kernel",
        }
    }

    /// Where it is plugged in.
    pub const fn port(self) -> Port {
        match self {
            Self::Userspace => Port::Userspace,
            Self::Kernel => Port::North,
        }
    }

    /// Its address.
    pub const fn address(self, family: Family) -> IpAddr {
        Addresses::of(self.port()).in_family(family)
    }
}

/// The key `number` as the userspace end has it: SendID 10 more, RecvID 20 more, a secret of its own.
pub fn key(number: u8, algorithm: TcpAoAlgorithm) -> Result<Mkt, Failure> {
    key_with(number, algorithm, &format!("secret of key {number}, 32 octets"))
}

/// The same with this secret.
pub fn key_with(number: u8, algorithm: TcpAoAlgorithm, secret: &str) -> Result<Mkt, Failure> {
    let master_key = MasterKey::new(secret.as_bytes())?;
    Ok(Mkt::with_short_master_key(KeyId(10 + number), KeyId(20 + number), algorithm, master_key))
}

/// The key as the other end has it.
pub fn mirrored(mkt: &Mkt) -> Result<Mkt, Failure> {
    let parameters = mkt.parameters();
    let master_key = mkt.master_key().clone();
    let mirrored = Mkt::with_short_master_key(mkt.recv_id(), mkt.send_id(), parameters.algorithm, master_key);
    Ok(mirrored.with_mac_length(parameters.mac_length())?.with_options(parameters.options))
}

/// How a session is set up. All keys are as the userspace end has them, or would.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The version of IP.
    pub family: Family,
    /// Who opens it.
    pub opener: End,
    /// The keys of the userspace end; none leave it unprotected.
    pub userspace: Vec<Mkt>,
    /// The keys of the kernel's socket; none leave it unprotected.
    pub kernel: Vec<Mkt>,
}

impl Setup {
    /// Both ends have the same keys.
    pub fn with_keys(family: Family, opener: End, mkts: &[Mkt]) -> Self {
        Self { family, opener, userspace: mkts.to_vec(), kernel: mkts.to_vec() }
    }

    /// The userspace end by itself.
    pub fn userspace(&self, lab: &Lab) -> Result<Userspace, Failure> {
        let mkts = MktSet::from_mkts(self.userspace.iter().cloned())?;
        let peer = Userspace::peer(End::Kernel.address(self.family), mkts);
        Userspace::start(&lab.wire, if self.userspace.is_empty() { Vec::new() } else { vec![peer] })
    }

    /// A socket of the kernel's, bound, with its keys.
    pub async fn kernel_socket(&self, lab: &Lab) -> Result<u64, Failure> {
        let local = at(unspecified_like(End::Kernel.address(self.family)), 0);
        lab.north.call(Open { local, keys: self.kernel_keys()?, required: false }).await
    }

    /// The first of them is what the kernel opens a connection with; Linux would take the last.
    fn kernel_keys(&self) -> Result<Vec<Key>, Failure> {
        let mut keys: Vec<Key> =
            self.kernel.iter().map(|mkt| kernel_key(self.family, mkt)).collect::<Result<_, _>>()?;
        if let Some(first) = keys.first_mut().filter(|_| self.opener == End::Kernel) {
            (first.set_current, first.set_rnext) = (true, true);
        }
        Ok(keys)
    }
}

/// The key for the kernel's socket.
pub fn kernel_key(family: Family, mkt: &Mkt) -> Result<Key, Failure> {
    Ok(Key::new(End::Userspace.address(family), &mirrored(mkt)?))
}
