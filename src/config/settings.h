/*
 * The settings, a line each. The line makes the member of struct config, the flag, the variable,
 * the key of the file and the help (config.h).
 *
 *   X(member, name, kind, scopes, default, min, max, value_name, help)
 *
 * kind: of enum config_kind, without its prefix. min and max: of a count, or in bytes or
 * milliseconds, with the units of table.c.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

/* clang-format off */
#define CONFIG_SETTINGS(X) \
    X(listen, "listen", TEXTS, CONFIG_SERVE, "127.0.0.1:8080", 0, 0, "ADDRESS", \
      "where to listen: 127.0.0.1:8080, [::1]:8080 or unix:/run/sluice.sock; may be repeated") \
    X(workers, "workers", COUNT, CONFIG_SERVE, "0", 0, 256, "N", \
      "processes that share the listening sockets, below a parent that hands over to a " \
      "successor on SIGUSR2; 0: one process and no parent") \
    X(metrics_listen, "metrics-listen", TEXT, CONFIG_SERVERS, "", 0, 0, "ADDRESS", \
      "serve /metrics only on this address, for any Host, instead of on the main listeners; " \
      "with --workers, the first worker has this port, the second the next") \
    X(public_url, "public-url", TEXT, CONFIG_SERVERS | CONFIG_EVENTS, "", 0, 0, "URL", \
      "the URL at which browsers reach the dashboard, for example " \
      "https://sluice.example.com: OAuth redirects return to URL/connect/callback, and " \
      "pages are refused if Host has another name (addresses and localhost are accepted). " \
      "Default: the first listener's address") \
    X(trusted_proxy, "trusted-proxy", TEXTS, CONFIG_SERVERS, "", 0, 0, "ADDRESS", \
      "address or network of a proxy, or unix; the audit trail takes the client's address " \
      "from the proxy's X-Forwarded-For; may be repeated") \
    X(mcp_origin, "mcp-origin", TEXTS, CONFIG_SERVERS, "", 0, 0, "ORIGIN", \
      "an origin whose pages may call /mcp from a browser, besides public-url's; may be " \
      "repeated") \
    X(unattended_writes, "unattended-writes", TEXT, CONFIG_SERVERS, "allow", 0, 0, "MODE", \
      "allow, hold or refuse a write over /mcp that no person can be asked to confirm, since " \
      "the client shows no forms; a held one waits for an approval. `sluice keys create` sets " \
      "it for a single key") \
    X(home_domains, "home-domains", TEXTS, CONFIG_SERVERS, "", 0, 0, "DOMAIN", \
      "a domain of your organisation, with its subdomains: an approval marks calls that reach " \
      "addresses elsewhere; may be repeated. Default: no call is marked") \
    X(port, "port", COUNT, CONFIG_DEV, "8080", 0, 65535, "N", \
      "port on 127.0.0.1; 0 takes a free port") \
    X(data_dir, "data", TEXT, CONFIG_DEV | CONFIG_DATABASE, "", 0, 0, "DIR", \
      "the folder of `sluice dev` (there .sluice by default) with its private PostgreSQL, " \
      "keys and emulated provider; other commands use the database and the master key of " \
      "the `sluice dev` that runs on it") \
    X(ready_file, "ready-file", TEXT, CONFIG_SERVERS, "", 0, 0, "FILE", \
      "a JSON file that is written once the server answers requests") \
    X(database_url, "database-url", SECRET, CONFIG_SERVE | CONFIG_DATABASE, "", 0, 0, "URL", \
      "the database, in libpq's form: postgresql://user@host/dbname (also DATABASE_URL)") \
    X(database_writers, "database-writers", COUNT, CONFIG_SERVERS, "3", 1, 64, "N", \
      "connections that write; another is used once as many statements wait as are being " \
      "written") \
    X(database_readers, "database-readers", COUNT, CONFIG_SERVERS, "2", 1, 64, "N", \
      "connections that only read") \
    X(database_queue_max, "database-queue", COUNT, CONFIG_SERVERS, "20000", 1, 10000000, "N", \
      "statements that may wait for the database before requests are answered 503; accounts " \
      "take turns, and one account may have seven eighths") \
    X(database_timeout_ms, "database-timeout", MS, CONFIG_SERVERS, "10s", 100, HOUR, "TIME", \
      "longest wait for a statement") \
    X(database_batch, "database-batch", TEXT, CONFIG_SERVERS, "set", 0, 0, "MODE", \
      "set (one statement per kind and batch) or sharded (the same, on a database that " \
      "`sluice migrate --citus` has distributed)") \
    X(cache_time_ms, "cache-time", MS, CONFIG_SERVERS, "2s", 100, HOUR, "TIME", \
      "how long a cached key or connection is used if no notification says that it changed") \
    X(master_key, "master-key", SECRET, CONFIG_SERVE | CONFIG_KEYRING, "", 0, 0, "KEY", \
      "32 bytes in base64 or hex that seal stored credentials; safer in a file or in the " \
      "environment") \
    X(master_key_file, "master-key-file", TEXT, CONFIG_SERVE | CONFIG_KEYRING, "", 0, 0, "FILE", \
      "a file with the master key; several lines for rotation: the first one seals, all can " \
      "open") \
    X(catalog_dir, "catalog", TEXT, CONFIG_SERVERS | CONFIG_CATALOG, "", 0, 0, "DIR", \
      "a folder of more manifests (*.json); one with the id of a built-in manifest " \
      "replaces it") \
    X(ca_file, "ca-file", TEXT, CONFIG_SERVERS | CONFIG_OUTBOUND, "", 0, 0, "FILE", \
      "trust roots (PEM) for outbound TLS instead of the system's") \
    X(https_proxy, "https-proxy", SECRET, CONFIG_SERVERS | CONFIG_OUTBOUND, "", 0, 0, "URL", \
      "http://USER:PASSWORD@HOST:PORT, a proxy for calls to apps and for webhooks (CONNECT to " \
      "addresses that were checked before); not used for hosts of allow-host and webhook-host " \
      "and targets of origin-override") \
    X(origin_override, "origin-override", TEXTS, CONFIG_SERVERS | CONFIG_OUTBOUND, "", 0, 0, "ORIGIN=URL", \
      "send calls for ORIGIN to URL; for emulators and egress gateways") \
    X(allow_host, "allow-host", TEXTS, CONFIG_SERVERS | CONFIG_OUTBOUND, "", 0, 0, "HOST", \
      "host, host:port or CIDR that may resolve to a private address") \
    X(webhook_host, "webhook-host", TEXTS, CONFIG_SERVERS | CONFIG_EVENTS, "", 0, 0, "HOST", \
      "host, host:port or CIDR to which webhooks may be sent although it is a private address; " \
      "one that is named as a host is also reached without TLS") \
    X(webhook_timeout_ms, "webhook-timeout", MS, CONFIG_SERVERS, "15s", 100, 5 * MINUTE, "TIME", \
      "how long a webhook's receiver may take to answer") \
    X(webhook_days, "webhook-days", COUNT, CONFIG_SERVERS, "7", 1, 365, "DAYS", \
      "how many days webhooks that were delivered, or given up, are kept") \
    X(outbound_connections_max, "outbound-connections", COUNT, CONFIG_SERVERS, "1024", 1, 65535, "N", \
      "maximum number of calls to apps at a time; further ones wait, and accounts take turns") \
    X(origin_connections_max, "origin-connections", COUNT, CONFIG_SERVERS, "128", 1, 65535, "N", \
      "maximum number of calls to one origin at a time; further ones wait, and accounts " \
      "take turns") \
    X(account_connections_max, "account-connections", COUNT, CONFIG_SERVERS, "0", 0, 65535, "N", \
      "the share of outbound-connections that one account may use while no other uses any; it " \
      "shrinks as others do, so that some stay free. 0: seven eighths") \
    X(account_origin_connections_max, "account-origin-connections", COUNT, CONFIG_SERVERS, "0", 0, 65535, "N", \
      "the share of origin-connections that one account may use, like " \
      "account-connections. 0: seven eighths") \
    X(memory_work, "memory-work", BYTES, CONFIG_SERVERS, "512m", 64 * MIB, 1024 * 1024 * MIB, "BYTES", \
      "memory that running requests, replies and flows may take; further ones wait for two " \
      "seconds and are then answered 503") \
    X(account_memory, "account-memory", BYTES, CONFIG_SERVERS, "0", 0, 1024 * 1024 * MIB, "BYTES", \
      "the share of memory-work that one account may take while no other takes any; it " \
      "shrinks as others do. 0: a quarter") \
    X(execution_timeout_ms, "execution-timeout", MS, CONFIG_SERVERS, "30s", 100, HOUR, "TIME", \
      "deadline of an execution if its manifest sets none") \
    X(executions_max, "executions", COUNT, CONFIG_SERVERS, "20000", 1, 1000000, "N", \
      "maximum number of executions in flight; further ones are answered 503") \
    X(account_executions_max, "account-executions", COUNT, CONFIG_SERVERS, "0", 0, 1000000, "N", \
      "the share of executions that one account may have in flight, like " \
      "account-connections. 0: seven eighths") \
    X(connection_limits, "connection-limits", TEXT, CONFIG_SERVERS, "auto", 0, 0, "MODE", \
      "limit the calls of a connection to what manifests and providers allow: on, off, or " \
      "auto (off in `sluice dev`, whose emulated provider has no limits)") \
    X(limit_wait_ms, "limit-wait", MS, CONFIG_SERVERS, "5s", 0, HOUR, "TIME", \
      "longest wait of an execution for its connection's limits; after that it is blocked, " \
      "rate_limited") \
    X(circuit_volume, "circuit-volume", COUNT, CONFIG_SERVERS, "20", 0, 1000000, "N", \
      "number of executions of an account within 10 s, half of them failed, that opens " \
      "its circuit for an app's origin; 0: never") \
    X(circuit_accounts, "circuit-accounts", COUNT, CONFIG_SERVERS, "3", 1, 1000000, "N", \
      "number of accounts that must fail within 10 s, at least half of those that called, " \
      "to open the circuit for all accounts") \
    X(circuit_open_ms, "circuit-open", MS, CONFIG_SERVERS, "5s", 10, HOUR, "TIME", \
      "how long a circuit stays open the first time; doubles up to a minute while probes fail") \
    X(account_rate, "account-rate", COUNT, CONFIG_SERVERS, "0", 0, 1000000, "N", \
      "requests per second that an account may make; further ones are answered 429. 0: " \
      "any number") \
    X(account_burst, "account-burst", COUNT, CONFIG_SERVERS, "0", 0, 1000000, "N", \
      "a burst: requests accepted at once within account-rate; 0: two seconds' worth") \
    X(flows_max, "flows", COUNT, CONFIG_SERVERS, "2000", 1, 1000000, "N", \
      "maximum number of flows that run at a time in this process; other due flows wait") \
    X(file_bytes_max, "file-bytes", BYTES, CONFIG_SERVERS, "5m", KIB, 64 * MIB, "BYTES", \
      "largest file of a call, decoded; the tool endpoint takes bodies of ten such files in " \
      "base64") \
    X(provider_response_bytes_max, "provider-response-bytes", BYTES, CONFIG_SERVERS, "8m", KIB, 256 * MIB, "BYTES", \
      "size limit of a reply from a provider") \
    X(output_bytes, "output-bytes", BYTES, CONFIG_SERVERS, "0", 0, 256 * MIB, "BYTES", \
      "bytes of an output in a reply if the request has no max_output_bytes; the record " \
      "has the whole output. 0: no limit but that of the request") \
    X(output_bytes_max, "output-bytes-max", BYTES, CONFIG_SERVERS, "16m", KIB, 256 * MIB, "BYTES", \
      "upper limit of max_output_bytes in a request, if output-bytes is not 0") \
    X(token_timeout_ms, "token-timeout", MS, CONFIG_SERVERS | CONFIG_OUTBOUND, "10s", 100, 5 * MINUTE, "TIME", \
      "how long an app's authorization server may take to issue a new token") \
    X(idempotency_ttl_ms, "idempotency-ttl", MS, CONFIG_SERVERS, "24h", SECOND, 365 * 24 * HOUR, "TIME", \
      "how long an idempotency key is stored") \
    X(execution_days, "execution-days", COUNT, CONFIG_SERVERS, "30", 1, 3650, "DAYS", \
      "how many days executions are kept") \
    X(audit_days, "audit-days", COUNT, CONFIG_SERVERS, "90", 1, 3650, "DAYS", \
      "how many days audit events are kept") \
    X(input_days, "input-days", COUNT, CONFIG_SERVERS, "7", 0, 3650, "DAYS", \
      "how many days the inputs of writes, and of runs that failed or were blocked, are kept, " \
      "sealed with the master key; at most as long as executions and audit events. 0: none " \
      "is kept") \
    X(account_kept_executions, "account-kept-executions", COUNT, CONFIG_SERVERS, "10000000", 0, 1000000000, "N", \
      "executions kept per account within execution-days; the oldest beyond that are removed, " \
      "once they are older than idempotency-ttl. 0: any number") \
    X(account_kept_audit, "account-kept-audit", COUNT, CONFIG_SERVERS, "10000000", 0, 1000000000, "N", \
      "audit events kept per account within audit-days; the oldest beyond that are " \
      "removed. 0: any number") \
    X(account_kept_connections, "account-kept-connections", COUNT, CONFIG_SERVERS | CONFIG_OUTBOUND, "10000", 0, 10000000, "N", \
      "maximum number of connections of an account; a further one is refused, but an " \
      "existing one can be reconnected. 0: any number") \
    X(account_users_max, "account-users", COUNT, CONFIG_SERVERS, "1000000", 1, 10000000, "N", \
      "end users (Sluice-User) that an account may have; requests that would create another one are " \
      "answered 403") \
    X(connections_max, "connections", COUNT, CONFIG_SERVERS, "20000", 1, 1000000, "N", \
      "maximum number of client connections at a time; further ones are answered 503 and " \
      "closed") \
    X(address_connections_max, "address-connections", COUNT, CONFIG_SERVERS, "0", 0, 1000000, "N", \
      "the share of connections that one client address may have (of IPv6, one /64); further " \
      "ones are answered 503 and closed. Those of trusted-proxy and Unix sockets are not " \
      "counted. 0: seven eighths") \
    X(body_bytes_max, "body-bytes", BYTES, CONFIG_SERVERS, "8m", KIB, 1024 * MIB, "BYTES", \
      "largest request body") \
    X(head_bytes_max, "head-bytes", BYTES, CONFIG_SERVERS, "16k", KIB, MIB, "BYTES", \
      "largest request head") \
    X(head_timeout_ms, "head-timeout", MS, CONFIG_SERVERS, "10s", 10, HOUR, "TIME", \
      "how long a request's head may take to arrive") \
    X(body_timeout_ms, "body-timeout", MS, CONFIG_SERVERS, "30s", 10, HOUR, "TIME", \
      "how long a request's body may take to arrive") \
    X(idle_timeout_ms, "idle-timeout", MS, CONFIG_SERVERS, "75s", 10, 24 * HOUR, "TIME", \
      "how long a keep-alive connection waits for the next request; longer than the proxy's") \
    X(drain_timeout_ms, "drain-timeout", MS, CONFIG_SERVERS, "35s", 10, HOUR, "TIME", \
      "how long running requests may take to finish after SIGTERM") \
    X(drain_grace_ms, "drain-grace", MS, CONFIG_SERVE, "1s", 0, MINUTE, "TIME", \
      "after SIGTERM, how long a keep-alive connection waits for its next request, which is " \
      "answered with Connection: close, before it is closed") \
    X(trace_endpoint, "trace-endpoint", TEXT, CONFIG_SERVERS, "", 0, 0, "URL", \
      "where spans are sent over OTLP/HTTP, for example http://127.0.0.1:4318; a URL " \
      "without a path gets /v1/traces. Default: no spans") \
    X(trace_headers_file, "trace-headers-file", TEXT, CONFIG_SERVERS, "", 0, 0, "FILE", \
      "a file with the headers of requests to trace-endpoint, one per line " \
      "(Authorization: Bearer ...); must not be readable by others") \
    X(trace_sample, "trace-sample", TEXT, CONFIG_SERVERS, "1", 0, 0, "RATIO", \
      "the share of traces to record, for example 0.05, chosen by the trace's id; a request " \
      "whose traceparent is not sampled is not recorded") \
    X(trace_propagate, "trace-propagate", TEXT, CONFIG_SERVERS, "off", 0, 0, "MODE", \
      "on or off; on: traceparent and tracestate are sent to apps, too") \
    X(log_level, "log-level", TEXT, CONFIG_SERVERS, "info", 0, 0, "LEVEL", \
      "trace, debug, info, warn or error") \
    X(log_format, "log-format", TEXT, CONFIG_SERVERS, "auto", 0, 0, "FORMAT", \
      "json, text, or auto (text on a terminal)")
/* clang-format on */

#endif
