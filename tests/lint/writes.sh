#!/usr/bin/env bash
# What writes to the database: no face does by itself, and each table has its files (writes.pl).
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

verdict "faces change nothing by themselves; each noun is changed where src/README.md says" \
    "$(perl tests/lint/writes.pl)"
