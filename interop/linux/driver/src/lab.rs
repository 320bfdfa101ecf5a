//! What all rows share: the wire and the machines on it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use agent::ResetAll;
use tokio::sync::OnceCell;

use crate::failure::Failure;
use crate::forge::{arp_request, is_arp_reply};
use crate::guest::Guest;
use crate::recording::Recording;
use crate::wire::{Port, Wire};

/// How long anything that has to happen may take. Nothing is decided by its end but that a row has failed.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// [`TIME_LIMIT`] as requests have it, in milliseconds.
pub const TIME_LIMIT_MILLISECONDS: u64 = TIME_LIMIT.as_millis() as u64;

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Recordings and logs go there.
    pub state: PathBuf,
    /// The kernel.
    pub image: PathBuf,
    /// The guests' root file system.
    pub initramfs: PathBuf,
}

/// The addresses at a port of the wire, from RFC 5737's and RFC 3849's ranges for documentation.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Its Ethernet address.
    pub hardware_address: [u8; 6],
    /// Its address in 192.0.2.0/24.
    pub ipv4: Ipv4Addr,
    /// Its address in 2001:db8::/64.
    pub ipv6: Ipv6Addr,
}

impl Addresses {
    /// Those of a port.
    #[must_use]
    pub const fn of(port: Port) -> Self {
        let host = port as u8 + 1;
        Self {
            hardware_address: [2, 0, 0, 0, 0, host],
            ipv4: Ipv4Addr::new(192, 0, 2, host),
            ipv6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host as u16),
        }
    }

    /// The one of the same family as another.
    #[must_use]
    pub const fn like(&self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => IpAddr::V4(self.ipv4),
            IpAddr::V6(_) => IpAddr::V6(self.ipv6),
        }
    }

    /// The one of a family.
    #[must_use]
    pub const fn in_family(&self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => IpAddr::V4(self.ipv4),
            Family::Ipv6 => IpAddr::V6(self.ipv6),
        }
    }
}

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Version 4.
    Ipv4,
    /// Version 6.
    Ipv6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// As it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }
}

/// The wire, the first guest, and the second one once a row has asked for it.
#[derive(Debug)]
pub struct Lab {
    /// The wire between all.
    pub wire: Wire,
    /// The first guest.
    pub north: Guest,
    south: OnceCell<Guest>,
    /// Where the files are.
    pub setting: Setting,
}

impl Lab {
    /// Starts the wire and the first guest.
    ///
    /// # Errors
    /// When the guest does not start.
    pub async fn start(setting: Setting) -> Result<Self, Failure> {
        std::fs::create_dir_all(setting.state.join("recordings"))?;
        let wire = Wire::default();
        let north = Guest::start(Port::North, &wire, &setting).await?;
        Ok(Self { wire, north, south: OnceCell::new(), setting })
    }

    /// Makes the wire honest, ends what the guests still have open, and waits until nothing of it is on its way.
    ///
    /// # Errors
    /// When a guest does not answer.
    pub async fn clear(&self) -> Result<(), Failure> {
        self.wire.reset();
        for guest in [Some(&self.north), self.south.get()].into_iter().flatten() {
            guest.call(ResetAll).await?;
            // What was sent to a stack that is gone waits in the kernel for an answer to ARP or to a neighbor solicitation, and
            // would go to the next stack there, which has no part in it.
            guest.shell("ip neigh flush dev eth0").await?;
            self.wire.take_recording();
            self.take_in(guest.port()).await?;
        }
        self.wire.take_recording();
        Ok(())
    }

    /// Waits until what was sent to a port before this call has been taken in there, and what was sent from there is on
    /// record: frames go one after the other, so that the answer to a question is the last of them.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn take_in(&self, port: Port) -> Result<(), Failure> {
        let answers = |recording: &Recording| {
            let frames = recording.frames.iter().filter(|frame| frame.from == Some(port));
            frames.filter(|frame| is_arp_reply(&frame.octets)).count()
        };
        let before = self.wire.look(answers);
        self.wire.inject(port, arp_request(port)?);
        let is_answered = |recording: &Recording| (answers(recording) > before).then_some(());
        self.wire.await_recorded("the answer to an ARP request", is_answered).await
    }

    /// The second guest, which is started for the first row that asks.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn south(&self) -> Result<&Guest, Failure> {
        self.south.get_or_try_init(|| Guest::start(Port::South, &self.wire, &self.setting)).await
    }
}
