-- Keys over HTTP, and keys that act for one end user. user_id, external_id: that user; NULL: the
-- account. made_by: the key that made it; NULL: a command did, or it is not known. line: the first key that this one was
-- rolled from; NULL: it is the first. A rolled key and those before it count as one key.
alter table sluice.api_key add column user_id uuid;
alter table sluice.api_key add column external_id text collate "C";
alter table sluice.api_key add column made_by uuid;
alter table sluice.api_key add column line uuid;
-- The end of a key of a user, or of the operator (the nil account); NULL: never. Its expires_at is in
-- 1970, so that the version before, which would let it act for the whole account, refuses it.
alter table sluice.api_key add column ends_at timestamptz;
-- Keys of the operator belong to no row of `account`; key_create checks all others.
alter table sluice.api_key drop constraint api_key_account_id_fkey;

-- That of 0024_changes.sql, which the version before does not call and which checks no account.
drop function sluice.key_create(uuid, uuid, bytea, text, text, text, timestamptz, timestamptz, text, uuid,
    timestamptz, uuid, text, text, text, text, text);

-- What the version before calls. A key that it rolls belongs to the old one's line, too.
create or replace function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text,
    scopes text, created_at timestamptz, expires_at timestamptz, addresses text, forms text,
    unattended_writes text, replaces uuid, replaced_until timestamptz, event_id uuid, kind text, actor text,
    request_id text, address text, means text)
returns setof boolean
language plpgsql as $$
declare
    old record;
begin
    select k.made_by, coalesce(k.line, k.id) as line into old
    from sluice.api_key k where k.account_id = key_create.account_id and k.id = replaces;
    return query select true from sluice.key_create(account_id => key_create.account_id,
        id => key_create.id, hash => key_create.hash, prefix => key_create.prefix,
        name => key_create.name, scopes => key_create.scopes, created_at => key_create.created_at,
        expires_at => key_create.expires_at, addresses => key_create.addresses,
        forms => key_create.forms, unattended_writes => key_create.unattended_writes,
        user_id => null::uuid, external_id => null::text, made_by => old.made_by, line => old.line,
        maker_account => null::uuid, maker_id => null::uuid, keys_max => 9223372036854775807,
        replaces => key_create.replaces, replaced_until => key_create.replaced_until,
        event_id => key_create.event_id, kind => key_create.kind, actor => key_create.actor,
        request_id => key_create.request_id, address => key_create.address,
        means => key_create.means) word
    where word = 'made';
end
$$;

-- Returns what became of it: 'made'; 'maker': the key that makes it has ended; 'gone': the key to replace
-- has; 'rolled': that one's line has a newer live key; 'full': the account has keys_max live keys. Rows
-- are locked before they are judged, so that a revocation at the same moment counts or waits.
create function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text, scopes text,
    created_at timestamptz, expires_at timestamptz, addresses text, forms text, unattended_writes text,
    user_id uuid, external_id text, made_by uuid, line uuid, maker_account uuid, maker_id uuid, keys_max bigint,
    replaces uuid, replaced_until timestamptz, event_id uuid, kind text, actor text, request_id text,
    address text, means text)
returns setof text
language plpgsql as $$
declare
    barred constant timestamptz = '1970-01-02 00:00:00+00';
    is_operator constant boolean = account_id = '00000000-0000-0000-0000-000000000000';
    is_barred constant boolean = is_operator or user_id is not null;
    old record;
begin
    perform from sluice.account a where a.account_id = key_create.account_id for key share;
    if not found and not is_operator then
        raise foreign_key_violation using message = 'the account of the key does not exist';
    end if;
    if maker_id is not null then
        perform from sluice.api_key k
        where k.account_id = maker_account and k.id = maker_id and k.revoked_at is null
          and coalesce(case when k.expires_at = barred then k.ends_at else k.expires_at end > now(), true)
        for no key update;
        if not found then
            return next 'maker';
            return;
        end if;
    end if;
    if replaces is not null then
        select k.created_at into old from sluice.api_key k
        where k.account_id = key_create.account_id and k.id = replaces and k.revoked_at is null
          and coalesce(case when is_barred then k.ends_at else k.expires_at end > now(), true)
        for no key update;
        if not found then
            return next 'gone';
            return;
        end if;
        if exists (select from sluice.api_key k where k.account_id = key_create.account_id
                and coalesce(k.line, k.id) = key_create.line and k.created_at > old.created_at
                and k.revoked_at is null
                and coalesce(case when is_barred then k.ends_at else k.expires_at end > now(), true)) then
            return next 'rolled';
            return;
        end if;
        -- least() ignores null: one that never expires gets the time
        update sluice.api_key k
        set expires_at = case when is_barred then k.expires_at else least(k.expires_at, replaced_until) end,
            ends_at = case when is_barred then least(k.ends_at, replaced_until) end
        where k.account_id = key_create.account_id and k.id = replaces;
    elsif (select count(*) from (select from sluice.api_key k where k.account_id = key_create.account_id
            and k.revoked_at is null
            and coalesce(case when k.expires_at = barred then k.ends_at else k.expires_at end > now(), true)
            limit keys_max) few) >= keys_max then
        return next 'full';
        return;
    end if;
    insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, expires_at, ends_at,
        addresses, forms, unattended_writes, user_id, external_id, made_by, line)
    values (key_create.account_id, key_create.id, key_create.hash, key_create.prefix, key_create.name,
        key_create.scopes, key_create.created_at,
        case when is_barred then barred else key_create.expires_at end,
        case when is_barred then key_create.expires_at end,
        key_create.addresses, key_create.forms, key_create.unattended_writes, key_create.user_id,
        key_create.external_id, key_create.made_by, nullif(key_create.line, key_create.id));
    perform sluice.event_add(key_create.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('key_id', key_create.id, 'prefix', key_create.prefix,
            'scopes', key_create.scopes, 'forms', key_create.forms,
            'unattended_writes', key_create.unattended_writes, 'user', key_create.external_id,
            'replaces', replaces, 'by', means)));
    return next 'made';
end
$$;
