-- Lists over all users of an account: the account is in its users' events, too, as it is in their
-- connections. NULL: the account's own event, or one of the version before, which such a list lacks.
alter table sluice.audit_event add column parent_id uuid;

-- A connection of the account that serves its users, too. NULL: it does not.
alter table sluice.connection add column is_shared boolean;

-- One pass each over connections. They are merged over the nodes of a cluster, hence the collation.
create index connection_of_users on sluice.connection (parent_id, integration_id collate "C", id)
    where parent_id is not null;
create index connection_shared on sluice.connection (account_id, integration_id, id) where is_shared;

-- Events of former days have no parent_id, so their partitions, however large, get no index and are
-- not read (store/audit.c); those of today and later days get one here, further partitions get it
-- when they are attached.
create index audit_event_of_users on only sluice.audit_event (parent_id, id)
    where parent_id is not null;
do $$
declare
    part text;
begin
    for part in
        select c.relname
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'sluice.audit_event'::regclass
          and right(c.relname, 8) >= to_char((now() at time zone 'UTC')::date, 'YYYYMMDD')
    loop
        execute format('create index on sluice.%I (parent_id, id) where parent_id is not null', part);
    end loop;
end
$$;
