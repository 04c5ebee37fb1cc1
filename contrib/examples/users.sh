#!/usr/bin/env bash
# End users of an account with curl; one line of JSON per request. Each user acts with connections of
# its own, or with one that the account shares. SLUICE_URL and SLUICE_KEY as in rest.sh.
set -euo pipefail
url=${SLUICE_URL:-http://127.0.0.1:8080}
key=${SLUICE_KEY:-$(cat .sluice/api_key)}

api() # USER METHOD PATH [BODY], the user being '' for the account itself
{
    curl -sS -w '\n' -X "$2" "$url$3" -H "Authorization: Bearer $key" ${1:+-H "Sluice-User: $1"} \
        -H 'Content-Type: application/json' ${4:+-d "$4"}
}

# A user has the id that the account gives it, and begins without connections.
labels='{"integration_id":"gmail","action_id":"list_labels","input":{}}'
api ada POST /api/executions "$labels"

# The account shares its connection to Gmail: a user without one of its own acts through it.
gmail=$(api '' GET '/api/connections?integration_id=gmail' | sed 's/.*"id":"\([0-9]*\)".*/\1/')
api '' PATCH "/api/connections/$gmail" '{"shared":true}'
api ada POST /api/executions "$labels"
api bob POST /api/executions "$labels"

# A link is for one user: opening it connects the app for Ada alone.
api ada POST /api/connect/sessions '{"integration_id":"notion"}'

# What a user did is read in its name. Users, and the connections of all, are lists of the account.
api bob GET '/api/executions?limit=5'
api '' GET /api/users
api '' GET '/api/connections?users=all&integration_id=gmail'

# From now on Ada cannot act through it, and nothing of Bob is kept.
api '' PATCH "/api/connections/$gmail" '{"shared":false}'
api '' DELETE /api/users/bob
