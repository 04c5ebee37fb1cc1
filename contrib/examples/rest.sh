#!/usr/bin/env bash
# The API with curl alone, from a sentence to a flow; one line of JSON per request.
# SLUICE_URL and SLUICE_KEY: by default those of the `sluice dev` that runs in this folder.
set -euo pipefail
url=${SLUICE_URL:-http://127.0.0.1:8080}
key=${SLUICE_KEY:-$(cat .sluice/api_key)}

api() # METHOD PATH [BODY]
{
    curl -sS -w '\n' -X "$1" "$url$2" -H "Authorization: Bearer $key" \
        -H 'Content-Type: application/json' ${3:+-d "$3"}
}

# Which action sends a mail? Which inputs does it take?
api GET '/api/search?query=send+an+email&connected_only=true&limit=3'
api GET /api/actions/gmail/send_message

# A read runs at once.
api POST /api/executions '{"integration_id":"gmail","action_id":"list_threads","input":{"query":"is:unread","maxResults":3}}'

# A write is blocked until it is confirmed. With an idempotency key it can be sent again: it runs once.
mail='"integration_id":"gmail","action_id":"send_message","input":{"to":"ada@example.com","subject":"Hello","text":"From curl"}'
api POST /api/executions "{$mail}"
api POST /api/executions "{$mail,\"confirm\":true,\"idempotency_key\":\"rest-example-1\"}"
api POST /api/executions "{$mail,\"confirm\":true,\"idempotency_key\":\"rest-example-1\"}"

# A flow waits for a person, who sees what it will write. Once approved, it runs to its end.
flow=$(api POST /api/flows/start '{"flowTemplate":"unread_mail_to_tasks","input":{"maxResults":1,"taskParent":{"page_id":"1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10"}}}' |
    sed 's/{"flowId":"\([^"]*\)".*/\1/')
api GET "/api/flows/$flow?wait=30&until=settled"
api POST "/api/flows/$flow/approve"
api GET "/api/flows/$flow?wait=30&until=settled"
