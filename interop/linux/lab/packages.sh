# What the guests run besides this repository's own programs, from Debian 13 and its backports, unpacked under $target/packages: the
# kernels, and BIRD and GoBGP with their libraries for the small guest.

guest_packages=(
    bird3/trixie-backports busybox-static gobgpd
    libc6 libreadline8t64 libtinfo6 libssh-4 libssl3t64 libzstd1 zlib1g libgssapi-krb5-2 libkrb5-3 libk5crypto3
    libkrb5support0 libcom-err2 libkeyutils1
)

fetch_packages() {
    unpack "$target/packages/guest" trixie,trixie-backports "${guest_packages[@]}"
    ln -sfn usr/lib "$target/packages/guest/root/lib"
    ln -sfn usr/lib64 "$target/packages/guest/root/lib64"
    # The kernel under test, and Debian 13's own, which has no TCP-AO.
    fetch_kernel kernel "${WIRESEAL_LAB_KERNEL:-trixie-backports}"
    fetch_kernel own-kernel trixie
}

# What the small guest needs without daemons.
fetch_least() {
    unpack "$target/packages/guest" trixie busybox-static
    fetch_kernel kernel "${WIRESEAL_LAB_KERNEL:-trixie-backports}"
}

# fetch_kernel NAME KERNEL: unpacks a cloud kernel: the current one of a suite, or the newest whose release begins with these numbers.
fetch_kernel() {
    local folder=$target/packages/$1 wanted=$2
    [ "$(cat "$folder/wanted" 2>/dev/null)" = "$wanted" ] && return
    with_suites "$target/apt" trixie,trixie-backports choose_kernel "$wanted"
    unpack "$folder" trixie,trixie-backports "${kernel_packages[@]}"
    printf '%s\n' "$wanted" >"$folder/wanted"
}

# choose_kernel KERNEL: sets kernel_packages.
choose_kernel() {
    local kernel=$1
    case $kernel in
        trixie*)
            kernel=$(apt-cache show "linux-image-cloud-amd64/$1" | sed -n 's/^Depends:.*linux-image-\([0-9][^ ]*\).*/\1/p' | head -n 1)
            [ -n "$kernel" ] || fail "linux-image-cloud-amd64 in $1 depends on no kernel"
            ;;
        *)
            kernel=$(apt-cache pkgnames linux-image- | sed -n 's/^linux-image-\(.*-cloud-amd64\)$/\1/p' |
                grep -E "^${kernel//./\\.}([.+-]|$)" | sort -V | tail -n 1) || fail "there is no cloud kernel $1"
            ;;
    esac
    kernel_packages=("linux-binary-$kernel" "linux-modules-$kernel" "linux-base-$kernel")
    # Kernels before 7 are in one package. `apt-cache show` succeeds for a name that has no candidate.
    [ -n "$(apt-cache madison "${kernel_packages[0]}")" ] || kernel_packages=("linux-image-$kernel")
}
