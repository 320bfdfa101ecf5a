//! Master key tuples as C has them (RFC 5925 §3.1).

use core::ffi::c_char;

use wireseal_tcp_ao::{
    KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktError, MktSet, OptionCoverage, TcpAoAlgorithm,
};

use crate::border::{guarded, items, octets, place, text, unused};
use crate::status::{wireseal_status, wireseal_status as Status};

/// The most master key tuples that a connection or a peer has at a time: the one in use, its successor, and two more while their lifetimes
/// overlap.
pub const WIRESEAL_MKTS: usize = 4;
const _: () = assert!(WIRESEAL_MKTS == MKTS_PER_PEER);

/// The longest master key, in octets.
pub const WIRESEAL_MASTER_KEY_MAX: usize = 80;
const _: () = assert!(WIRESEAL_MASTER_KEY_MAX == wireseal_tcp_ao::MAX_MASTER_KEY_LENGTH);

/// A key derivation function and a MAC (RFC 5925 §3.1).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_tcp_ao_algorithm {
    /// HMAC-SHA-1-96 (RFC 5926), which every implementation has. The MAC has 12 octets.
    HmacSha1 = 1,
    /// AES-128-CMAC-96 (RFC 5926). The MAC has 12 octets.
    Aes128Cmac = 2,
    /// Linux's hmac(sha256), which no RFC defines. The MAC has 12 octets.
    LinuxHmacSha256 = 3,
    /// HMAC-SHA256-128 (draft-ietf-tcpm-tcp-ao-algs-07). The MAC has 16 octets, the master key at least 32.
    HmacSha256_128 = 4,
    /// KMAC256-128 (draft-ietf-tcpm-tcp-ao-algs-07). The MAC has 16 octets, the master key at least 32.
    Kmac256_128 = 5,
}

impl wireseal_tcp_ao_algorithm {
    /// The numbers with what they mean.
    const ALL: [(Self, TcpAoAlgorithm); 5] = [
        (Self::HmacSha1, TcpAoAlgorithm::HmacSha1),
        (Self::Aes128Cmac, TcpAoAlgorithm::Aes128Cmac),
        (Self::LinuxHmacSha256, TcpAoAlgorithm::LinuxHmacSha256),
        (Self::HmacSha256_128, TcpAoAlgorithm::HmacSha256_128),
        (Self::Kmac256_128, TcpAoAlgorithm::Kmac256_128),
    ];
}

/// The algorithm that C names by this number.
pub(crate) fn algorithm(number: u32) -> Result<TcpAoAlgorithm, Status> {
    let found = wireseal_tcp_ao_algorithm::ALL.iter().find(|(known, _)| *known as u32 == number);
    found.map(|(_, algorithm)| *algorithm).ok_or(Status::UnknownAlgorithm)
}

/// The number by which C names an algorithm.
pub(crate) fn algorithm_number(algorithm: TcpAoAlgorithm) -> u32 {
    let found = wireseal_tcp_ao_algorithm::ALL.iter().find(|(_, known)| *known == algorithm);
    found.map_or(0, |(number, _)| *number as u32)
}

/// A master key tuple (MKT) without its connection identifier. Set all to zero first: what you do not set then has its usual value.
///
/// In an array of MKTs, the first that is not accept-only is the preferred one, for sending. No two may share a SendID or a RecvID
/// (WIRESEAL_STATUS_ID_IN_USE).
#[repr(C)]
pub struct wireseal_mkt {
    /// The KeyID in segments that this end signs with the key.
    pub send_id: u8,
    /// The KeyID in segments that the peer signs with the key.
    pub recv_id: u8,
    /// Octets of the MAC in a segment: 4 to 16, or 0 for the algorithm's usual length.
    pub mac_length: u8,
    /// Not 0: the MAC covers no TCP options but AO's own. Both ends must agree.
    pub options_excluded: u8,
    /// Not 0: this end accepts the key, but signs with it only while the peer asks for it. For a key outside its send lifetime.
    pub accept_only: u8,
    /// Not 0: a master key that is shorter than the algorithm's specification requires is accepted.
    pub allow_short_master_key: u8,
    /// An enum wireseal_tcp_ao_algorithm.
    pub algorithm: u32,
    /// The secret. Functions copy it; wipe your own copy.
    pub master_key: *const u8,
    /// Octets of the secret: 1 to WIRESEAL_MASTER_KEY_MAX.
    pub master_key_length: usize,
    /// Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    pub reserved: [u64; 2],
}

