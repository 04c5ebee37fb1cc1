-- The audit trail has an age of its own.

-- As in 0002; audit_event's partitions go when their rows are all over audit_days old.
create function sluice.partitions_drop(keep_days bigint, audit_days bigint) returns bigint
language plpgsql as $$
declare
    today date := (now() at time zone 'UTC')::date;
    victim regclass;
begin
    if least(keep_days, audit_days) < 1 then
        raise exception 'at least 1 day is needed, got % and %', keep_days, audit_days
            using errcode = 'invalid_parameter_value';
    end if;
    select c.oid::regclass into victim
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
    where i.inhparent in ('sluice.execution'::regclass, 'sluice.audit_event'::regclass,
            'sluice.flow_doc'::regclass, 'sluice.flow_step'::regclass,
            'sluice.flow_item'::regclass)
      and d.day + 1 <= today - (case when i.inhparent = 'sluice.audit_event'::regclass
                                     then audit_days else keep_days end)::integer
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

-- What servers of the version before still call: they do not know how long the trail is to be kept.
create or replace function sluice.partitions_drop(keep_days bigint) returns bigint
language sql as $$
    select sluice.partitions_drop(keep_days, 36500)
$$;
