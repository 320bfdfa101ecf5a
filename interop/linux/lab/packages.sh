# Tools for this machine by apt-get; packages for the guests into $target/packages, without installing them.

install_tools() {
    local missing=()
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    command -v cpio >/dev/null || missing+=(cpio)
    command -v xz >/dev/null || missing+=(xz-utils)
    command -v cc >/dev/null || missing+=(gcc)
    [ -e "/usr/lib/$(uname -m)-linux-gnu/libc.a" ] || missing+=(libc6-dev)
    if [ ${#missing[@]} -gt 0 ]; then
        say "apt-get install ${missing[*]}"
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "${missing[@]}"
    fi
    command -v cargo >/dev/null || fail "cargo is not installed"
}

# What the guests run besides this repository's own programs. Debian 13 has it, so it is unpacked and not installed.
guest_packages=(
    bird3/trixie-backports busybox-static
    libc6 libreadline8t64 libtinfo6 libssh-4 libssl3t64 libzstd1 zlib1g libgssapi-krb5-2 libkrb5-3 libk5crypto3
    libkrb5support0 libcom-err2 libkeyutils1
)

fetch_packages() {
    local wanted=${WIRESEAL_LAB_KERNEL:-today} debs=$target/packages
    [ "$(cat "$debs/complete" 2>/dev/null)" = "$wanted" ] && return
    say "packages of Debian 13 for the guests"
    rm -rf "$debs"
    mkdir -p "$debs" "$target/apt/lists/partial" "$target/apt/cache/archives/partial"
    configure_apt
    export APT_CONFIG=$target/apt/apt.conf
    apt-get update -qq

    local kernel=${WIRESEAL_LAB_KERNEL:-} packages
    [ -n "$kernel" ] || kernel=$(apt-cache show linux-image-cloud-amd64/trixie-backports | sed -n 's/^Depends:.*linux-image-\([0-9][^ ]*\).*/\1/p')
    [ -n "$kernel" ] || fail "linux-image-cloud-amd64 in trixie-backports depends on no kernel"
    # Kernels before 7 are in one package.
    packages=("linux-binary-$kernel" "linux-modules-$kernel" "linux-base-$kernel")
    apt-cache show "${packages[0]}" >/dev/null 2>&1 || packages=("linux-image-$kernel")
    (cd "$debs" && apt-get download -qq "${packages[@]}" "${guest_packages[@]}")
    unset APT_CONFIG

    local deb
    for deb in "$debs"/*.deb; do
        dpkg-deb -x "$deb" "$debs/root"
    done
    ln -sfn usr/lib "$debs/root/lib"
    ln -sfn usr/lib64 "$debs/root/lib64"
    {
        echo "kernel=$(cd "$debs/root/usr/lib/modules" && echo *)"
        echo "kernel_package=$(dpkg-deb -f "$debs/${packages[0]}"_*.deb Version)"
        echo "bird=$(dpkg-deb -f "$debs"/bird3_*.deb Version)"
    } >"$target/versions.packages"
    printf '%s\n' "$wanted" >"$debs/complete"
}

# An apt of its own: it asks the mirror that this machine uses, knows no installed packages and runs no hooks.
configure_apt() {
    local mirror
    [ -n "$(main_repository)" ] || apt-get update -qq
    mirror=$(main_repository)
    [ -n "$mirror" ] || fail "apt knows no Debian repository"
    local suite
    for suite in trixie trixie-backports; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$target/apt/sources.list"
    {
        # Proxies and the like are the machine's.
        apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets'
        cat <<CONFIGURATION
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$target/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$target/apt";
Dir::State::status "/dev/null";
Dir::Cache "$target/apt/cache";
APT::Architecture "amd64";
APT::Sandbox::User "root";
CONFIGURATION
    } >"$target/apt/apt.conf"
}

main_repository() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' |
        head -n 1
}
