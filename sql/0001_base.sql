-- Accounts, keys, connections, executions, claims, nodes, audit.
--
-- Every table's key begins with account_id, so that the tables can be sharded by tenant. Exceptions,
-- which citus.sql makes reference tables: account (its key is account_id alone), api_key's unique
-- hash (a caller is known by nothing else yet), node, migration.
--
-- Ids are made by the program; there are no triggers and no sequences. Times are given by the
-- program but for leases, which are judged by this server's clock.
--
-- execution is insert-only. What is under way is a claim in idempotency_key, a small table that
-- stays in memory; when a run ends, one statement binds or deletes its claim and inserts the
-- execution with its document. The alternative, one row that is inserted as "running" and updated
-- with its result, writes the row twice in a table of many gigabytes, leaves a dead tuple for each
-- write in partitions that are otherwise never vacuumed but for freezing, needs an index on running
-- rows there, and cannot be a HOT update because of it. The summary lies in the execution's own row:
-- written once and read as a whole, it would gain nothing from a table beside it, and TOAST moves
-- what is over 2 kB out of line anyway.

create table sluice.account (
    account_id uuid primary key,
    name text not null check (char_length(name) between 1 and 200),
    created_at timestamptz not null,
    disabled_at timestamptz
);

create table sluice.api_key (
    account_id uuid not null references sluice.account,
    id uuid not null,
    hash bytea not null check (octet_length(hash) = 32),
    prefix text not null,
    name text not null check (char_length(name) <= 200),
    scopes text not null check (scopes ~ '^[a-z]+( [a-z]+)*$'),
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    primary key (account_id, id)
) with (fillfactor = 80); -- last_used_at changes, and is in no index: HOT
create unique index api_key_hash on sluice.api_key (hash);

create table sluice.connection (
    account_id uuid not null references sluice.account,
    id bigint not null check (id > 0 and id < 9007199254740992),
    integration_id text not null,
    label text not null check (char_length(label) <= 200),
    is_default boolean not null,
    auth_kind text not null,
    sealed bytea not null,
    key_id text not null,
    scopes text,
    params json not null,
    status text not null check (status in ('live', 'reauth_required', 'revoked')),
    error text check (char_length(error) <= 2000),
    expires_at timestamptz,
    rev bigint not null check (rev > 0),
    op_token uuid not null, -- of the last change: a replay of it knows itself
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (account_id, id),
    check ((status = 'live') = (error is null))
) with (fillfactor = 70); -- a refresh changes no indexed column: HOT
create index connection_integration on sluice.connection (account_id, integration_id, id);
create unique index connection_default on sluice.connection (account_id, integration_id)
    where is_default;

create table sluice.execution (
    account_id uuid not null,
    id uuid not null, -- UUIDv7: its time
    integration_id text not null,
    action_id text not null,
    connection_id bigint,
    status text not null check (status in ('succeeded', 'failed')),
    error_code text,
    started_at timestamptz not null,
    finished_at timestamptz not null,
    owner uuid not null,
    summary json not null,
    primary key (account_id, id),
    check ((status = 'failed') = (error_code is not null))
) partition by range (id);

-- A claim: the intent of a run, and a client's idempotency key. The key of a run without one begins
-- with a control character, which a client's cannot hold.
create table sluice.idempotency_key (
    account_id uuid not null,
    key text collate "C" not null check (char_length(key) between 1 and 255),
    execution_id uuid not null,
    fingerprint bytea not null check (octet_length(fingerprint) = 32),
    state text not null check (state in ('in_flight', 'bound')),
    owner uuid,
    integration_id text not null,
    action_id text not null,
    connection_id bigint,
    is_write boolean not null,
    started_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (account_id, key),
    check ((state = 'in_flight') = (owner is not null))
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index idempotency_key_owner on sluice.idempotency_key (owner) where state = 'in_flight';
create index idempotency_key_expiry on sluice.idempotency_key (expires_at) where state = 'bound';

create table sluice.node (
    node_id uuid primary key,
    name text not null,
    started_at timestamptz not null,
    lease_until timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

create table sluice.audit_event (
    account_id uuid not null,
    id uuid not null, -- UUIDv7: its time
    kind text not null,
    reason text,
    actor text not null,
    request_id text,
    details json,
    primary key (account_id, id)
) partition by range (id);

-- lz4 where this server was built with it; partitions made later inherit it.
do $$
begin
    alter table sluice.execution alter column summary set compression lz4;
    alter table sluice.audit_event alter column details set compression lz4;
exception when feature_not_supported then
    null;
end
$$;

-- The smallest UUIDv7 of a day (UTC).
create function sluice.uuid_floor(day date) returns uuid
language sql immutable strict parallel safe as $$
    select (lpad(to_hex((day - date '1970-01-01')::bigint * 86400000), 12, '0')
            || '00000000000000000000')::uuid
$$;

-- Day partitions from yesterday (clocks differ) to days_ahead days from now; returns how many were
-- made. Made on the side and attached, which locks out nobody. No default partition: a row without
-- a partition is an error that is seen.
create function sluice.partitions_make(days_ahead bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    parent text;
    part text;
    made bigint := 0;
begin
    perform pg_advisory_xact_lock(7453010373645639522);
    foreach parent in array array['execution', 'audit_event'] loop
        for n in -1..days_ahead loop
            part := format('%s_%s', parent, to_char(today + n::integer, 'YYYYMMDD'));
            continue when to_regclass('sluice.' || part) is not null;
            execute format('create table sluice.%I (like sluice.%I including defaults '
                'including constraints including storage including compression)', part, parent);
            execute format('alter table sluice.%I attach partition sluice.%I '
                'for values from (%L) to (%L)', parent, part,
                sluice.uuid_floor(today + n::integer), sluice.uuid_floor(today + n::integer + 1));
            made := made + 1;
        end loop;
    end loop;
    return made;
end
$$;

-- Drops the oldest partition whose rows are all over keep_days old; returns 1, or 0 when there is
-- none. Dropping locks the parent for a moment: whoever holds it longer than 200 ms is not waited
-- for (55P03), since everybody else would queue up behind.
create function sluice.partitions_drop(keep_days bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    victim regclass;
begin
    if keep_days < 1 then
        raise exception 'keep_days is %, at least 1 is needed', keep_days
            using errcode = 'invalid_parameter_value';
    end if;
    select c.oid::regclass into victim
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass)
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= today - keep_days::integer
    order by right(c.relname, 8), c.relname
    limit 1;
    if victim is null then
        return 0;
    end if;
    perform set_config('lock_timeout', '200ms', true);
    execute format('drop table %s', victim);
    return 1;
end
$$;

select sluice.partitions_make(7);
