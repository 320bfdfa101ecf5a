# What interop/aarch64/run, interop/portable/run and interop/x86-64/run share: which tests run, how they are built, and QEMU.

. "${BASH_SOURCE[0]%/*}/packages.sh"

root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
downloads=$root/target/interop-packages

# Each line has the arguments of one call of cargo test. Other tests, such as aead's differential test, would take many minutes in QEMU
# for the same routines.
runs=(
    "-p wireseal-kernels -p wireseal-mac --lib --tests"
    "-p wireseal-aead --lib --test it -- vectors:: keys:: traits:: long::around long::associated"
    "-p wireseal-quic --lib --test it -- vectors:: arrivals::"
)

# prepare TRIPLE [ARGUMENT...]: sets up a build for the triple; the arguments replace the runs above.
prepare() {
    target=$root/target/interop-processors triple=$1
    [ $# -eq 1 ] || runs=("${*:2}")
    mkdir -p "$target"
    command -v cargo >/dev/null || fail "cargo is not installed"
    # One folder for all processors, so that what runs on this machine during a build is built only once.
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$target/cargo} CARGO_TERM_COLOR=never
    # Optimised, because QEMU is slow; without debug information, which would take gigabytes; and without thin link-time optimisation of each
    # crate, which takes as long as all the rest.
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_LTO=off
    unpack "$downloads/qemu" trixie qemu-user
}

# emulator PROCESSOR: QEMU's program for it.
emulator() { echo "$downloads/qemu/root/usr/bin/qemu-$1"; }

# use_compiler: has cargo use a compiler of Debian's that has a standard library for each of these processors.
#
# The compiler is that of forky, the first release with one new enough for s390x. Everything comes from there, including the C library,
# because an older system's would not do; nothing is installed.
use_compiler() {
    local rust=$downloads/rust/root
    unpack "$downloads/rust" forky rustc libstd-rust-dev+ libc6 libstd-rust-dev:{arm64,armhf,s390x}
    cat >"$target/rustc.$$" <<WRAPPER
#!/bin/sh
exec "$rust/usr/lib64/ld-linux-x86-64.so.2" --library-path "$rust/usr/lib/x86_64-linux-gnu" "$rust/usr/bin/rustc" "\$@"
WRAPPER
    chmod +x "$target/rustc.$$"
    mv -f "$target/rustc.$$" "$target/rustc"
    export RUSTC=$target/rustc
}

# link_and_run LINKER RUNNER: has cargo link programs for the triple with one command and run them with another.
link_and_run() {
    local name=${triple^^}
    name=CARGO_TARGET_${name//-/_}
    export "${name}_LINKER=$1" "${name}_RUNNER=$2"
}

# expect_processor EXPECTED RUNNER...: fails unless a program that the runner runs finds itself on this processor, with these paths of
# wireseal_kernels::cpu.
expect_processor() {
    local found
    cargo build --quiet --locked --target "$triple" -p wireseal-kernels --example paths
    found=$("${@:2}" "$CARGO_TARGET_DIR/$triple/debug/examples/paths" | paste -s -d ' ')
    say "$found"
    [ "$found" = "$1" ] || fail "expected: $1"
}

# run_tests OPTION...: each run with these options.
run_tests() {
    local arguments
    for arguments in "${runs[@]}"; do
        # shellcheck disable=SC2086 # Its words are arguments.
        cargo test --quiet --locked --target "$triple" "$@" $arguments
    done
}

build_tests() {
    printf '==> cargo test %s\n' "${runs[@]}"
    run_tests --no-run
}
