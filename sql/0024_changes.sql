-- Changes of accounts and API keys, each with its audit event, both or none. They are functions, as a
-- distributed database takes no change of a copied table and one of a distributed table in one statement;
-- it takes them in one transaction. The event's id is the caller's: what is called twice makes one event.

create function sluice.event_add(account_id uuid, event_id uuid, kind text, actor text, request_id text,
    address text, details json) returns void
language plpgsql as $$
begin
    insert into sluice.audit_event (account_id, id, kind, actor, request_id, address, details)
    values (event_add.account_id, event_add.event_id, event_add.kind, event_add.actor,
        event_add.request_id, event_add.address, nullif(event_add.details::text, '{}')::json)
    on conflict do nothing;
end
$$;

-- With `is_again` also where another account has the name; else that account's id is returned, and
-- nothing was done. Two at a time wait for each other: there is no row yet that one could lock.
create function sluice.account_create(account_id uuid, name text, created_at timestamptz,
    is_again boolean, event_id uuid, kind text, actor text, request_id text, address text, means text)
returns uuid
language plpgsql as $$
declare
    other uuid;
begin
    if not is_again then
        perform pg_advisory_xact_lock(7453010373645639523);
        select a.account_id into other from sluice.account a
        where a.name = account_create.name order by a.created_at limit 1;
    end if;
    if other is null then
        insert into sluice.account (account_id, name, created_at)
        values (account_create.account_id, account_create.name, account_create.created_at);
        perform sluice.event_add(account_create.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('by', means)));
    end if;
    return other;
end
$$;

-- Disabled where disabled_at is not null, enabled where it is; where is_mark, only mark and colour.
-- A row, if there is the account. One that is as it should be already gets no event.
create function sluice.account_change(account_id uuid, is_mark boolean, disabled_at timestamptz,
    mark text, colour text, event_id uuid, kind text, actor text, request_id text, address text, means text)
returns setof boolean
language plpgsql as $$
begin
    if is_mark then
        update sluice.account a set mark = account_change.mark, colour = account_change.colour
        where a.account_id = account_change.account_id;
    else
        update sluice.account a set disabled_at = account_change.disabled_at
        where a.account_id = account_change.account_id
          and (a.disabled_at is null) <> (account_change.disabled_at is null);
    end if;
    if found then
        perform sluice.event_add(account_change.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('by', means)));
    end if;
    return query select true from sluice.account a where a.account_id = account_change.account_id;
end
$$;

-- replaces: a key that ends at replaced_until, or before it as it would have; none, and nothing done,
-- where that one is revoked or is not there.
create function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text, scopes text,
    created_at timestamptz, expires_at timestamptz, addresses text, replaces uuid,
    replaced_until timestamptz, event_id uuid, kind text, actor text, request_id text, address text,
    means text)
returns setof boolean
language plpgsql as $$
begin
    if replaces is not null then
        -- least() ignores null: one that never expires gets the time
        update sluice.api_key k set expires_at = least(k.expires_at, replaced_until)
        where k.account_id = key_create.account_id and k.id = replaces and k.revoked_at is null;
        if not found then
            return;
        end if;
    end if;
    insert into sluice.api_key
        (account_id, id, hash, prefix, name, scopes, created_at, expires_at, addresses)
    values (key_create.account_id, key_create.id, key_create.hash, key_create.prefix, key_create.name,
        key_create.scopes, key_create.created_at, key_create.expires_at, key_create.addresses);
    perform sluice.event_add(key_create.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('key_id', key_create.id, 'prefix', key_create.prefix,
            'scopes', key_create.scopes, 'replaces', replaces, 'by', means)));
    return next true;
end
$$;

-- A row, if the account has the key. One that is revoked already stays so, and gets no second event.
create function sluice.key_revoke(account_id uuid, id uuid, revoked_at timestamptz, event_id uuid, kind text,
    actor text, request_id text, address text, means text)
returns setof boolean
language plpgsql as $$
declare
    row record;
begin
    update sluice.api_key k set revoked_at = key_revoke.revoked_at
    where k.account_id = key_revoke.account_id and k.id = key_revoke.id and k.revoked_at is null
    returning k.prefix, k.scopes into row;
    if found then
        perform sluice.event_add(key_revoke.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('key_id', key_revoke.id, 'prefix', row.prefix,
                'scopes', row.scopes, 'by', means)));
    end if;
    return query select true from sluice.api_key k
        where k.account_id = key_revoke.account_id and k.id = key_revoke.id;
end
$$;
