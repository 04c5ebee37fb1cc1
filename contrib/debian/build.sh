#!/usr/bin/env bash
# Makes the Debian package of built programs.
#
#   contrib/debian/build.sh ARCHITECTURE FOLDER PROGRAM...
#
# FOLDER gets sluice_VERSION_ARCHITECTURE.deb. Man pages and completions come from the program
# that runs here, $SLUICE_HOST_BIN (the first PROGRAM, if that runs here). For another architecture
# $STRIP is its strip, and $SLUICE_PACKAGES a folder of its packages, unpacked by deps/cross.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

architecture=${1:?usage: build.sh ARCHITECTURE FOLDER PROGRAM...}
folder=${2:?a folder for the package}
shift 2
host=${SLUICE_HOST_BIN:-$1}
# A version between two releases needs no name of its own: that is up to the release.
version=$(sed -n 's/^#define SLUICE_VERSION "\(.*\)"/\1/p' src/base/version.h)
# The same sources produce the same package.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y src/base/version.h)}"
export SOURCE_DATE_EPOCH

# The packager is named as in Debian's own tools; else it is the author of the last commit.
if [ -n "${DEBEMAIL:-}" ]; then
    maintainer="${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>"
else
    maintainer=$(git log -1 --format='%an <%ae>' 2>/dev/null) || {
        echo "build.sh: there is no git; set DEBEMAIL and DEBFULLNAME to the packager's" >&2
        exit 1
    }
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
root=$stage/sluice

# $1: file of the package, its text on stdin, compressed without name and time.
put_gzip()
{
    mkdir -p "$(dirname "$root/$1")"
    gzip -9n >"$root/$1"
}

put_programs()
{
    local program
    for program in "$@"; do
        install -D -m 755 "$program" "$root/usr/bin/$(basename "$program")"
    done
    "${STRIP:-strip}" --strip-unneeded "$root"/usr/bin/*
}

# The units of contrib/deploy, whose first comment is for copying them by hand.
put_units()
{
    local unit
    for unit in sluice.service sluice.socket; do
        install -d "$root/lib/systemd/system"
        sed -e '1,/^\[Unit\]/{/^#/d}' -e 's|/usr/local/bin/|/usr/bin/|' "contrib/deploy/$unit" \
            >"$root/lib/systemd/system/$unit"
    done
    install -d "$root/usr/lib/sysusers.d"
    echo 'u sluice - "sluice server" / /usr/sbin/nologin' >"$root/usr/lib/sysusers.d/sluice.conf"
}

# sluice-bench(1) from its help: options in two columns, and paragraphs around them.
put_bench_page()
{
    printf '.TH SLUICE\\-BENCH 1 "" "sluice %s"\n.SH NAME\nsluice\\-bench \\- loads a sluice server and measures it\n' "$version"
    "$(dirname "$host")/sluice-bench" --help | sed -e 's/\\/\\e/g' -e 's/-/\\-/g' | awk '
        sub(/^usage: /, "") { print ".SH SYNOPSIS\n" $0 "\n.SH DESCRIPTION"; next }
        /^  \\-\\-/ {
            if (!options++) print ".SH OPTIONS"
            match($0, /^  [^ ]+( [A-Z=]+)?/)
            print ".TP\n.B " substr($0, 3, RLENGTH - 2)
            $0 = substr($0, RLENGTH + 1)
        }
        sub(/^Exit status: /, "") { print ".SH EXIT STATUS" }
        { sub(/^ +/, "") }
        length { print }'
    printf '.SH SEE ALSO\n.BR sluice (1)\n'
}

put_completions()
{
    local file shell
    for file in bash-completion/completions/sluice zsh/vendor-completions/_sluice fish/vendor_completions.d/sluice.fish; do
        shell=${file%%[-/]*}
        install -d "$root/usr/share/${file%/*}"
        "$host" help "--$shell" >"$root/usr/share/$file"
    done
}

put_documents()
{
    local doc=$root/usr/share/doc/sluice
    "$host" help --man | put_gzip usr/share/man/man1/sluice.1.gz
    put_bench_page | put_gzip usr/share/man/man1/sluice-bench.1.gz
    "$host" help --man-conf | put_gzip usr/share/man/man5/sluice.conf.5.gz
    put_completions
    install -d "$doc/examples"
    install -m 644 contrib/debian/copyright "$doc/copyright"
    install -D -m 644 contrib/debian/lintian-overrides "$root/usr/share/lintian/overrides/sluice"
    install -m 644 contrib/deploy/README.md "$doc/README.md"
    install -m 644 contrib/deploy/nginx.conf contrib/deploy/haproxy.cfg contrib/deploy/Caddyfile \
        contrib/observability/prometheus.yml contrib/observability/alerts.yml contrib/observability/grafana.json \
        "$doc/examples/"
    put_gzip usr/share/doc/sluice/changelog.gz <<END
sluice ($version) unstable; urgency=medium

  * See the history of the repository.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
}

put_control()
{
    local depends package packages=()
    for package in ${SLUICE_PACKAGES:+"$SLUICE_PACKAGES"/*/}; do packages+=("-S$package"); done
    install -d "$root/DEBIAN" "$stage/debian"
    printf 'Source: sluice\n\nPackage: sluice\nArchitecture: any\n' >"$stage/debian/control"
    depends=$(cd "$stage" && DEB_HOST_ARCH=$architecture dpkg-shlibdeps "${packages[@]}" -O "$root"/usr/bin/* | sed -n 's/^shlibs:Depends=//p')
    cat >"$root/DEBIAN/control" <<END
Package: sluice
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends, ca-certificates, procps, systemd | systemd-standalone-sysusers
Recommends: postgresql
Suggests: nginx | haproxy | caddy
Description: server that runs actions on third-party apps for agents
 Agent backends ask it to act (send a mail, create a page) for the accounts
 that connected an app. It also runs durable flows of such actions, which
 survive crashes, wait for a time or for a person's approval, and never make
 a confirmed write twice in silence. It needs a PostgreSQL database.
END
    echo /etc/sluice/sluice.conf >"$root/DEBIAN/conffiles"
    for script in postinst prerm postrm; do
        install -m 755 "contrib/debian/$script" "$root/DEBIAN/$script"
    done
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z |
        xargs -0 md5sum >DEBIAN/md5sums)
}

put_programs "$@"
put_units
install -D -m 640 contrib/deploy/sluice.conf "$root/etc/sluice/sluice.conf"
put_documents
put_control
mkdir -p "$folder"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -h -d "@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group --build "$root" "$folder/sluice_${version}_$architecture.deb"
