-- Parts of a limit that processes hold for two seconds at a time (src/exec/README.md). A row is one
-- limit of an account; the arrays have one entry a process, the one that wrote last first. Nothing
-- but expires_at is in an index, and that changes once an hour: else the row is updated in place.
-- The version before does not know the table: its processes count for themselves until they end.
create table sluice.rate_lease (
    account_id uuid not null references sluice.account,
    name text not null check (char_length(name) between 1 and 120),
    total bigint not null,           -- a second, in millionths; or how many at the same time
    burst bigint not null,           -- in millionths; 0: how many at the same time
    level bigint not null,           -- what is left of the burst, below 0: owed
    filled_at timestamptz not null,  -- as level stood then
    expires_at timestamptz not null, -- full again, so that no row says the same
    asked bigint[] not null,         -- the last one: used, need, floor, backlog, kept
    holders uuid[] not null,
    needs bigint[] not null,
    parts bigint[] not null, -- of total
    helds bigint[] not null, -- of level
    ends timestamptz[] not null,
    primary key (account_id, name)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
create index rate_lease_expiry on sluice.rate_lease (expires_at);
