-- One execution a request, for wrk against a running `make run`:
--   SLUICE_KEY=$(cat .sluice/api_key) wrk -t1 -c64 -d10s --latency -s bench/wrk/execution.lua \
--     http://127.0.0.1:8080/api/executions -- read
-- The last word is read (one commit each) or write (two commits each, confirmed).
local bodies = {
  read = '{"integration_id":"gmail","action_id":"list_labels","input":{}}',
  write = '{"integration_id":"notion","action_id":"create_page","confirm":true,"input":'
    .. '{"parent":{"page_id":"1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10"},"title":"Load"}}',
}

function init(args)
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. assert(os.getenv("SLUICE_KEY"), "set SLUICE_KEY")
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = assert(bodies[args[1] or "read"], "say read or write")
end
