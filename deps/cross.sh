#!/usr/bin/env bash
# Libraries of another architecture, for Debian's cross compiler.
#
#   deps/cross.sh ARCHITECTURE FOLDER
#
# FOLDER gets sysroot/ (the libraries of sluice and their dependencies, from the Debian that runs
# here), packages/ (the same, a folder for each package: dpkg-shlibdeps reads from them the names
# and versions to depend on) and, by fetch.sh, the libraries that are linked statically. The
# machine's own packages do not change: no architecture is added to its dpkg, and nothing is installed.
# CC and AR are the cross compiler's; the compiler is called with this sysroot.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
architecture=${1:?usage: cross.sh ARCHITECTURE FOLDER}
mkdir -p "${2:?a folder}"
folder=$(cd "$2" && pwd)
apt_dir=$folder/apt
# shellcheck disable=SC2034 # of apt.sh
apt_architecture=$architecture
sysroot=$folder/sysroot
# Those that deps/system.sh installs for building, and the header of the unit tests.
libraries="libc6-dev libuv1-dev libpq-dev libpcre2-dev libstemmer-dev libyaml-dev zlib1g-dev libcmocka-dev"

# shellcheck source=apt.sh
. "$root/deps/apt.sh"

fail()
{
    printf 'deps: %s\n' "$*" >&2
    exit 1
}

# With apt, as if nothing were installed: so with all dependencies.
download_packages()
{
    # shellcheck disable=SC2086 # a list of words
    apt_try apt_in "$1" apt-get -qq -y --download-only --no-install-recommends install $libraries ||
        fail "apt does not have $libraries for $architecture: $(sed -n '/^[EW]:/p' "$apt_dir/last.log" | head -n 1)"
}

# $1: folder of the packages. Files of the sysroot are those of packages/, by another name.
unpack_packages()
{
    local package name target
    mkdir -p "$folder/packages" "$sysroot"
    for package in "$1"/*.deb; do
        name=$(basename "$package")
        dpkg-deb -R "$package" "$folder/packages/${name%%_*}"
        cp -al "$folder/packages/${name%%_*}/." "$sysroot"
    done
    rm -rf "$sysroot/DEBIAN"
    # If everything is in /usr, programs that search /lib have to find it, too.
    [ -e "$sysroot/lib" ] || ln -s usr/lib "$sysroot/lib"
    # Links in a package begin at its root: the linker would miss the library and take its archive.
    find "$sysroot" -lname '/*' -printf '%p %l\n' | while read -r name target; do
        ln -srf "$sysroot$target" "$name"
    done
}

make_sysroot()
{
    local suite
    # shellcheck disable=SC1091 # of the machine
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    echo "deps: packages of $architecture, from Debian $suite"
    rm -rf "$apt_dir" "$sysroot" "$folder/packages"
    mkdir -p "$apt_dir"
    apt_open "$suite" || fail "Debian $suite is unreachable"
    download_packages "$suite"
    unpack_packages "$apt_dir/$suite/cache/archives"
    rm -rf "$apt_dir"
}

# Programs of that architecture run here by QEMU, where it is installed; else fetch.sh only links.
runner()
{
    local qemu
    qemu=qemu-$(dpkg-architecture -a "$architecture" -q DEB_HOST_GNU_CPU)-static
    if command -v "$qemu" >/dev/null 2>&1; then echo "$qemu -L $sysroot"; else echo true; fi
}

make_sysroot
libdir=$sysroot/usr/lib/$(dpkg-architecture -a "$architecture" -q DEB_HOST_MULTIARCH)
mkdir -p "$folder/bin"
ln -sf "$(command -v "$AR")" "$folder/bin/ar"
export PATH="$folder/bin:$PATH" DEPS_CACHE=$folder CROSS_ARCHITECTURE=$architecture CC="$CC --sysroot=$sysroot"
CROSS_RUN=$(runner)
export CROSS_RUN PKG_CONFIG_SYSROOT_DIR="$sysroot" \
    PKG_CONFIG_LIBDIR="$libdir/pkgconfig:$sysroot/usr/share/pkgconfig"
exec "$root/deps/fetch.sh"
