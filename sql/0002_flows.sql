-- Flows: durable multi-step runs of a template.
--
-- flow is hot and narrow: where a flow stands. Its documents lie beside it (flow_doc); what has
-- happened is insert-only: a row an attempt in flow_step, a row a fact about a fan-out's item in
-- flow_item. Rows of steps not yet finished do not exist: the view derives them from the template
-- and from flow. flow.context is derived, too: the outputs of the steps that completed.
--
-- A running flow belongs to one node (owner); rev counts its changes; every change is fenced by
-- both. There is no lease here: a node's one row in `node` stands for all its flows. running ->
-- running touches no column of an index, so that it is a HOT update; parking, waking, ending do.

-- The templates that flows run, by the hash of their content: a flow keeps its version. The same
-- for all accounts and small: a reference table where sharded.
create table sluice.flow_template (
    version uuid primary key, -- the first 16 bytes of the SHA-256 of its canonical text
    key text not null,
    body json not null,
    created_at timestamptz not null
);

create table sluice.flow (
    account_id uuid not null,
    id uuid not null, -- UUIDv7: its time
    template_key text not null,
    template_version uuid not null,
    trigger_type text not null
        check (trigger_type in ('agent', 'manual', 'webhook', 'schedule')),
    status text not null
        check (status in ('running', 'waiting', 'completed', 'failed', 'cancelled')),
    rev bigint not null check (rev > 0),
    op_token uuid not null, -- of the last change: a replay of it knows itself
    owner uuid,             -- the node that runs it
    step_index bigint not null check (step_index >= 0),
    attempt bigint not null check (attempt >= 0), -- of this step, begun ones; counts over resumes
    -- The intent: this attempt may have reached a provider. False: the step has not begun.
    is_begun boolean not null,
    adoptions bigint not null check (adoptions >= 0), -- without a finished step in between
    waiting_for text check (waiting_for in ('time', 'approval', 'retry')),
    -- A wait's or a retry's time, an approval's expiry, the deadline where that is sooner. Counts
    -- while it waits, and stays behind, since it is in an index.
    wake_at timestamptz,
    deadline timestamptz, -- of the whole flow
    created_at timestamptz not null,
    updated_at timestamptz not null,
    completed_at timestamptz,
    primary key (account_id, id),
    check ((status = 'running') = (owner is not null)),
    check ((status = 'waiting') = (waiting_for is not null)),
    check (wake_at is not null or waiting_for is null or waiting_for = 'approval'),
    check (not is_begun or attempt > 0),
    check ((status = 'completed') <= (completed_at is not null))
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index flow_owner on sluice.flow (owner) where status = 'running';
create index flow_due on sluice.flow (wake_at) where status = 'waiting';
create index flow_attention on sluice.flow (account_id, status, id)
    where status in ('waiting', 'failed');
-- By id, not by updated_at: a column of any index, even of a partial one that the row is not in,
-- makes each of its changes a non-HOT update.
create index flow_ended on sluice.flow (id)
    where status in ('completed', 'failed', 'cancelled');

-- A node that left by itself: the adoption of what it still owned does not count.
alter table sluice.node add column left_at timestamptz;

create table sluice.flow_doc (
    account_id uuid not null,
    flow_id uuid not null,
    input json not null,
    actor text not null, -- who started it
    waiting_input json,  -- the resolved input of the step it waits in, as it was shown
    primary key (account_id, flow_id)
) partition by range (flow_id);

-- One row a finished attempt. A completed one is the last of its step; that of an approval holds
-- who approved.
create table sluice.flow_step (
    account_id uuid not null,
    flow_id uuid not null,
    step_index bigint not null check (step_index >= 0),
    attempt bigint not null check (attempt > 0),
    status text not null check (status in ('completed', 'failed')),
    started_at timestamptz not null,
    finished_at timestamptz not null,
    input json,
    output json,
    error json, -- {code, message, retryable, hint?}
    primary key (account_id, flow_id, step_index, attempt),
    check ((status = 'failed') = (error is not null))
) partition by range (flow_id);

-- Facts about one item of a fan-out. 'begun' is the intent of a call that must not be made twice in
-- silence; items whose call may be repeated have none.
create table sluice.flow_item (
    account_id uuid not null,
    flow_id uuid not null,
    step_index bigint not null check (step_index >= 0),
    item bigint not null check (item >= 0),
    attempt bigint not null check (attempt > 0), -- of the step
    fact text not null check (fact in ('begun', 'completed', 'failed')),
    at timestamptz not null,
    output json,
    error json,
    primary key (account_id, flow_id, step_index, item, attempt, fact),
    check ((fact = 'failed') = (error is not null))
) partition by range (flow_id);

do $$
begin
    alter table sluice.flow_template alter column body set compression lz4;
    alter table sluice.flow_doc alter column input set compression lz4;
    alter table sluice.flow_doc alter column waiting_input set compression lz4;
    alter table sluice.flow_step alter column input set compression lz4;
    alter table sluice.flow_step alter column output set compression lz4;
    alter table sluice.flow_item alter column output set compression lz4;
exception when feature_not_supported then
    null;
end
$$;

-- As in 0001, for all partitioned tables; flow_doc's rows are updated, once a pause.
create or replace function sluice.partitions_make(days_ahead bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    parent text;
    part text;
    made bigint := 0;
begin
    perform pg_advisory_xact_lock(7453010373645639522);
    foreach parent in array
        array['execution', 'audit_event', 'flow_doc', 'flow_step', 'flow_item']
    loop
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

-- As in 0001. A partition of a flow's documents goes only when no flow is left in its range; ended
-- flows go in sets before (store/flow_retention.c).
create or replace function sluice.partitions_drop(keep_days bigint) returns bigint
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
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    where i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass,
            'sluice.flow_doc'::regclass, 'sluice.flow_step'::regclass,
            'sluice.flow_item'::regclass)
      and d.day + 1 <= today - keep_days::integer
      and (i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass)
           or not exists (select from sluice.flow f
                          where f.id >= sluice.uuid_floor(d.day)
                            and f.id < sluice.uuid_floor(d.day + 1)))
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
