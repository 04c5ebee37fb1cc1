-- OAuth 2: clients that operators registered with the apps, authorizations that people have begun,
-- and who refreshes a connection's token just now.

-- Who is refreshing, and until when nobody else may: two processes that send the same refresh token
-- lose the whole grant where tokens rotate. A lease and no lock: nothing is held over the network,
-- and a process that dies is waited for no longer than that. Both columns are in no index: HOT.
alter table sluice.connection
    add column refreshing_by uuid,
    add column refreshing_until timestamptz,
    add constraint connection_refreshing check ((refreshing_by is null) = (refreshing_until is null));

-- A client that is registered with an app's authorization server. The nil account's are for all
-- accounts that have none of their own, hence no reference.
create table sluice.oauth_client (
    account_id uuid not null,
    integration_id text not null,
    client_id text not null check (char_length(client_id) between 1 and 1000),
    sealed bytea not null, -- the client secret; empty for a public client
    key_id text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (account_id, integration_id)
);

-- An authorization between the redirect to the app and the way back, at most some minutes old. The
-- state itself is with the browser only. Taken, that is deleted, by whoever comes back first.
create table sluice.oauth_begun (
    account_id uuid not null references sluice.account,
    state_hash bytea not null check (octet_length(state_hash) = 32),
    session_hash bytea not null check (octet_length(session_hash) = 32),
    integration_id text not null,
    sealed bytea not null, -- PKCE verifier, redirect URI, what was asked for
    key_id text not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (account_id, state_hash)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
create index oauth_begun_expiry on sluice.oauth_begun (expires_at);
