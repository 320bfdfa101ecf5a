//! An exported connection as octets, to be kept or sent elsewhere.

use wireseal_tcp_ao::{ConnectionState, SeqNum, StateError};

use crate::repair::state::{Exported, TcpState, Window, WindowScale};

/// The first octet: which form the rest has.
const VERSION: u8 = 1;

/// Why octets are not an [`Exported`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExportedError {
    /// The octets have a form that this version of the crate does not know.
    #[error("exported connection in the unknown form {0}")]
    Version(u8),
    /// The octets end before the field does.
    #[error("exported connection with {got} octets of {field} instead of {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// How many octets it has.
        expected: usize,
        /// How many octets are left for it.
        got: usize,
    },
    /// The number is of octets, and more than this processor has addresses for.
    #[error("exported connection with {got} for {field}, more than this processor can address")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// The number.
        got: u64,
    },
    /// An octet that says yes or no is neither 0 nor 1.
    #[error("exported connection with {got} for {field}, which is 0 or 1")]
    Flag {
        /// The field.
        field: &'static str,
        /// The octet.
        got: u8,
    },
    /// What is left is not TCP-AO's state.
    #[error("exported connection with a bad authentication: {0}")]
    Authentication(#[from] StateError),
}

impl Exported {
    /// The connection as octets. Later versions of this crate read them.
    ///
    /// **They hold no key, but the data in both queues as it is.** Keep and send them as you would the data; move the keys
    /// separately, and protect the octets from changes as well: they say where sequence numbers continue.
    ///
    /// Numbers have their highest octet first. In this order:
    ///
    /// | octets | field |
    /// |---|---|
    /// | 1 | the version, 1 |
    /// | 1 each | `required`, `accept_icmps`, `sack`: 0 or 1 |
    /// | 4 | `send_next` |
    /// | 8 | `unsent` |
    /// | 4 | `receive_next` |
    /// | 4 | `mss` |
    /// | 1, and 2 if that is 1 | `window_scale`: whether there is one; `send`, `receive` |
    /// | 1, and 4 if that is 1 | `timestamp`: whether there is one; its value |
    /// | 4 each | `window`: `send`, `send_max`, `send_update`, `receive`, `receive_update` |
    /// | 8, and as many as that says | `send_queue` |
    /// | 8, and as many as that says | `receive_queue` |
    /// | the rest | `authentication`, as [`ConnectionState::to_octets`] gives it |
    #[must_use]
    pub fn to_octets(&self) -> Vec<u8> {
        let Self { tcp, authentication, required, accept_icmps } = self;
        let TcpState { send_next, send_queue, unsent, receive_next, receive_queue, .. } = tcp;
        let TcpState { mss, window_scale, sack, timestamp, window, .. } = tcp;
        let mut octets = vec![VERSION, (*required).into(), (*accept_icmps).into(), (*sack).into()];
        octets.extend(send_next.0.to_be_bytes());
        octets.extend((*unsent as u64).to_be_bytes());
        octets.extend(receive_next.0.to_be_bytes());
        octets.extend(mss.to_be_bytes());
        octets.push(window_scale.is_some().into());
        octets.extend(window_scale.iter().flat_map(|scale| [scale.send, scale.receive]));
        octets.push(timestamp.is_some().into());
        octets.extend(timestamp.iter().flat_map(|value| value.to_be_bytes()));
        let Window { send, send_max, send_update, receive, receive_update } = *window;
        let window = [send, send_max, send_update.0, receive, receive_update.0];
        octets.extend(window.iter().flat_map(|number| number.to_be_bytes()));
        for queue in [send_queue, receive_queue] {
            octets.extend((queue.len() as u64).to_be_bytes());
            octets.extend(queue);
        }
        octets.extend(authentication.to_octets());
        octets
    }

    /// Reads what [`Self::to_octets`] has written. [`restore`](crate::restore) checks that the fields fit together.
    ///
    /// # Errors
    /// All of [`ExportedError`].
    pub fn from_octets(octets: &[u8]) -> Result<Self, ExportedError> {
        let mut rest = Rest(octets);
        let version = octets.first().copied().unwrap_or_default();
        if version != VERSION {
            return Err(ExportedError::Version(version));
        }
        let [_] = rest.take("version")?;
        let (required, accept_icmps) = (rest.flag("required")?, rest.flag("accept_icmps")?);
        let tcp = TcpState {
            sack: rest.flag("sack")?,
            send_next: SeqNum(rest.number("send_next")?),
            unsent: rest.length("unsent")?,
            receive_next: SeqNum(rest.number("receive_next")?),
            mss: rest.number("mss")?,
            window_scale: match rest.flag("window_scale")? {
                true => {
                    let [send, receive] = rest.take("window_scale")?;
                    Some(WindowScale { send, receive })
                }
                false => None,
            },
            timestamp: match rest.flag("timestamp")? {
                true => Some(rest.number("timestamp")?),
                false => None,
            },
            window: Window {
                send: rest.number("window.send")?,
                send_max: rest.number("window.send_max")?,
                send_update: SeqNum(rest.number("window.send_update")?),
                receive: rest.number("window.receive")?,
                receive_update: SeqNum(rest.number("window.receive_update")?),
            },
            send_queue: rest.queue("send_queue")?,
            receive_queue: rest.queue("receive_queue")?,
        };
        let authentication = ConnectionState::from_octets(rest.0)?;
        Ok(Self { tcp, authentication, required, accept_icmps })
    }
}

/// The octets that are still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ExportedError> {
        let length = ExportedError::Length { field, expected: N, got: self.0.len() };
        let (taken, behind) = self.0.split_first_chunk().ok_or(length)?;
        self.0 = behind;
        Ok(*taken)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, ExportedError> {
        match self.take(field)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [got] => Err(ExportedError::Flag { field, got }),
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u32, ExportedError> {
        self.take(field).map(u32::from_be_bytes)
    }

    fn length(&mut self, field: &'static str) -> Result<usize, ExportedError> {
        let got = self.take(field).map(u64::from_be_bytes)?;
        usize::try_from(got).map_err(|_| ExportedError::TooLarge { field, got })
    }

    fn queue(&mut self, field: &'static str) -> Result<Vec<u8>, ExportedError> {
        let expected = self.length(field)?;
        let length = ExportedError::Length { field, expected, got: self.0.len() };
        let (queue, behind) = self.0.split_at_checked(expected).ok_or(length)?;
        self.0 = behind;
        Ok(queue.to_vec())
    }
}
