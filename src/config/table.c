/*
 * The table of settings. A line here and a member in struct config make a setting: the flag, the
 * variable, the key of the file and the help are derived from them.
 */
#include "config/config.h"

/* Units of the table: sizes in bytes, times in milliseconds. */
#define KIB        ((uint64_t)1024)
#define MIB        (1024 * KIB)
#define SECOND     ((uint64_t)1000)
#define MINUTE     (60 * SECOND)
#define HOUR       (60 * MINUTE)
#define AT(member) offsetof(struct config, member)
#define SERVERS    (CONFIG_SERVE | CONFIG_DEV)

const struct config_item config_items[] = {
    {"listen", CONFIG_TEXTS, CONFIG_SERVE, AT(listen), "127.0.0.1:8080", 0, 0, "ADDRESS",
     "where to listen: 127.0.0.1:8080, [::1]:8080 or unix:/run/sluice.sock; may be repeated"},
    {"workers", CONFIG_COUNT, CONFIG_SERVE, AT(workers), "0", 0, 256, "N",
     "processes that share the listening sockets, under a parent that hands over to a successor on "
     "SIGUSR2; 0: one process alone"},
    {"metrics-listen", CONFIG_TEXT, SERVERS, AT(metrics_listen), "", 0, 0, "ADDRESS",
     "serve /metrics here only, under any name, instead of on the main listeners; with --workers "
     "the first has this port, the second the next"},
    {"public-url", CONFIG_TEXT, SERVERS, AT(public_url), "", 0, 0, "URL",
     "how browsers reach the dashboard, as https://sluice.example.com: OAuth redirects come back "
     "to "
     "URL/connect/callback, and pages are refused where Host is another name (addresses and "
     "localhost are taken); the first listener's address when left out"},
    {"trusted-proxy", CONFIG_TEXTS, SERVERS, AT(trusted_proxy), "", 0, 0, "ADDRESS",
     "address or network of a proxy, or unix, whose X-Forwarded-For has the client's address for "
     "the audit trail; may be repeated"},
    {"mcp-origin", CONFIG_TEXTS, SERVERS, AT(mcp_origin), "", 0, 0, "ORIGIN",
     "an origin whose pages may call /mcp from a browser, besides public-url's; may be repeated"},
    {"home-domains", CONFIG_TEXTS, SERVERS, AT(home_domains), "", 0, 0, "DOMAIN",
     "a domain of your organisation, with all below it: an approval marks calls that reach "
     "addresses elsewhere as leaving it; may be repeated. Left out: none is marked"},
    {"port", CONFIG_COUNT, CONFIG_DEV, AT(port), "8080", 0, 65535, "N",
     "port on 127.0.0.1; 0 takes a free one"},
    {"data", CONFIG_TEXT, CONFIG_DEV | CONFIG_DATABASE, AT(data_dir), "", 0, 0, "DIR",
     "the folder of `sluice dev`, .sluice when left out there: its private PostgreSQL, keys and "
     "emulated provider; the other commands use the database and the master key of the dev that "
     "runs on it"},
    {"ready-file", CONFIG_TEXT, SERVERS, AT(ready_file), "", 0, 0, "FILE",
     "a JSON file that is written once requests are answered"},
    {"database-url", CONFIG_SECRET, CONFIG_SERVE | CONFIG_DATABASE, AT(database_url), "", 0, 0,
     "URL",
     "PostgreSQL, as libpq takes it: postgresql://user@host/dbname (DATABASE_URL counts too)"},
    {"database-writers", CONFIG_COUNT, SERVERS, AT(database_writers), "3", 1, 64, "N",
     "connections that write; another is used once as many statements wait as are being written"},
    {"database-readers", CONFIG_COUNT, SERVERS, AT(database_readers), "2", 1, 64, "N",
     "connections that only read"},
    {"database-queue", CONFIG_COUNT, SERVERS, AT(database_queue_max), "20000", 1, 10000000, "N",
     "statements that may wait for the database, where accounts take turns, before requests are "
     "answered 503; those of one account alone: seven eighths"},
    {"database-timeout", CONFIG_MS, SERVERS, AT(database_timeout_ms), "10s", 100, HOUR, "TIME",
     "longest wait for a statement"},
    {"database-batch", CONFIG_TEXT, SERVERS, AT(database_batch), "set", 0, 0, "MODE",
     "set (one statement a kind and batch) or sharded (the same, on a database that `sluice "
     "migrate --citus` has distributed)"},
    {"cache-time", CONFIG_MS, SERVERS, AT(cache_time_ms), "2s", 100, HOUR, "TIME",
     "how long a cached key or connection is used if no change is notified"},
    {"master-key", CONFIG_SECRET, CONFIG_SERVE | CONFIG_KEYRING, AT(master_key), "", 0, 0, "KEY",
     "32 bytes in base64 or hex that seal stored credentials; better in a file or the environment"},
    {"master-key-file", CONFIG_TEXT, CONFIG_SERVE | CONFIG_KEYRING, AT(master_key_file), "", 0, 0,
     "FILE", "a file with the master key; several lines for rotation, the first one seals"},
    {"catalog", CONFIG_TEXT, SERVERS | CONFIG_CATALOG, AT(catalog_dir), "", 0, 0, "DIR",
     "a folder of further manifests (*.json); one with the id of a built-in one replaces it"},
    {"ca-file", CONFIG_TEXT, SERVERS | CONFIG_OUTBOUND, AT(ca_file), "", 0, 0, "FILE",
     "trust roots (PEM) for outbound TLS instead of the system's"},
    {"https-proxy", CONFIG_SECRET, SERVERS | CONFIG_OUTBOUND, AT(https_proxy), "", 0, 0, "URL",
     "http://USER:PASSWORD@HOST:PORT, a proxy for calls to apps: CONNECT to addresses that were "
     "checked before; not for hosts of allow-host and targets of origin-override"},
    {"origin-override", CONFIG_TEXTS, SERVERS | CONFIG_OUTBOUND, AT(origin_override), "", 0, 0,
     "ORIGIN=URL", "send calls for ORIGIN to URL; for emulators and egress gateways"},
    {"allow-host", CONFIG_TEXTS, SERVERS | CONFIG_OUTBOUND, AT(allow_host), "", 0, 0, "HOST",
     "host, host:port or CIDR that may resolve to a private address"},
    {"outbound-connections", CONFIG_COUNT, SERVERS, AT(outbound_connections_max), "1024", 1, 65535,
     "N", "calls to apps under way at a time; further ones wait, and accounts take turns"},
    {"origin-connections", CONFIG_COUNT, SERVERS, AT(origin_connections_max), "128", 1, 65535, "N",
     "of them, to one origin; further ones wait, and accounts take turns"},
    {"account-connections", CONFIG_COUNT, SERVERS, AT(account_connections_max), "0", 0, 65535, "N",
     "of outbound-connections, the share of one account while no other uses any; it shrinks as "
     "others do, so that some stay free. 0: seven eighths"},
    {"account-origin-connections", CONFIG_COUNT, SERVERS, AT(account_origin_connections_max), "0",
     0, 65535, "N", "of origin-connections, likewise. 0: seven eighths"},
    {"memory-work", CONFIG_BYTES, SERVERS, AT(memory_work), "512m", 64 * MIB, 1024 * 1024 * MIB,
     "BYTES",
     "memory that requests, replies and flows under way may take; further ones wait for two "
     "seconds, and are answered 503 then"},
    {"account-memory", CONFIG_BYTES, SERVERS, AT(account_memory), "0", 0, 1024 * 1024 * MIB,
     "BYTES",
     "of it, the share of one account while no other uses any; it shrinks as others do. 0: a "
     "quarter"},
    {"execution-timeout", CONFIG_MS, SERVERS, AT(execution_timeout_ms), "30s", 100, HOUR, "TIME",
     "deadline of an execution where the manifest names none"},
    {"executions", CONFIG_COUNT, SERVERS, AT(executions_max), "20000", 1, 1000000, "N",
     "executions in flight before further ones are answered 503"},
    {"account-executions", CONFIG_COUNT, SERVERS, AT(account_executions_max), "0", 0, 1000000, "N",
     "of them, the share of one account, likewise. 0: seven eighths"},
    {"connection-limits", CONFIG_TEXT, SERVERS, AT(connection_limits), "auto", 0, 0, "MODE",
     "limit the calls of a connection to what manifests and providers allow: on, off, or auto (off "
     "in `sluice dev`, whose emulated provider has no limits)"},
    {"limit-wait", CONFIG_MS, SERVERS, AT(limit_wait_ms), "5s", 0, HOUR, "TIME",
     "longest wait of an execution for its connection's limits; then it is blocked, rate_limited"},
    {"circuit-volume", CONFIG_COUNT, SERVERS, AT(circuit_volume), "20", 0, 1000000, "N",
     "executions of an account within 10 s, half of them failed, that open its circuit for an "
     "app's origin; 0: never"},
    {"circuit-accounts", CONFIG_COUNT, SERVERS, AT(circuit_accounts), "3", 1, 1000000, "N",
     "accounts within 10 s that failed so, half of those that called, that open the circuit for "
     "all accounts"},
    {"circuit-open", CONFIG_MS, SERVERS, AT(circuit_open_ms), "5s", 10, HOUR, "TIME",
     "how long a circuit stays open the first time; doubles up to a minute while probes fail"},
    {"account-rate", CONFIG_COUNT, SERVERS, AT(account_rate), "0", 0, 1000000, "N",
     "requests a second that an account may make; further ones are answered 429. 0: any number"},
    {"account-burst", CONFIG_COUNT, SERVERS, AT(account_burst), "0", 0, 1000000, "N",
     "requests that may come at once within it; 0: two seconds' worth"},
    {"flows", CONFIG_COUNT, SERVERS, AT(flows_max), "2000", 1, 1000000, "N",
     "flows that run at a time in this process; further ones that are due wait"},
    {"file-bytes", CONFIG_BYTES, SERVERS, AT(file_bytes_max), "5m", KIB, 64 * MIB, "BYTES",
     "largest file of a call, decoded; the tool endpoint takes bodies of ten such files in base64"},
    {"provider-response-bytes", CONFIG_BYTES, SERVERS, AT(provider_response_bytes_max), "8m", KIB,
     256 * MIB, "BYTES", "largest reply of a provider"},
    {"output-bytes", CONFIG_BYTES, SERVERS, AT(output_bytes), "0", 0, 256 * MIB, "BYTES",
     "bytes of an output that are answered if the request has no max_output_bytes; the record has "
     "all of it. 0: all, and what a request asks for"},
    {"output-bytes-max", CONFIG_BYTES, SERVERS, AT(output_bytes_max), "16m", KIB, 256 * MIB,
     "BYTES", "upper limit of max_output_bytes in a request, where output-bytes is not 0"},
    {"token-timeout", CONFIG_MS, SERVERS | CONFIG_OUTBOUND, AT(token_timeout_ms), "10s", 100,
     5 * MINUTE, "TIME", "for an app's authorization server to issue a new token"},
    {"idempotency-ttl", CONFIG_MS, SERVERS, AT(idempotency_ttl_ms), "24h", SECOND, 365 * 24 * HOUR,
     "TIME", "how long an idempotency key is kept"},
    {"execution-days", CONFIG_COUNT, SERVERS, AT(execution_days), "30", 1, 3650, "DAYS",
     "executions are kept that long"},
    {"audit-days", CONFIG_COUNT, SERVERS, AT(audit_days), "90", 1, 3650, "DAYS",
     "audit events are kept that long"},
    {"account-kept-executions", CONFIG_COUNT, SERVERS, AT(account_kept_executions), "10000000", 0,
     1000000000, "N",
     "executions kept per account within execution-days; the oldest beyond that are removed, once "
     "they are older than idempotency-ttl. 0: any number"},
    {"account-kept-audit", CONFIG_COUNT, SERVERS, AT(account_kept_audit), "10000000", 0, 1000000000,
     "N",
     "audit events kept per account within audit-days; the oldest beyond that are removed. 0: any "
     "number"},
    {"account-kept-connections", CONFIG_COUNT, SERVERS | CONFIG_OUTBOUND,
     AT(account_kept_connections), "10000", 0, 10000000, "N",
     "connections that an account may have; a further one is refused, a new grant for an existing "
     "one is not. 0: any number"},
    {"connections", CONFIG_COUNT, SERVERS, AT(connections_max), "20000", 1, 1000000, "N",
     "client connections; further ones are answered 503 and closed"},
    {"address-connections", CONFIG_COUNT, SERVERS, AT(address_connections_max), "0", 0, 1000000,
     "N",
     "of them, those of one client address (of IPv6, of one /64); likewise. Those of trusted-proxy "
     "and Unix sockets are not counted. 0: seven eighths"},
    {"body-bytes", CONFIG_BYTES, SERVERS, AT(body_bytes_max), "8m", KIB, 1024 * MIB, "BYTES",
     "largest request body"},
    {"head-bytes", CONFIG_BYTES, SERVERS, AT(head_bytes_max), "16k", KIB, MIB, "BYTES",
     "largest request head"},
    {"head-timeout", CONFIG_MS, SERVERS, AT(head_timeout_ms), "10s", 10, HOUR, "TIME",
     "for a request's head to arrive"},
    {"body-timeout", CONFIG_MS, SERVERS, AT(body_timeout_ms), "30s", 10, HOUR, "TIME",
     "for a request's body to arrive"},
    {"idle-timeout", CONFIG_MS, SERVERS, AT(idle_timeout_ms), "75s", 10, 24 * HOUR, "TIME",
     "for the next request on a kept connection; longer than the proxy's"},
    {"drain-timeout", CONFIG_MS, SERVERS, AT(drain_timeout_ms), "35s", 10, HOUR, "TIME",
     "for requests under way to finish after SIGTERM"},
    {"drain-grace", CONFIG_MS, CONFIG_SERVE, AT(drain_grace_ms), "1s", 0, MINUTE, "TIME",
     "after SIGTERM, for a kept connection's next request, which is answered with Connection: "
     "close, before it is closed"},
    {"trace-endpoint", CONFIG_TEXT, SERVERS, AT(trace_endpoint), "", 0, 0, "URL",
     "where spans are sent by OTLP/HTTP, as http://127.0.0.1:4318; a URL without a path gets "
     "/v1/traces. Left out: no spans"},
    {"trace-headers-file", CONFIG_TEXT, SERVERS, AT(trace_headers_file), "", 0, 0, "FILE",
     "headers of these requests, a line each (Authorization: Bearer ...); not readable by others"},
    {"trace-sample", CONFIG_TEXT, SERVERS, AT(trace_sample), "1", 0, 0, "RATIO",
     "of traces, as 0.05, by the trace's id; a request whose traceparent is not sampled is not "
     "recorded"},
    {"trace-propagate", CONFIG_TEXT, SERVERS, AT(trace_propagate), "off", 0, 0, "MODE",
     "on: traceparent and tracestate go out to apps, too; off"},
    {"log-level", CONFIG_TEXT, SERVERS, AT(log_level), "info", 0, 0, "LEVEL",
     "trace, debug, info, warn or error"},
    {"log-format", CONFIG_TEXT, SERVERS, AT(log_format), "auto", 0, 0, "FORMAT",
     "json, text, or auto (text on a terminal)"},
};
const size_t config_item_count = ARRAY_LEN(config_items);
