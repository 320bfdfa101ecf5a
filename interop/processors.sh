# What interop/aarch64/run and interop/x86-64/run share: which tests run, and how they are built.

. "${BASH_SOURCE[0]%/*}/packages.sh"

root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
downloads=$root/target/interop-packages

# Each line is the arguments of a call of cargo test. In QEMU other tests, such as quic's differential test, would take many
# minutes for the same routines.
runs=(
    "-p wireseal-kernels -p wireseal-mac --lib --tests"
    "-p wireseal-quic --lib --test batches --test rfc9001 --test rfc9369 --test wycheproof"
)

# prepare FOLDER TRIPLE [ARGUMENT...]: sets up a build for the triple under target/FOLDER; the arguments replace the runs above.
prepare() {
    target=$root/target/$1 triple=$2
    [ $# -eq 2 ] || runs=("${*:3}")
    mkdir -p "$target"
    command -v cargo >/dev/null || fail "cargo is not installed"
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$target/cargo} CARGO_TERM_COLOR=never
    # Optimised, because QEMU is slow; without debug information, which would be gigabytes.
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_OPT_LEVEL=2
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
