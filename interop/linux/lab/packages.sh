# What the guests run besides this repository's own programs, from Debian 13 and its backports, unpacked into $target/packages.

guest_packages=(
    bird3/trixie-backports busybox-static frr gobgpd
    libc6 libreadline8t64 libtinfo6 libssh-4 libssl3t64 libzstd1 zlib1g libgssapi-krb5-2 libkrb5-3 libk5crypto3
    libkrb5support0 libcom-err2 libkeyutils1
    libcap2 libcares2 libcrypt1 libjson-c5 liblua5.3-0 libpam0g libprotobuf-c1 libunwind8 libyang3
    libpcre2-8-0 libxxhash0 liblzma5 libaudit1 libcap-ng0
    nftables libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12 libgmp10 libedit2 libbsd0 libmd0
)

fetch_packages() {
    local wanted="${WIRESEAL_LAB_KERNEL:-today} ${guest_packages[*]}" debs=$target/packages suites=trixie,trixie-backports
    [ "$(cat "$debs/wanted" 2>/dev/null)" = "$wanted" ] && return
    with_suites "$target/apt" "$suites" choose_kernel "${WIRESEAL_LAB_KERNEL:-}"
    unpack "$debs" "$suites" "${kernel_packages[@]}" "${guest_packages[@]}"
    ln -sfn usr/lib "$debs/root/lib"
    ln -sfn usr/lib64 "$debs/root/lib64"
    printf '%s\n' "$wanted" >"$debs/wanted"
}

# choose_kernel [KERNEL]: sets kernel_packages, for the cloud kernel of today unless one is named.
choose_kernel() {
    local kernel=$1
    [ -n "$kernel" ] || kernel=$(apt-cache show linux-image-cloud-amd64/trixie-backports | sed -n 's/^Depends:.*linux-image-\([0-9][^ ]*\).*/\1/p')
    [ -n "$kernel" ] || fail "linux-image-cloud-amd64 in trixie-backports depends on no kernel"
    kernel_packages=("linux-binary-$kernel" "linux-modules-$kernel" "linux-base-$kernel")
    # Kernels before 7 are in one package. `apt-cache show` succeeds for a name that has no candidate.
    [ -n "$(apt-cache madison "${kernel_packages[0]}")" ] || kernel_packages=("linux-image-$kernel")
}