impl wireseal_mkt {
    /// No key.
    pub(crate) const BLANK: Self = Self {
        send_id: 0,
        recv_id: 0,
        mac_length: 0,
        options_excluded: 0,
        accept_only: 0,
        allow_short_master_key: 0,
        algorithm: 0,
        master_key: core::ptr::null(),
        master_key_length: 0,
        reserved: [0; 2],
    };

    /// The same for C, with the master key where it is.
    pub(crate) fn of(mkt: &Mkt, accept_only: bool) -> Self {
        let (parameters, master_key) = (mkt.parameters(), mkt.master_key().expose_secret());
        Self {
            send_id: parameters.send_id.0,
            recv_id: parameters.recv_id.0,
            mac_length: u8::try_from(parameters.mac_length()).unwrap_or(0),
            options_excluded: (parameters.options == OptionCoverage::Excluded).into(),
            accept_only: accept_only.into(),
            allow_short_master_key: (master_key.len() < parameters.algorithm.min_master_key_length()).into(),
            algorithm: algorithm_number(parameters.algorithm),
            master_key: master_key.as_ptr(),
            master_key_length: master_key.len(),
            reserved: [0; 2],
        }
    }

    /// The same in Rust.
    ///
    /// # Safety
    /// What C promises: its master key has as many octets as it says.
    pub(crate) unsafe fn read(&self) -> Result<Mkt, Status> {
        let algorithm = algorithm(self.algorithm)?;
        unused(&self.reserved)?;
        // SAFETY: the caller's promise.
        let master_key = MasterKey::new(unsafe { octets(self.master_key, self.master_key_length)? })?;
        let (send_id, recv_id) = (KeyId(self.send_id), KeyId(self.recv_id));
        let mut mkt = match self.allow_short_master_key {
            0 => Mkt::new(send_id, recv_id, algorithm, master_key)?,
            _ => Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key)?,
        };
        if self.mac_length != 0 {
            mkt = mkt.with_mac_length(self.mac_length.into())?;
        }
        if self.options_excluded != 0 {
            mkt = mkt.with_options(OptionCoverage::Excluded);
        }
        Ok(if self.accept_only != 0 { mkt.accept_only() } else { mkt })
    }
}

/// The tuples that C gives in an array.
///
/// # Safety
/// What C promises: so many at `start`, each as [`wireseal_mkt::read`] says.
pub(crate) unsafe fn mkts(start: *const wireseal_mkt, count: usize) -> Result<MktSet<WIRESEAL_MKTS>, Status> {
    let mut set = MktSet::new();
    // SAFETY: the caller's promise.
    for mkt in unsafe { items(start, count)? } {
        // SAFETY: as above.
        set.push(unsafe { mkt.read()? })?;
    }
    Ok(set)
}

/// Writes the number of the algorithm with this name, an enum wireseal_tcp_ao_algorithm, to `*algorithm`. The name is that of RFC 5926, the
/// draft, Linux, BIRD, Junos or IOS XR, in upper or lower case: "HMAC-SHA-1-96", "hmac(sha1)", "aes-128-cmac-96".
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM; _BAD_ARGUMENT if the text is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_tcp_ao_algorithm_from_name(
    name: *const c_char,
    algorithm: *mut u32,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (name, mut algorithm) = (text(name)?, place(algorithm)?);
        let found: TcpAoAlgorithm = name.parse().map_err(|_| Status::UnknownAlgorithm)?;
        algorithm.write(algorithm_number(found));
        Ok(())
    })
}

/// Writes the usual length of an algorithm's MAC in octets to `*length`: that of a struct wireseal_mkt whose `mac_length` is 0.
///
/// Error: WIRESEAL_STATUS_UNKNOWN_ALGORITHM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_tcp_ao_mac_length(algorithm: u32, length: *mut usize) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    guarded(|| unsafe {
        place(length)?.write(self::algorithm(algorithm)?.default_mac_length());
        Ok(())
    })
}

impl From<MktError> for Status {
    fn from(error: MktError) -> Self {
        match error {
            MktError::MasterKeyEmpty
            | MktError::MasterKeyTooLong { .. }
            | MktError::MasterKeyTooShort { .. } => Self::MasterKeyLength,
            MktError::MacLength { .. } => Self::MacLength,
            MktError::SendIdInUse(_) | MktError::RecvIdInUse(_) => Self::IdInUse,
            MktError::TooMany { .. } => Self::TooManyKeys,
            MktError::NotBuiltIn { .. } => Self::NotBuiltIn,
            MktError::NoKey => Self::NoKey,
            MktError::UnknownSendId(_) | MktError::UnknownRecvId(_) => Self::UnknownKey,
            MktError::InUse(_) => Self::KeyInUse,
            MktError::Last(_) => Self::LastKey,
            // There is no other.
            _ => Self::Internal,
        }
    }
}
