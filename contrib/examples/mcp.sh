#!/usr/bin/env bash
# The Model Context Protocol with curl alone (revision 2026-07-28); one line of JSON per request.
# SLUICE_URL and SLUICE_KEY: by default those of the `sluice dev` that runs in this folder.
set -euo pipefail
url=${SLUICE_URL:-http://127.0.0.1:8080}
key=${SLUICE_KEY:-$(cat .sluice/api_key)}

mcp() # METHOD NAME CAPABILITIES MEMBERS; MEMBERS of params, each with a comma at its end
{
    local meta='"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":'$3
    curl -sS -w '\n' "$url/mcp" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
        -H "Mcp-Method: $1" ${2:+-H "Mcp-Name: $2"} \
        -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":{$4\"_meta\":{$meta}}}"
}
tool() # NAME ARGUMENTS [CAPABILITIES [MEMBERS]]
{
    mcp tools/call "$1" "${3:-{\}}" "\"name\":\"$1\",\"arguments\":$2,${4:-}"
}

mcp server/discover '' '{}' ''
mcp tools/list '' '{}' ''
tool search_actions '{"query":"send an email","connected_only":true,"limit":3}'
tool describe_action '{"integration_id":"gmail","action_id":"send_message"}'
tool run_action '{"integration_id":"gmail","action_id":"list_threads","input":{"query":"is:unread","maxResults":3}}'

# A client without forms: its model says that the person has agreed.
mail='"integration_id":"gmail","action_id":"send_message","input":{"to":"ada@example.com","subject":"Hello","text":"From curl"}'
tool run_action "{$mail}"
tool run_action "{$mail,\"confirm\":true}"

# A client with forms gets one. It repeats the call with the answer and the state.
forms='{"elicitation":{"form":{}}}'
asked=$(tool run_action "{$mail}" "$forms")
echo "$asked"
state=${asked##*\"requestState\":\"}
state=${state%%\"*}
tool run_action "{$mail}" "$forms" \
    "\"requestState\":\"$state\",\"inputResponses\":{\"confirmation\":{\"action\":\"accept\",\"content\":{\"confirm\":true}}},"
