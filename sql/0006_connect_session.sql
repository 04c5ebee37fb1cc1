-- Links with which an end user connects one app: short-lived, good once. The link itself is with
-- whoever asked for it; here is its hash. Taken, that is deleted, by who follows it.
create table sluice.connect_session (
    account_id uuid not null references sluice.account,
    token_hash bytea not null check (octet_length(token_hash) = 32),
    integration_id text not null,
    key_hash bytea not null check (octet_length(key_hash) = 32), -- of who asked: it ends with it
    is_reconnect boolean not null,
    return_url text check (char_length(return_url) <= 500),
    created_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (account_id, token_hash)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
create index connect_session_expiry on sluice.connect_session (expires_at);
