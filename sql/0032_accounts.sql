-- Accounts over HTTP. external_id: the id that the operator's program gave the account.
alter table sluice.account add column external_id text collate "C";
create unique index account_external_id on sluice.account (external_id);

-- Returns the account that has the external id, or, without `is_again`, the name; then nothing was
-- done. Two at a time wait for each other: there is no row yet that one could lock.
create function sluice.account_create(account_id uuid, name text, external_id text, created_at timestamptz,
    is_again boolean, event_id uuid, kind text, actor text, request_id text, address text, means text)
returns uuid
language plpgsql as $$
declare
    other uuid;
begin
    if external_id is not null or not is_again then
        perform pg_advisory_xact_lock(7453010373645639523);
        select a.account_id into other from sluice.account a
        where case when account_create.external_id is not null
            then a.external_id = account_create.external_id
            else a.name = account_create.name end
        order by a.created_at limit 1;
    end if;
    if other is null then
        insert into sluice.account (account_id, name, external_id, created_at)
        values (account_create.account_id, account_create.name, account_create.external_id,
            account_create.created_at);
        perform sluice.event_add(account_create.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('by', means)));
    end if;
    return other;
end
$$;

-- With `name` it gets this name, else as the function of 0024_changes.sql, which the version before calls.
create function sluice.account_change(account_id uuid, is_mark boolean, disabled_at timestamptz,
    mark text, colour text, name text, event_id uuid, kind text, actor text, request_id text, address text,
    means text)
returns setof boolean
language plpgsql as $$
begin
    if name is null then
        return query select c.* from sluice.account_change(account_id => account_change.account_id,
            is_mark => account_change.is_mark, disabled_at => account_change.disabled_at,
            mark => account_change.mark, colour => account_change.colour,
            event_id => account_change.event_id, kind => account_change.kind,
            actor => account_change.actor, request_id => account_change.request_id,
            address => account_change.address, means => account_change.means) c;
        return;
    end if;
    update sluice.account a set name = account_change.name where a.account_id = account_change.account_id;
    if found then
        perform sluice.event_add(account_change.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('by', means)));
        return next true;
    end if;
end
$$;
