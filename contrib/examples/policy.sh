#!/usr/bin/env bash
# A policy with curl: mail to other organisations waits for a person's approval; one line of JSON per
# request. SLUICE_URL and SLUICE_KEY as in rest.sh.
set -euo pipefail
url=${SLUICE_URL:-http://127.0.0.1:8080}
key=${SLUICE_KEY:-$(cat .sluice/api_key)}

api() # KEY METHOD PATH [BODY]
{
    curl -sS -w '\n' -X "$2" "$url$3" -H "Authorization: Bearer $1" \
        -H 'Content-Type: application/json' ${4:+-d "$4"}
}
member() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
new_key() { api "$key" POST /api/keys "$1" | member key; }

# The agent's key has the policy. Its rule holds every write of the mail app with a recipient outside of
# the organisation, and also those that name no recipients, like a filter that forwards, a label, or a
# draft that is sent by its id. The key of the person who approves has only what that takes.
api "$key" PUT /api/policies/agents '{"policy":{"default":"allow","rules":[
    {"tools":["gmail_*"],"side_effect":["write"],"recipients_outside":["acme.example"],
     "decision":"hold","reason":"mail to other organisations"}]}}'
agent=$(new_key '{"name":"agent","scopes":["read","execute"],"policy":"agents"}')
person=$(new_key '{"name":"approver","scopes":["read","approve"]}')

# Reads run, and mail within the organisation is sent. Other mail waits, confirmed or not.
api "$agent" POST /api/executions '{"integration_id":"gmail","action_id":"list_labels","input":{}}'
mail() { echo "{\"integration_id\":\"gmail\",\"action_id\":\"send_message\",\"confirm\":true,\"input\":{\"to\":\"$1\",\"subject\":\"Offer $$\",\"text\":\"From curl\"}}"; }
api "$agent" POST /api/executions "$(mail bob@acme.example)"
held=$(api "$agent" POST /api/executions "$(mail ada@example.com)")
echo "$held"

# The person sees what will be sent, and approves it. The agent's key could not, nor keys made by it.
flow=$(echo "$held" | member flow_id)
api "$person" GET "/api/flows/$flow"
api "$person" POST "/api/flows/$flow/approve"
api "$person" GET "/api/flows/$flow?wait=30&until=settled"

# The same request again gets the result: the mail was sent once.
api "$agent" POST /api/executions "$(mail ada@example.com)"
