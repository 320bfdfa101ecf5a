# The guests' kernels and root file systems: $target/NAME.vmlinuz and $target/NAME.initramfs.

# Modules that every guest needs, in loading order.
modules=(
    cmac failover net_failover virtio_net vrf veth tun sch_netem nfnetlink nf_tables nfnetlink_queue nft_queue nft_fib_inet nft_ct
    mpls_router mpls_iptunnel inet_diag tcp_diag
)

build_initramfs() {
    local programs=$1 kernel own
    kernel=$(kernel_release kernel)
    grep -qx CONFIG_TCP_AO=y "$(kernel_file kernel config)" || fail "kernel $kernel is without TCP-AO"
    if [ -n "$smoke" ]; then
        build_small kernel small
        write_versions >"$target/versions"
        return
    fi
    own=$(kernel_release own-kernel)
    ! grep -qx CONFIG_TCP_AO=y "$(kernel_file own-kernel config)" || fail "Debian's own kernel $own has TCP-AO"
    build_small kernel small
    build_big kernel debian
    build_big own-kernel stock
    {
        write_versions
        echo "own_kernel=$own"
        awk '/^bird3 / { print "bird=" $2 }' "$target/packages/guest/versions"
        cat "$target/debian/versions"
    } >"$target/versions"
}

write_versions() {
    local changed=
    # The results of stages change while stages run.
    git -C "$here" diff --quiet HEAD -- ':/' ':!/*.md' ':!/.ci/results' 2>/dev/null || changed=' with changes'
    echo "commit=$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)$changed"
    echo "date=$(date -u +%F)"
    echo "kernel=$kernel"
    awk '/^linux-(binary|image)-/ { print "kernel_package=" $2 }' "$target/packages/kernel/versions"
    echo "qemu=$(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version //p')"
    echo "rustc=$(rustc --version | cut -d ' ' -f 2)"
}

# build_small KERNEL NAME: a guest that boots in four seconds, with BIRD and GoBGP but for a smoke run.
build_small() {
    local debs=$target/packages/guest/root root=$target/root
    begin_root
    mkdir -p "$root"/{bin,dev,etc,proc,root,run,sys,tmp,usr/sbin,usr/lib64,var/run}
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"
    ln -s usr/sbin "$root/sbin"
    cp "$here/guest/init" "$root/init"
    cp "$programs/wireseal-interop-linux-guest" "$root/bin/guest"
    cp "$programs/many_sessions" "$debs/usr/bin/busybox" "$root/bin/"
    # A smoke run has them only for rows that need them.
    if [ -e "$programs/c-daemon" ]; then
        cp "$programs"/c-{daemon,sockets} "$root/bin/"
    fi
    if [ -z "$smoke" ]; then
        cp "$programs"/{router-peer,bgp-daemon-keys} "$root/bin/"
        cp "$target/package"/wireseal-*-x86_64 "$root/bin/wireseal"
        cp "$debs"/usr/sbin/{bird,birdc} "$debs/usr/bin/gobgpd" "$root/usr/sbin/"
        copy_libraries usr/sbin/bird usr/sbin/birdc usr/bin/gobgpd
    fi
    copy_modules "$1" "${modules[@]}"
    cp "$(kernel_file "$1" vmlinuz)" "$target/$2.vmlinuz"
    pack "$target/$2.initramfs"
}

