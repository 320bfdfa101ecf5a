# $target/vmlinuz and $target/initramfs, from the unpacked packages and this repository's programs.

build_initramfs() {
    local programs=$1 debs=$target/packages/root root=$target/root kernel
    kernel=$(cd "$debs/usr/lib/modules" && echo *)
    grep -qx CONFIG_TCP_AO=y "$(kernel_file config "$kernel")" || fail "kernel $kernel is without TCP-AO"

    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,etc,modules,proc,root,run,sys,tmp,usr/sbin,usr/lib64,var/run}
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"
    ln -s usr/sbin "$root/sbin"
    cp "$here/guest/init" "$root/init"
    cp "$programs/wireseal-interop-linux-guest" "$root/bin/guest"
    cp "$programs/router-peer" "$programs/rtr" "$programs/wireseal" "$root/bin/"
    cp "$debs/usr/bin/busybox" "$root/bin/busybox"
    cp "$debs"/usr/sbin/{bird,birdc} "$root/usr/sbin/"
    mkdir -p "$root/usr/lib/frr"
    cp "$debs"/usr/lib/frr/{bgpd,zebra} "$root/usr/lib/frr/"
    cp "$debs/usr/bin/gobgpd" "$debs/usr/sbin/nft" "$root/usr/sbin/"
    # FRR's daemons give up being root.
    printf 'root:x:0:0::/:/bin/sh\nfrr:x:100:100::/:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nfrr:x:100:\nfrrvty:x:101:frr\n' >"$root/etc/group"
    copy_libraries usr/sbin/bird usr/sbin/birdc usr/lib/frr/bgpd usr/lib/frr/zebra usr/bin/gobgpd usr/sbin/nft
    copy_modules cmac failover net_failover virtio_net vrf veth tun sch_netem nfnetlink nf_tables nfnetlink_queue nft_queue
    cp "$(kernel_file vmlinuz "$kernel")" "$target/vmlinuz"
    pack "$target/initramfs"
    {
        echo "kernel=$kernel"
        awk '/^linux-(binary|image)-/ { print "kernel_package=" $2 } /^bird3 / { print "bird=" $2 } /^(frr|gobgpd) / { print $1 "=" $2 }' "$target/packages/versions"
        echo "qemu=$(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version //p')"
        echo "rustc=$(rustc --version | cut -d ' ' -f 2)"
    } >"$target/versions"
}

# copy_modules MODULE...: in the order in which they are loaded; a kernel that has one built in has no file for it.
copy_modules() {
    local module file
    for module in "$@"; do
        file=$(find "$debs/usr/lib/modules" -name "$module.ko*")
        case $file in
            *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
            ?*) cp "$file" "$root/modules/" ;;
        esac
        [ -z "$file" ] || echo "$module" >>"$root/modules/order"
    done
}

# pack FILE: the guest's files, as the kernel takes them.
pack() {
    (cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$1"
}

# Kernels before 7 have these files in /boot.
kernel_file() {
    local new=$debs/usr/lib/modules/$2/$1 old=$debs/boot/$1-$2
    if [ -e "$new" ]; then echo "$new"; else echo "$old"; fi
}

# Asks the loader of the guests' C library what the programs need, and copies that and the loader.
copy_libraries() {
    local loader=usr/lib64/ld-linux-x86-64.so.2 libraries=usr/lib/x86_64-linux-gnu program list
    cp -L "$debs/$loader" "$root/$loader"
    mkdir -p "$root/$libraries"
    for program in "$@"; do
        list=$("$debs/$loader" --library-path "$debs/$libraries:$debs/$libraries/frr" --list "$debs/$program")
        # One that is not in the packages would be this machine's.
        if grep 'not found' <<<"$list" || grep '=> /' <<<"$list" | grep -vF "=> $debs/"; then
            fail "$program lacks libraries"
        fi
        awk -v from="$debs/" 'index($3, from) == 1 { print $3 }' <<<"$list" | while read -r file; do
            cp -L "$file" "$root/$libraries/"
        done
    done
}
