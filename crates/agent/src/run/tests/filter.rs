//! What the filter does with each call, by a reading of its program as the kernel's (seccomp(2)).

use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF};
use wireseal_linux::Instruction;

use super::*;

/// `struct seccomp_data` in words: the call's number, the architecture, the instruction's address, six arguments.
fn words(architecture: u32, number: u32, arguments: [u64; 6]) -> Vec<u32> {
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    [[number, architecture], [0x5555, 0x7fff]].into_iter().chain(arguments.map(halves)).flatten().collect()
}

/// What the program returns.
fn interpret(program: &[Instruction], words: &[u32]) -> u32 {
    let (mut next, mut a) = (0, 0);
    loop {
        let Instruction { code, if_true, if_false, operand } = program[next];
        let is_so = match code {
            0x20 => {
                a = words[operand as usize / 4];
                false
            }
            0x54 => {
                a &= operand;
                false
            }
            0x05 => {
                next += operand as usize;
                false
            }
            0x15 => a == operand,
            0x35 => a >= operand,
            0x06 => return operand,
            _ => panic!("instruction {code:#x}"),
        };
        next += 1 + usize::from(if is_so { if_true } else { if_false });
    }
}

const OWN: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0xc000_00f3
};
const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;
/// Upper halves that the kernel does not look at.
const HIGH: u64 = 0xdead_beef_0000_0000;

#[test]
fn each_call_has_its_answer() {
    let program = CallFilter(RULES).program().unwrap();
    let found = |number: c_long, arguments: &[(usize, u32)]| {
        let of = |high: u64, others: u32| {
            let mut all = [high | u64::from(others); 6];
            arguments.iter().for_each(|&(index, value)| all[index] = high | u64::from(value));
            interpret(&program, &words(OWN, number as u32, all))
        };
        let answer = of(0, 0);
        assert_eq!(of(HIGH, 0), answer, "{number} {arguments:x?}");
        answer
    };
    let (pass, wait) = (SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF);
    let fails = |errno: Errno| SECCOMP_RET_ERRNO | errno.raw_os_error() as u32;
    let no_option = fails(Errno::NOPROTOOPT);
    for (call, arguments, answer) in [
        (libc::SYS_connect, &[][..], wait),
        (libc::SYS_connect, &[(0, 3), (2, 16)], wait),
        (libc::SYS_listen, &[], wait),
        (libc::SYS_io_uring_setup, &[], fails(Errno::NOSYS)),
        (libc::SYS_clone3, &[], fails(Errno::NOSYS)),
        (libc::SYS_socket, &[(0, 2), (1, 1), (2, 0)], pass),
        (libc::SYS_socket, &[(0, 2), (1, 1), (2, 6)], pass),
        (libc::SYS_socket, &[(0, 2), (1, 1), (2, 262)], fails(Errno::PROTONOSUPPORT)),
        (libc::SYS_socket, &[(0, 2), (1, 1), (2, 256)], fails(Errno::PROTONOSUPPORT)),
        (libc::SYS_socket, &[(0, 43), (1, 1)], fails(Errno::AFNOSUPPORT)),
        (libc::SYS_socket, &[(0, 43), (2, 262)], fails(Errno::PROTONOSUPPORT)),
        (libc::SYS_socket, &[(0, 262), (1, 43)], pass),
        (libc::SYS_sendto, &[(3, 0x2000_0000)], fails(Errno::OPNOTSUPP)),
        (libc::SYS_sendto, &[(3, 0x2000_4040)], fails(Errno::OPNOTSUPP)),
        (libc::SYS_sendto, &[(3, 0xdfff_ffff), (2, 0x2000_0000)], pass),
        (libc::SYS_sendmsg, &[(2, 0x2000_0000)], fails(Errno::OPNOTSUPP)),
        (libc::SYS_sendmsg, &[(3, 0x2000_0000)], pass),
        (libc::SYS_sendmmsg, &[(3, 0x2000_0000)], fails(Errno::OPNOTSUPP)),
        (libc::SYS_sendmmsg, &[(2, 0x2000_0000)], pass),
        (libc::SYS_setsockopt, &[(1, 6), (2, 38)], no_option),
        (libc::SYS_setsockopt, &[(1, 6), (2, 39)], no_option),
        (libc::SYS_setsockopt, &[(1, 6), (2, 40)], no_option),
        (libc::SYS_setsockopt, &[(1, 6), (2, 14)], wait),
        (libc::SYS_setsockopt, &[(1, 6), (2, 32)], wait),
        (libc::SYS_setsockopt, &[(1, 6), (2, 1)], pass),
        (libc::SYS_setsockopt, &[(1, 6), (2, 41)], pass),
        (libc::SYS_setsockopt, &[(1, 1), (2, 38)], pass),
        (libc::SYS_setsockopt, &[(1, 41), (2, 14)], pass),
        (libc::SYS_getsockopt, &[(1, 6), (2, 41)], no_option),
        (libc::SYS_getsockopt, &[(1, 6), (2, 40)], pass),
        (libc::SYS_getsockopt, &[(1, 0), (2, 41)], pass),
        (libc::SYS_unshare, &[(0, 0x400)], fails(Errno::PERM)),
        (libc::SYS_unshare, &[(0, 0x4000_0400)], fails(Errno::PERM)),
        (libc::SYS_unshare, &[(0, 0x4000_0000)], pass),
        (libc::SYS_close_range, &[(2, 2)], fails(Errno::INVAL)),
        (libc::SYS_close_range, &[(2, 6)], fails(Errno::INVAL)),
        (libc::SYS_close_range, &[(2, 4)], pass),
        // A thread with its own descriptors; an ordinary thread; processes.
        (libc::SYS_clone, &[(0, 0x1_0900)], fails(Errno::PERM)),
        (libc::SYS_clone, &[(0, 0x3d_0f00)], pass),
        (libc::SYS_clone, &[(0, 0x120_0011)], pass),
        (libc::SYS_clone, &[(0, 0x400)], pass),
        (libc::SYS_accept, &[], pass),
        (libc::SYS_bind, &[], pass),
        (libc::SYS_read, &[(1, 6), (2, 38)], pass),
        (libc::SYS_execve, &[], pass),
    ] {
        assert_eq!(found(call, arguments), answer, "{call} {arguments:x?}");
    }
}

#[test]
fn calls_of_other_abis_are_refused() {
    let program = CallFilter(RULES).program().unwrap();
    let found = |architecture, number| interpret(&program, &words(architecture, number, [0; 6]));
    let refused = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    for foreign in [I386, ARM, 0, OWN ^ 1, OWN & 0xffff] {
        for number in [0, 3, libc::SYS_read as u32, libc::SYS_connect as u32, 102, 362] {
            assert_eq!(found(foreign, number), refused, "{foreign:#x} {number}");
        }
    }
    let x32 = if cfg!(target_arch = "x86_64") { refused } else { SECCOMP_RET_ALLOW };
    for number in [0, libc::SYS_connect as u32, 0x3fff_ffff, 0xbfff_fffe] {
        assert_eq!(found(OWN, 0x4000_0000 + number), x32, "{number}");
    }
    assert_eq!(found(OWN, 0x3fff_ffff), SECCOMP_RET_ALLOW);
    // A tracer has answered the call.
    assert_eq!(found(OWN, u32::MAX), SECCOMP_RET_ALLOW);
}
