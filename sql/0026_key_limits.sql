-- A key may be limited to actions that read (`execute:read`), hence words with a colon; the version
-- before grants nothing for a word that it does not know. It ignores the two columns: they hold once its
-- last process has ended.
alter table sluice.api_key drop constraint api_key_scopes_check;
alter table sluice.api_key add constraint api_key_scopes_check check (scopes ~ '^[a-z:]+( [a-z:]+)*$');

-- For /mcp. forms: 'never': no person answers a client's forms, so `confirm` counts; NULL: ask where the
-- client can. unattended_writes: a write that no form can confirm; NULL: as the setting says.
alter table sluice.api_key add column forms text;
alter table sluice.api_key add constraint api_key_forms_check check (forms = 'never');
alter table sluice.api_key add column unattended_writes text;
alter table sluice.api_key add constraint api_key_unattended_writes_check
    check (unattended_writes in ('allow', 'refuse'));

-- As the function of 0024_changes.sql, which the version before calls, with these two.
create function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text, scopes text,
    created_at timestamptz, expires_at timestamptz, addresses text, forms text, unattended_writes text,
    replaces uuid, replaced_until timestamptz, event_id uuid, kind text, actor text, request_id text,
    address text, means text)
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
    insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, expires_at,
        addresses, forms, unattended_writes)
    values (key_create.account_id, key_create.id, key_create.hash, key_create.prefix, key_create.name,
        key_create.scopes, key_create.created_at, key_create.expires_at, key_create.addresses,
        key_create.forms, key_create.unattended_writes);
    perform sluice.event_add(key_create.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('key_id', key_create.id, 'prefix', key_create.prefix,
            'scopes', key_create.scopes, 'forms', key_create.forms,
            'unattended_writes', key_create.unattended_writes, 'replaces', replaces, 'by', means)));
    return next true;
end
$$;