# build_big KERNEL NAME: Debian 13, with what the lab adds.
build_big() {
    local root=$target/root package=$target/package
    begin_root
    mkdir -p "$root"/{etc/systemd/system/multi-user.target.wants,opt/lab,root/upgrade,usr/local/bin}
    cp "$here/guest/init-debian" "$root/init"
    cp "$here/guest/agent.service" "$root/etc/systemd/system/"
    ln -s ../agent.service "$root/etc/systemd/system/multi-user.target.wants/"
    cp "$programs/wireseal-interop-linux-guest" "$root/usr/local/bin/guest"
    cp "$programs"/{router-peer,bgp-daemon-keys,wireseal-second-days} "$root/usr/local/bin/"
    # For rows that install nothing, where nobody else finds it.
    cp "$package"/wireseal-*-x86_64 "$root/opt/lab/wireseal"
    # Where the reader has downloaded it to, and a later version.
    cp "$package"/wireseal_*.deb "$root/root/"
    cp "$package"/upgrade/wireseal_*.deb "$root/root/upgrade/"
    copy_modules "$1" "${modules[@]}"
    cp "$(kernel_file "$1" vmlinuz)" "$target/$2.vmlinuz"
    pack "$target/own.cpio"
    # The kernel takes several archives one after the other.
    cat "$target/debian/root.cpio" "$target/own.cpio" >"$target/$2.initramfs"
}

# build_package: $target/package has the .deb, the program in it, and in upgrade the same package as a later version.
build_package() {
    local package=$target/package deb
    rm -rf "$package"
    mkdir -p "$package/upgrade"
    "$root/packaging/build" --quick
    cp "$root"/target/packages/wireseal{_*.deb,-*-x86_64} "$package/"
    deb=$(echo "$package"/wireseal_*.deb)
    dpkg-deb -R "$deb" "$package/tree"
    sed -i 's/^Version: .*/&+later/' "$package/tree/DEBIAN/control"
    dpkg-deb --root-owner-group -z1 -b "$package/tree" "$package/upgrade/$(basename "$deb" _amd64.deb)+later_amd64.deb" >/dev/null
    rm -r "$package/tree"
}

begin_root() {
    rm -rf "$root"
    mkdir -p "$root/modules"
}

kernel_release() {
    (cd "$target/packages/$1/root/usr/lib/modules" && echo *)
}

# kernel_file KERNEL FILE: kernels before 7 have these files in /boot.
kernel_file() {
    local release new old
    release=$(kernel_release "$1")
    new=$target/packages/$1/root/usr/lib/modules/$release/$2 old=$target/packages/$1/root/boot/$2-$release
    if [ -e "$new" ]; then echo "$new"; else echo "$old"; fi
}

# copy_modules KERNEL MODULE...: copies the modules and lists them in loading order, each after those that it needs. A built-in module has
# no file.
copy_modules() {
    local kernel=$1 module file
    shift
    for module in "$@"; do
        # File names may have hyphens where module names have underscores.
        file=$(find "$target/packages/$kernel/root/usr/lib/modules" -name "${module//[-_]/[-_]}.ko*")
        if [ -z "$file" ] || grep -qsxF "$module" "$root/modules/order"; then
            continue
        fi
        copy_modules "$kernel" $(modinfo -F depends "$file" | tr , ' ')
        case $file in
            *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
            *) cp "$file" "$root/modules/$module.ko" ;;
        esac
        echo "$module" >>"$root/modules/order"
    done
}

# pack FILE: packs the guest's files as the kernel needs them.
pack() {
    (cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$1"
}

# Asks the loader of the guests' C library which libraries the programs need, and copies them and the loader.
copy_libraries() {
    local loader=usr/lib64/ld-linux-x86-64.so.2 libraries=usr/lib/x86_64-linux-gnu program list
    cp -L "$debs/$loader" "$root/$loader"
    mkdir -p "$root/$libraries"
    for program in "$@"; do
        list=$("$debs/$loader" --library-path "$debs/$libraries" --list "$debs/$program")
        # A library that is not in the packages would be this machine's.
        if grep 'not found' <<<"$list" || grep '=> /' <<<"$list" | grep -vF "=> $debs/"; then
            fail "$program lacks libraries"
        fi
        awk -v from="$debs/" 'index($3, from) == 1 { print $3 }' <<<"$list" | while read -r file; do
            cp -L "$file" "$root/$libraries/"
        done
    done
}
