# $target/debian/root.cpio: a fresh Debian 13 with systemd and daemons, and with the packages of Debian that the documentation's own commands
# install. Wireseal's package is installed by these commands later, in the guests, which reach no mirror.

debian_packages=(systemd-sysv iproute2 procps kmod python3-minimal)

build_debian() {
    local folder=$target/debian mirror page wanted
    # Without Wireseal's package, but with what it recommends.
    page=$(grep -h '^apt-get install ' "$root/docs/run.md" "$root/docs/gateway.md" "$root"/docs/daemons/*.md | sort -u | sed 's| \./wireseal_[^ ]*| nftables|')
    wanted="${debian_packages[*]} $page $(cat "$here/lab/debian.sh")"
    [ "$(cat "$folder/complete" 2>/dev/null)" = "$wanted" ] && return
    mirror=$(repository Debian)
    [ -n "$mirror" ] || fail "apt has no repository of Debian"
    say "mmdebstrap trixie"
    rm -rf "$folder"
    mkdir -p "$folder/root"
    # The guest boots its own kernel, so it is enough that this one can be installed.
    printf 'set -e\nexport DEBIAN_FRONTEND=noninteractive\n%s\n' "$page" |
        sed '/linux-image/ s/$/ --simulate >\/dev\/null/; s/  *# .*>/ --simulate >/' >"$folder/install"
    mmdebstrap --quiet --mode=root --variant=minbase --include="$(IFS=,; echo "${debian_packages[*]}")" \
        --aptopt='APT::Get::Assume-Yes "true"' --aptopt='APT::Install-Recommends "false"' \
        --customize-hook="cp $folder/install \"\$1/install\" && chroot \"\$1\" sh /install && rm \"\$1/install\"" \
        --customize-hook='chroot "$1" systemctl --quiet disable frr gobgpd exabgp openbgpd bird stayrtr nfacctd pmacctd sfacctd uacctd' \
        --customize-hook='chroot "$1" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer fstrim.timer dpkg-db-backup.timer' \
        --customize-hook='cd "$1" && rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale var/lib/apt/lists var/cache/apt' \
        trixie "$folder/root.tar" "deb $mirror trixie main" "deb $mirror trixie-backports main"
    tar -xf "$folder/root.tar" -C "$folder/root" --numeric-owner --exclude='./dev/*'
    rm "$folder/root.tar"
    chroot "$folder/root" dpkg-query -W -f '${Package}=${Version}\n' frr gobgpd exabgp >"$folder/versions"
    # With their owners: BIRD's configuration is for its user alone.
    (cd "$folder/root" && find . | cpio --quiet -o -H newc) >"$folder/root.cpio"
    rm -rf "$folder/root"
    printf '%s\n' "$wanted" >"$folder/complete"
}
