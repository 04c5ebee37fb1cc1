# shellcheck shell=bash
# A private apt: the machine's own mirror with another suite of Debian, in a folder of its own.
#
# Sourced by fetch.sh. It does not change the system's apt and needs no root. The address of
# the mirror comes from the machine's apt, so no host name is written here, and a site's own mirror,
# proxy and credentials keep working. apt checks every download against Debian's archive
# keyring (the signature of the suite, then the hash of every file); that check is also what makes
# it safe to try every repository of the machine: only a Debian mirror has a signed "testing".
#
# Uses: $apt_dir (folder for lists and configuration); $apt_architecture, if it differs from the
# machine's: apt then treats none of its packages as installed.
: "${apt_dir:?}"

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Lines "SUITE URI" for each repository with a main component that this machine's apt knows.
# Asking apt reads one-line and deb822 sources alike, and needs no downloaded lists.
apt_machine_repositories()
{
    # shellcheck disable=SC2016 # apt's fields, not the shell's
    apt-get indextargets -o APT::Get::IndexTargets::ReleaseInfo=false \
        --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 == "main" && $3 !~ /^cdrom:/ && !seen[$0]++ { print $2, $3 }'
}

# $1: "archive" or "security". The addresses that may hold that part, most likely first.
apt_mirrors()
{
    apt_machine_repositories | awk -v want="$1" '
        { kind = ($1 ~ /-security$|\/updates$/) ? "security" : "archive" }
        kind == want && !seen[$2]++ { print $2 }'
}

# $1: folder of the place, $2: suite, $3: address of the archive, $4: of the security part or "".
apt_write_config()
{
    local signed
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    signed=
    [ ! -e "$debian_keyring" ] || signed="[signed-by=$debian_keyring] "
    {
        echo "deb $signed$3 $2 main"
        echo "deb-src $signed$3 $2 main"
        if [ -n "$4" ]; then
            echo "deb $signed$4 $2-security main"
            echo "deb-src $signed$4 $2-security main"
        fi
    } >"$1/sources.list"
    cat >"$1/apt.conf" <<EOF
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$1/lists";
Dir::Cache "$1/cache";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::PDiffs "false";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
EOF
    [ -n "${apt_architecture:-}" ] || return 0
    : >"$1/status"
    cat >>"$1/apt.conf" <<EOF
APT::Architecture "$apt_architecture";
APT::Architectures { "$apt_architecture"; };
Dir::State::status "$1/status";
EOF
}

# $1: folder of the place. An incomplete update is an error: half a list would hide a version.
apt_update()
{
    APT_CONFIG="$1/apt.conf" apt-get -qq update >"$1/update.log" 2>&1
}

# $1: suite. Opens it once per run: afterwards apt_in may be used with that suite.
apt_open()
{
    local place security archive with_security
    place="$apt_dir/$1"
    [ ! -e "$place/is-open" ] || return 0
    [ ! -e "$place/is-closed" ] || return 1
    mkdir -p "$place"
    security=$(apt_mirrors security | head -n 1)
    for archive in $(apt_mirrors archive); do
        # Twice with the security part, then without: testing's is often empty, sometimes missing.
        for with_security in "$security" "$security" ""; do
            apt_write_config "$place" "$1" "$archive" "$with_security"
            if apt_update "$place"; then
                touch "$place/is-open"
                return 0
            fi
        done
    done
    touch "$place/is-closed"
    return 1
}

# $1: suite, then a command of apt, run against that suite only.
apt_in()
{
    local suite
    suite=$1
    shift
    APT_CONFIG="$apt_dir/$suite/apt.conf" "$@"
}

# Highest version on stdin, by Debian's own order.
apt_highest()
{
    local best version
    best=
    while read -r version; do
        if [ -z "$best" ] || dpkg --compare-versions "$version" gt "$best"; then
            best=$version
        fi
    done
    [ -z "$best" ] || echo "$best"
}

# $1: suite, $2: source package. Its newest version there.
apt_source_version()
{
    apt_in "$1" apt-cache showsrc --only-source "$2" 2>/dev/null |
        awk '$1 == "Version:" { print $2 }' | apt_highest
}

# $1: suite, $2: binary package. Its newest version there.
apt_binary_version()
{
    apt_in "$1" apt-cache show "$2" 2>/dev/null |
        awk '$1 == "Version:" { print $2 }' | apt_highest
}

# Runs a command up to three times; its output is kept for the sentence that reports a failure.
apt_try()
{
    local pause
    for pause in 1 3 0; do
        "$@" >"$apt_dir/last.log" 2>&1 && return 0
        sleep "$pause"
    done
    return 1
}

# $1: suite, $2: source package, $3: version, $4: folder. Fetches the upstream archive, and the
# Debian patches if they are available (a mirror may lack them; the archive alone builds, too).
apt_fetch_source()
{
    (
        cd "$4" || exit 1
        apt_try apt_in "$1" apt-get -qq source --only-source --tar-only --download-only "$2=$3" ||
            exit 1
        apt_in "$1" apt-get -qq source --only-source --diff-only --download-only "$2=$3" \
            >/dev/null 2>&1 || true
    )
}

# $1: suite, $2: binary package, $3: version, $4: folder. Fetches the package; installs nothing.
apt_fetch_binary()
{
    (
        cd "$4" || exit 1
        apt_try apt_in "$1" apt-get -qq download "$2=$3"
    )
}
