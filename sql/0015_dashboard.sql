-- What the dashboard shows: numbers of calls, who asked for an execution, how an account looks.

-- Calls by time, action and how they ended. Each process adds what it counted, every ten seconds:
-- a row of five minutes is updated in place, since no index has what changes. Housekeeping makes
-- hours of what is over two days old, and removes what is over thirty (src/store/tally.c).
create table sluice.tally (
    account_id uuid not null references sluice.account,
    slot timestamptz not null,    -- its begin
    integration_id text not null, -- as action_id, '' where the catalog knows none
    action_id text not null,
    outcome text not null check (outcome in ('succeeded', 'failed', 'blocked')),
    error_code text not null, -- '' of those that succeeded
    is_hour boolean not null, -- else five minutes
    calls bigint not null check (calls > 0),
    ms_sum bigint not null,
    buckets integer[] not null, -- calls by how long they took; none of those that were blocked
    primary key (account_id, slot, integration_id, action_id, outcome, error_code),
    check ((outcome = 'succeeded') = (error_code = ''))
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
create index tally_young on sluice.tally (slot) where not is_hour;
create index tally_hour on sluice.tally (slot) where is_hour;

-- NULL in rows of the version before, and of runs that another process has ended.
alter table sluice.execution add column api_key_id uuid;
alter table sluice.execution add column attempts bigint;

-- For pages that other people see: two letters, and a ground behind them.
alter table sluice.account add column mark text check (char_length(mark) between 1 and 2);
alter table sluice.account add column colour text check (colour ~ '^#[0-9a-f]{6}$');
