//! What the key manager's steps find and do, for C: one struct for each socket, and lines for the log.

use core::ffi::{c_char, c_void};
use core::ptr::{null, null_mut};
use std::borrow::ToOwned;
use std::ffi::CString;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use wireseal_linux::{Generation, PeerName, SocketKind, SocketReport, SocketState};

use crate::connection::wireseal_counters;
use crate::heap::{characters, for_c};

/// How many keys a report names of which segments had a wrong MAC. Who forges segments cannot fill a log with more.
const MOST: usize = 10;

/// What a manager's last step found out about a socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_socket_state {
    /// The number of its attachment. The manager uses it for no other socket.
    pub attachment: u64,
    /// The peer of a connection, or of a socket that will connect, as wireseal_manager_set_peer() reads it, with addresses in the form of
    /// RFC 5952. Empty for a socket that listens.
    pub peer: [c_char; 96],
    /// The number of the newest change of the manager's peers at the time when the step set the keys.
    pub generation: u64,
    /// True for a connection that you should shut down, because no key is valid for sending now, or because its peer was removed. Its keys are
    /// still on the socket, so what you send last is signed.
    pub expired: bool,
    /// Whether the peer has not signed yet with the key that this end asks for. If it has the key, it does so in its next segment.
    pub is_peer_behind: bool,
    /// Received segments. All zero before the first step, and if the socket has no TCP-AO.
    pub counters: wireseal_counters,
    /// The pointer of wireseal_attachment_set_user(); null before that call.
    pub user: *mut c_void,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// What a report is about.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_report_kind {
    /// A socket whose state could not be read.
    Unknown = 0,
    /// A socket that listens.
    Listener = 1,
    /// A socket that neither listens nor is connected; it may be connecting.
    Closed = 2,
    /// A connection.
    Connection = 3,
    /// A connection that has ended: end its attachment, and close it.
    Ended = 4,
    /// No socket: no key of the peer `state.peer` is valid for sending any more, so no connection with it can be opened. Reported once, and
    /// again only after the peer has had a key.
    Peer = 5,
}

/// A line for the log, without secrets.
#[repr(C)]
pub struct wireseal_line {
    /// One line, without a line end.
    pub text: *const c_char,
    /// Whether somebody should look at it. Other lines say what was done.
    pub is_warning: bool,
    /// Zeros: for later versions.
    pub reserved: [u8; 7],
}

/// What a step found and did about one socket. It and what it points to are valid until the callback returns.
#[repr(C)]
pub struct wireseal_report {
    /// An enum wireseal_report_kind.
    pub kind: u32,
    /// The state, as wireseal_attachment_state() writes it from now on.
    pub state: wireseal_socket_state,
    /// Segments since the last report whose MAC was wrong.
    pub refused_bad: u64,
    /// Segments since the last report with a KeyID that no key has.
    pub refused_unknown: u64,
    /// Unsigned segments since the last report.
    pub refused_unsigned: u64,
    /// `line_count` lines for the log, or null.
    pub lines: *const wireseal_line,
    /// How many lines there are.
    pub line_count: usize,
}

/// Called for each report. `context` is the one given to wireseal_manager_step(). It may call any function of the manager.
pub type wireseal_report_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, report: *const wireseal_report)>;

/// Called with a line of text, which is valid until the callback returns. `context` is the one given to the function.
pub type wireseal_line_callback = Option<unsafe extern "C" fn(context: *mut c_void, line: *const c_char)>;

impl wireseal_socket_state {
    pub(crate) fn of(attachment: u64, state: &SocketState, user: *mut c_void) -> Self {
        Self {
            attachment,
            peer: characters(&state.peer.map(|peer| peer.to_string()).unwrap_or_default()),
            generation: state.generation.number(),
            expired: state.expired,
            is_peer_behind: state.is_peer_behind,
            counters: (&state.counters.unwrap_or_default()).into(),
            user,
            reserved: [0; 2],
        }
    }
}

/// Passes a line to C.
///
/// # Safety
/// What C promises of its callback and the context.
pub(crate) unsafe fn say(callback: wireseal_line_callback, context: *mut c_void, line: impl ToString) {
    let Some(callback) = callback else { return };
    let line = for_c(line.to_string());
    // SAFETY: the caller's promise; the line lives until after the call.
    unsafe { callback(context, line.as_ptr()) };
}

