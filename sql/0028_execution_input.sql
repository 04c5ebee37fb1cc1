-- The inputs of runs, sealed by the server (call/kept_input.h): of writes, and of runs that failed or
-- were blocked. A row is inserted by the statement that inserts its execution or audit event, and
-- has that id. Sealed bytes cannot be compressed, hence "external".
create table sluice.execution_input (
    account_id uuid not null,
    id uuid not null, -- UUIDv7: its time
    is_blocked boolean not null, -- the id is that of an audit event
    sealed bytea not null,
    key_id text not null,
    expires_at timestamptz not null,
    primary key (account_id, id)
) partition by range (id);
alter table sluice.execution_input alter column sealed set storage external;
-- For the removal of an account's oldest inputs of blocked runs.
create index execution_input_blocked on sluice.execution_input (account_id, id) where is_blocked;

-- As in 0014, with the new table.
create or replace function sluice.partition_make(days_ahead bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    parent text;
    part text;
begin
    perform pg_advisory_xact_lock(7453010373645639522);
    for n in -1..days_ahead loop
        foreach parent in array
            array['execution', 'audit_event', 'execution_input', 'flow_doc', 'flow_step',
                'flow_item']
        loop
            part := format('%s_%s', parent, to_char(today + n::integer, 'YYYYMMDD'));
            continue when to_regclass('sluice.' || part) is not null;
            execute format('create table sluice.%I (like sluice.%I including defaults '
                'including constraints including storage including compression)', part, parent);
            execute format('alter table sluice.%I attach partition sluice.%I '
                'for values from (%L) to (%L)', parent, part,
                sluice.uuid_floor(today + n::integer), sluice.uuid_floor(today + n::integer + 1));
            return 1;
        end loop;
    end loop;
    return 0;
end
$$;

-- What servers of the version before still call: inputs are removed at the latest with executions.
create or replace function sluice.partitions_drop(keep_days bigint, audit_days bigint)
returns bigint
language plpgsql as $$
begin
    return sluice.partitions_drop(keep_days, audit_days, keep_days);
end
$$;

-- As in 0014. Inputs have an age of their own, which may be 0 (as 1: partition_make makes the
-- partition of yesterday); none is older than the executions and
-- events that it belongs to.
create function sluice.partitions_drop(keep_days bigint, audit_days bigint, input_days bigint)
returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    part record;
    day_begin uuid;
    day_end uuid;
    has_flows boolean;
begin
    if least(keep_days, audit_days) < 1 or input_days < 0 then
        raise exception 'at least 1 day is needed, got % and %, and at least 0 for inputs, got %',
            keep_days, audit_days, input_days
            using errcode = 'invalid_parameter_value';
    end if;
    for part in
        select c.oid::regclass as name, p.relname as parent, d.day
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        join pg_class p on p.oid = i.inhparent
        cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
        where i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass,
                'sluice.execution_input'::regclass, 'sluice.flow_doc'::regclass,
                'sluice.flow_step'::regclass, 'sluice.flow_item'::regclass)
          and d.day + 1 <= today - (case p.relname
                when 'audit_event' then audit_days
                when 'execution_input' then greatest(least(input_days, keep_days, audit_days), 1)
                else keep_days end)::integer
        order by right(c.relname, 8), c.relname
    loop
        if part.parent like 'flow%' then
            day_begin := sluice.uuid_floor(part.day);
            day_end := sluice.uuid_floor(part.day + 1);
            select exists (select 1 from sluice.flow f where f.id >= day_begin and f.id < day_end)
                into has_flows;
            continue when has_flows;
        end if;
        perform set_config('lock_timeout', '200ms', true);
        execute format('drop table %s', part.name);
        return 1;
    end loop;
    return 0;
end
$$;

select sluice.partitions_make(7);
