//! What the running kernel can do.

use std::fs;
use std::io::{self, ErrorKind};

use wireseal_linux::Support;

use super::host::{Ability, Kernel};
use crate::gateway::try_queues;

/// What seccomp can answer a system call with, as the kernel lists it.
const SECCOMP_ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// What the kernel can do, from what was found out about its sockets. `is_under_run` if this process is supervised, which hides TCP-AO.
pub(super) fn kernel(support: &io::Result<Support>, is_under_run: bool) -> Kernel {
    let ability = |has: fn(&Support) -> bool| match support {
        Ok(support) if has(support) => Ability::Yes,
        Ok(_) if is_under_run => {
            Ability::Unknown("this process runs under `wireseal run`, which hides it".into())
        }
        Ok(_) => Ability::No,
        Err(error) => Ability::Unknown(format!("no socket to test it on: {error}")),
    };
    let release = || fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Kernel {
        release: support
            .as_ref()
            .map_or_else(|_| release().trim_end().to_owned(), |support| support.kernel.clone()),
        tcp_ao: ability(|support| support.tcp_ao),
        tcp_md5: ability(|support| support.md5),
        packet_queues: packet_queues(try_queues()),
        seccomp_notifications: seccomp_notifications(fs::read_to_string(SECCOMP_ACTIONS)),
    }
}

fn packet_queues(tried: io::Result<()>) -> Ability {
    match tried {
        Ok(()) => Ability::Yes,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Ability::Unknown("testing it needs CAP_NET_ADMIN".into())
        }
        // Without the module: EPROTONOSUPPORT for all of netfilter, EINVAL for the queues alone.
        Err(error) => match error.raw_os_error() {
            Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP) => Ability::No,
            _ => Ability::Unknown(error.to_string()),
        },
    }
}

fn seccomp_notifications(actions: io::Result<String>) -> Ability {
    match actions {
        Ok(actions) if actions.split_whitespace().any(|action| action == "user_notif") => Ability::Yes,
        Ok(_) => Ability::No,
        // Kernels before 4.14, and those without seccomp, have no such file.
        Err(error) if error.kind() == ErrorKind::NotFound => Ability::No,
        Err(error) => Ability::Unknown(format!("{SECCOMP_ACTIONS}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_tried_is_neither_there_nor_missing() {
        let queues = |code| packet_queues(Err(io::Error::from_raw_os_error(code)));
        assert_eq!(queues(libc::EINVAL), Ability::No);
        assert_eq!(queues(libc::EPROTONOSUPPORT), Ability::No);
        for code in [libc::EPERM, libc::ENOBUFS, libc::EMFILE] {
            assert!(matches!(queues(code), Ability::Unknown(_)), "{code}");
        }
        let actions = |text: &str| seccomp_notifications(Ok(text.to_owned()));
        assert_eq!(actions("kill_process kill_thread trap errno user_notif trace log allow\n"), Ability::Yes);
        assert_eq!(actions("kill_thread trap errno trace log allow\n"), Ability::No);
        let failed = |code| seccomp_notifications(Err(io::Error::from_raw_os_error(code)));
        assert_eq!(failed(libc::ENOENT), Ability::No);
        assert!(matches!(failed(libc::EACCES), Ability::Unknown(why) if why.contains("actions_avail")));
    }

    #[test]
    fn a_kernel_without_sockets_or_under_a_supervisor_is_not_judged() {
        let without = |is_under_run| {
            let support = Support {
                tcp_ao: false,
                algorithms: Vec::new(),
                md5: false,
                repair: false,
                kernel: "6.12.1".into(),
            };
            kernel(&Ok(support), is_under_run)
        };
        assert_eq!((without(false).tcp_ao, without(false).release.as_str()), (Ability::No, "6.12.1"));
        assert!(matches!(without(true).tcp_ao, Ability::Unknown(why) if why.contains("wireseal run")));
        let none = kernel(&Err(io::Error::from_raw_os_error(libc::EMFILE)), false);
        assert!(matches!(none.tcp_ao, Ability::Unknown(_)) && !none.release.is_empty());
    }
}