/// A report before C sees it.
pub(crate) struct Report {
    report: wireseal_report,
    lines: Vec<(CString, bool)>,
}

impl Report {
    /// What a step did about a socket.
    pub(crate) fn of(socket: &SocketReport, user: *mut c_void) -> Self {
        let kind = match socket.kind {
            Some(SocketKind::Listener) => wireseal_report_kind::Listener,
            Some(SocketKind::Closed) => wireseal_report_kind::Closed,
            Some(SocketKind::Connection) => wireseal_report_kind::Connection,
            None if socket.failed.is_empty() => wireseal_report_kind::Ended,
            None => wireseal_report_kind::Unknown,
        };
        let refused = &socket.refused;
        Self {
            report: wireseal_report {
                kind: kind as u32,
                state: wireseal_socket_state::of(socket.attachment, &socket.state, user),
                refused_bad: refused.bad.iter().map(|(_, segments)| segments).sum(),
                refused_unknown: refused.key_not_found,
                refused_unsigned: refused.unsigned,
                lines: null(),
                line_count: 0,
            },
            lines: lines(socket).into_iter().map(|(line, is_warning)| (for_c(line), is_warning)).collect(),
        }
    }

    /// A peer has no key to sign with any more.
    pub(crate) fn of_expired(peer: PeerName, generation: Generation) -> Self {
        let state = SocketState { peer: Some(peer), generation, expired: true, ..SocketState::default() };
        Self {
            report: wireseal_report {
                kind: wireseal_report_kind::Peer as u32,
                state: wireseal_socket_state::of(u64::MAX, &state, null_mut()),
                refused_bad: 0,
                refused_unknown: 0,
                refused_unsigned: 0,
                lines: null(),
                line_count: 0,
            },
            lines: Vec::from([(for_c("no key is valid for sending: no connection can be opened"), true)]),
        }
    }

    /// Passes it to C.
    ///
    /// # Safety
    /// What C promises of its callback and the context.
    pub(crate) unsafe fn pass(mut self, callback: wireseal_report_callback, context: *mut c_void) {
        let Some(callback) = callback else { return };
        let lines = self.lines.iter();
        let lines: Vec<_> = lines
            .map(|(text, is_warning)| wireseal_line {
                text: text.as_ptr(),
                is_warning: *is_warning,
                reserved: [0; 7],
            })
            .collect();
        self.report.line_count = lines.len();
        self.report.lines = if lines.is_empty() { null() } else { lines.as_ptr() };
        // SAFETY: the caller's promise; the report and all that it points to live until after the call.
        unsafe { callback(context, &raw const self.report) };
    }
}

/// The lines about a socket, each with whether it is a warning.
fn lines(socket: &SocketReport) -> Vec<(String, bool)> {
    let mut lines: Vec<(String, bool)> =
        socket.done.iter().map(|action| (action.to_string(), false)).collect();
    let mut warn = |line: String| lines.push((line, true));
    for (action, error) in &socket.failed {
        let what = action.as_ref().map_or("read its keys".to_owned(), ToString::to_string);
        warn(format!("cannot {what}, trying again: {error}"));
    }
    for key in socket.taken_away() {
        warn(format!("the peer was still asking for the {key}: its keys or its clock are behind"));
    }
    if let Some(key) = socket.insists_on {
        warn(format!(
            "the peer goes on asking for the {key}, whose send lifetime is over: its configuration is behind"
        ));
    }
    let refused = &socket.refused;
    for (key, segments) in refused.bad.iter().take(MOST) {
        warn(format!(
            "{segments} with a wrong MAC under the {key}: its secret, algorithm or option coverage differs from the peer's, or they are \
             forged"
        ));
    }
    if refused.key_not_found > 0 {
        warn(format!("{} with a KeyID that no key here has", refused.key_not_found));
    }
    if refused.unsigned > 0 {
        warn(format!("{} not signed", refused.unsigned));
    }
    for (peer, action) in &socket.policy {
        warn(format!("the peer {peer} does not follow the change of its keys: {action}"));
    }
    for key in &socket.overdue {
        warn(format!("the {key} is no longer valid and cannot be deleted"));
    }
    if socket.state.expired {
        warn("no key is valid for sending: close the connection".to_owned());
    }
    lines
}
