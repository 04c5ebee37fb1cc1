-- Sessions that were ended before their time, and what large accounts are looked up by.

-- A dashboard session is a sealed cookie; one that was signed out of is no session any more, however
-- many copies of the cookie there are. Kept until it would have ended by itself.
create table sluice.session_end (
    account_id uuid not null references sluice.account,
    session_hash bytea not null check (octet_length(session_hash) = 32),
    expires_at timestamptz not null,
    primary key (account_id, session_hash)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
create index session_end_expiry on sluice.session_end (expires_at);

-- All sessions of a key that began before it are over. In no index: HOT.
alter table sluice.api_key add column sessions_ended_at timestamptz;

-- The live connections of an app (those without an error), found without a walk over those that are
-- not. A renewal changes neither its columns nor its condition, so it stays HOT.
create index connection_live on sluice.connection (account_id, integration_id, id)
    where error is null;
