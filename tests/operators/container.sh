#!/usr/bin/env bash
# The container file, its steps run by sh in a Debian of their own: the image runs as its user,
# migrates and serves, and its health check says so. The compose file is well-formed and reports
# missing settings.
set -u
cd "$(dirname "$0")/../.." || exit 1

# shellcheck source=support/debian.sh
. tests/operators/support/debian.sh
file=contrib/container/Containerfile
declare -A folder_of=() image=() variables=()

# --- The steps -----------------------------------------------------------------------------------

# One step on each line, as in a container file, without comments and with continued lines joined.
steps()
{
    grep -v '^#' "$file" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}' -e '/^$/d'
}

begin_stage()
{
    stages=$((stages + 1))
    root=$work/stage$stages
    cp -ax "$chroot" "$root" # not its /proc
    mount -t proc proc "$root/proc" || true
    image=([WORKDIR]=/ [USER]=root)
    variables=()
    [ "${2:-}" != AS ] || folder_of[$3]=$root
}

# $1: user, then a command that runs with the image's environment and folder.
in_image()
{
    local user=$1 key given=()
    shift
    for key in "${!variables[@]}"; do given+=("$key=${variables[$key]}"); done
    # shellcheck disable=SC2016 # of the inner shell
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive HOME=/ "${given[@]}" ${more[@]+"${more[@]}"} \
        chroot --userspec="$(id_of "$user")" "$root" sh -c 'cd "$0" && exec "$@"' "${image[WORKDIR]}" "$@"
}

# The "UID:GID" of a user of the image.
id_of()
{
    awk -F: -v name="$1" '$1 == name { print $3 ":" $4 }' "$root/etc/passwd"
}

# Copies from the sources without ignored files, or from an earlier stage.
copy()
{
    case $1 in
    --from=*)
        # shellcheck disable=SC2086 # a pattern
        cp -a "${folder_of[${1#--from=}]}"$2 "$root$3"
        ;;
    *)
        [ "$1 $2" = ". ." ] || { echo "COPY $*: not known to this test"; return 1; }
        git ls-files -co --exclude-standard -z | tar -c --null -T - | tar -x -C "$root${image[WORKDIR]}"
        ;;
    esac
}

run_step()
{
    local what=$1 rest=$2
    echo "$what $rest"
    # shellcheck disable=SC2086 # words
    case $what in
    FROM) begin_stage $rest ;;
    WORKDIR) mkdir -p "$root$rest" && image[WORKDIR]=$rest ;;
    COPY) copy $rest ;;
    RUN) in_image "${image[USER]}" sh -c "$rest" ;;
    ENV) variables[${rest%%=*}]=${rest#*=} ;;
    USER | EXPOSE | STOPSIGNAL | HEALTHCHECK | ENTRYPOINT | CMD) image[$what]=$rest ;;
    *) echo "$what: not known to this test" && return 1 ;;
    esac
}

run_steps()
{
    local line
    stages=0
    while read -r line <&3; do
        run_step "${line%% *}" "${line#* }" </dev/null || return 1
    done 3< <(steps)
    [ "$stages" = 2 ]
}

# --- What it made --------------------------------------------------------------------------------

# The words of ["a", "b"], the form of the container file's lists.
words_of()
{
    printf '%s' "$1" | sed -e 's/^.*\[//' -e 's/\].*$//' -e 's/[",]//g'
}

is_no_root()
{
    [ "${image[USER]}" = sluice ] && [ "$(id_of sluice)" = 10001:10001 ] &&
        [ "$(stat -c '%a %U' "$root/usr/bin/sluice")" = '755 root' ] && [ ! -e "$root/src" ] &&
        [ ! -e "$root/tmp/sluice.deb" ]
}

start_database()
{
    local bin
    bin=$(find /usr/lib/postgresql -name initdb | sort -V | tail -n 1)
    bin=${bin%/initdb}
    database=$work/pg
    install -d -o postgres "$database" && chmod 711 "$work" &&
        runuser -u postgres -- "$bin/initdb" -D "$database/data" -A trust -U sluice -E UTF8 --locale=C -N &&
        runuser -u postgres -- "$bin/pg_ctl" -D "$database/data" -l "$database/log" -w \
            -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=''" start
}

# shellcheck disable=SC2046 # words
sluice()
{
    in_image "${image[USER]}" $(words_of "${image[ENTRYPOINT]}") "$@"
}

is_migrated()
{
    start_database && sluice migrate
}

# shellcheck disable=SC2046 # words
is_healthy()
{
    in_image "${image[USER]}" $(words_of "${image[HEALTHCHECK]}")
}

is_up()
{
    ! is_healthy || return 1 # nothing serves yet
    # shellcheck disable=SC2046 # words
    sluice $(words_of "${image[CMD]}") >"$work/server.log" 2>&1 &
    server=$!
    until is_healthy; do
        kill -0 "$server" || { cat "$work/server.log"; return 1; }
        sleep 0.2
    done
}

# The function that started the server waits for it in its own shell.
is_down()
{
    kill -s "${image[STOPSIGNAL]}" "$(pgrep -P "$server")" && wait "$server" && ! is_healthy
}

stop_all()
{
    [ -z "${server:-}" ] || pkill -KILL -P "$server"
    [ ! -s "${database:-/nonexistent}/data/postmaster.pid" ] || kill -INT "$(head -n 1 "$database/data/postmaster.pid")"
}

test_image()
{
    if ! may_chroot; then
        for what in "its steps" "no root" migrated healthy ended; do
            number=$((number + 1))
            echo "ok $number - $what # SKIP chroot is not allowed here"
        done
        return
    fi
    make_debian >"$work/debian.log" 2>&1 || { sed 's/^/# /' "$work/debian.log" | tail -n 20; }
    port=$((20000 + RANDOM % 10000))
    check "each step of the container file runs" run_steps
    more=("SLUICE_DATABASE_URL=postgresql://sluice@127.0.0.1:$port/postgres" "SLUICE_LISTEN=127.0.0.1:$((port + 1))")
    more+=("SLUICE_MASTER_KEY=$(sluice keys master)")
    check "the image has a user of its own, and contains neither sources nor the package" is_no_root
    check "it migrates a database" is_migrated
    check "it serves, and its health check says so" is_up
    check "it ends well at its stop signal" is_down
    stop_all
}

# --- The compose file ----------------------------------------------------------------------------

compose()
{
    (cd contrib/container && docker-compose --env-file "$work/env" config -q)
}

is_well_formed()
{
    printf '%s\n' SITE=sluice.example.com DATABASE_PASSWORD=secret SLUICE_MASTER_KEY=key= >"$work/env"
    compose
}

names_what_it_lacks()
{
    local text
    echo SITE=sluice.example.com >"$work/env"
    text=$(compose 2>&1) && return 1
    printf '%s\n' "$text"
    case $text in *"is in no .env"*) ;; *) return 1 ;; esac
}

echo 1..7
more=()
test_image
check "the compose file is well-formed" is_well_formed
check "it names the settings that .env lacks" names_what_it_lacks
