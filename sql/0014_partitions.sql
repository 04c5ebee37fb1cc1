-- Partitions one a call, and by statements that a distributed database plans, too.

-- The oldest day partition that is missing, from yesterday to days_ahead days from now, of all
-- partitioned tables; returns 1, or 0 when none is missing. One a call: where the tables are
-- distributed a partition is made on every node, and those of a week take longer than a server
-- waits for a statement.
create function sluice.partition_make(days_ahead bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    parent text;
    part text;
begin
    perform pg_advisory_xact_lock(7453010373645639522);
    for n in -1..days_ahead loop
        foreach parent in array
            array['execution', 'audit_event', 'flow_doc', 'flow_step', 'flow_item']
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

-- All that are missing: for migrations, and for servers of the version before.
create or replace function sluice.partitions_make(days_ahead bigint) returns bigint
language plpgsql as $$
declare
    made bigint := 0;
begin
    while sluice.partition_make(days_ahead) > 0 loop
        made := made + 1;
    end loop;
    return made;
end
$$;

-- As in 0005; catalogs and flows are read one after the other, since a distributed database joins no
-- table of its own with a distributed one.
create or replace function sluice.partitions_drop(keep_days bigint, audit_days bigint)
returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    part record;
    day_begin uuid;
    day_end uuid;
    has_flows boolean;
begin
    if least(keep_days, audit_days) < 1 then
        raise exception 'at least 1 day is needed, got % and %', keep_days, audit_days
            using errcode = 'invalid_parameter_value';
    end if;
    for part in
        select c.oid::regclass as name, p.relname as parent, d.day
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        join pg_class p on p.oid = i.inhparent
        cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
        where i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass,
                'sluice.flow_doc'::regclass, 'sluice.flow_step'::regclass,
                'sluice.flow_item'::regclass)
          and d.day + 1 <= today - (case when i.inhparent = 'sluice.audit_event'::regclass
                                         then audit_days else keep_days end)::integer
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
