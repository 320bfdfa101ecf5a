# Debian packages of any release and architecture, unpacked without being installed.

say() { printf '==> %s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# install_commands COMMAND:PACKAGE[,PACKAGE...]...
#
# Installs the packages with apt-get if the command is missing. COMMAND may also be a file's path.
install_commands() {
    local command missing=()
    for command in "$@"; do
        command -v "${command%%:*}" >/dev/null || [ -e "${command%%:*}" ] || missing+=(${command#*:})
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    missing=(${missing[@]//,/ })
    say "apt-get install ${missing[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# unpack FOLDER SUITE[,SUITE...] PACKAGE[:ARCHITECTURE][+]...
#
# Unpacks the packages into FOLDER/root, once, and lists them in FOLDER/versions. A SUITE is a release of Debian, such as trixie
# or trixie-security. A + after a package adds what it depends on, except the C library.
unpack() {
    local folder=$1 suites=$2 wanted="${*:2}" lock
    shift 2
    mkdir -p "$folder"
    # Two scripts may want the same packages at once.
    exec {lock}>"$folder.lock"
    flock "$lock"
    [ "$(cat "$folder/complete" 2>/dev/null)" = "$wanted" ] || unpack_anew "$@"
    exec {lock}>&-
}

# With the variables of unpack.
unpack_anew() {
    say "packages of Debian ($suites): $*"
    rm -rf "$folder"
    mkdir -p "$folder/debs"
    with_suites "$folder/apt" "$suites" download "$folder/debs" "$@"
    local deb
    for deb in "$folder/debs"/*.deb; do
        dpkg-deb -x "$deb" "$folder/root"
        dpkg-deb -W --showformat '${Package} ${Version} ${Architecture}\n' "$deb" >>"$folder/versions"
    done
    rm -rf "$folder/debs" "$folder/apt"
    printf '%s\n' "$wanted" >"$folder/complete"
}

# with_suites FOLDER SUITE[,SUITE...] COMMAND...
#
# Runs a command with a separate apt, kept in FOLDER, that knows these releases, for this machine's architecture and those that
# the command's arguments name.
with_suites() {
    local folder=$1 suites=$2
    shift 2
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    configure_apt "$folder" "$suites" "$(named_architectures "$@")"
    export APT_CONFIG=$folder/apt.conf
    apt-get update -qq
    "$@"
    unset APT_CONFIG
}

download() {
    local folder=$1 package packages=()
    shift
    for package in "$@"; do
        case $package in
            *+) packages+=($(with_dependencies "${package%+}")) ;;
            *) packages+=("$package") ;;
        esac
    done
    (cd "$folder" && apt-get download -qq "${packages[@]}")
}

with_dependencies() {
    apt-cache depends --recurse --no-{recommends,suggests,conflicts,breaks,replaces,enhances} "$1" |
        grep -E '^[a-z0-9]' | grep -vx libc6
}

# From arguments such as valgrind:arm64, the part after the colon, each as an item of apt's configuration. Only the lists of these are
# fetched, because four architectures would take four times as long.
named_architectures() {
    printf '%s\n' "$@" | sed -n 's/^[^/]*:\([a-z0-9]*\)+\?$/"\1";/p' | sort -u | tr '\n' ' '
}

# A separate apt configuration: the same mirrors, no installed packages, no hooks.
configure_apt() {
    local apt=$1 suites=$2 architectures=$3 suite label mirror
    [ -n "$(repository Debian)" ] || apt-get update -qq
    for suite in ${suites//,/ }; do
        case $suite in
            *-security) label=Debian-Security ;;
            *) label=Debian ;;
        esac
        mirror=$(repository "$label")
        [ -n "$mirror" ] || fail "apt has no repository with the label $label"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$apt/sources.list"
    {
        # Proxies and similar settings of this machine.
        apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets'
        cat <<CONFIGURATION
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$apt";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; $architectures};
APT::Sandbox::User "root";
CONFIGURATION
    } >"$apt/apt.conf"
}

repository() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Label: $1" 'Component: main' |
        head -n 1
}
