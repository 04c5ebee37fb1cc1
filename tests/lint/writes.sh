#!/usr/bin/env bash
# Which code writes to the database: interfaces do not, and each table has its files (writes.pl).
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

verdict "interfaces change nothing themselves; each noun is changed where src/README.md says" \
    "$(perl tests/lint/writes.pl)"
