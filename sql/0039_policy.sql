-- What keys may do: documents of an account, each a policy with a name (src/policy/README.md). The version
-- before reads none of them; they hold once its last process has ended. rev: of the account's counter, so
-- a number is never used for two texts, even if a name is deleted and used again.
create table sluice.policy (
    account_id uuid not null,
    name text collate "C" not null,
    rev bigint not null,
    body json not null,
    updated_at timestamptz not null,
    primary key (account_id, name)
);
-- The last revision of any of its policies; NULL: it has had none.
alter table sluice.account add column policy_rev bigint;
-- NULL: the account's policy with the name `default`, if there is one.
alter table sluice.api_key add column policy text collate "C";
-- The revision that allowed the run, `name@rev`; NULL: there was no policy.
alter table sluice.execution add column policy text collate "C";

-- That of 0026_key_limits.sql, which the version before does not call.
drop function sluice.key_create(uuid, uuid, bytea, text, text, text, timestamptz, timestamptz, text, text,
    text, uuid, timestamptz, uuid, text, text, text, text, text);

-- What the version before calls. A key that it rolls keeps its policy, and a key with a policy makes none.
create or replace function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text,
    scopes text, created_at timestamptz, expires_at timestamptz, addresses text, forms text,
    unattended_writes text, user_id uuid, external_id text, made_by uuid, line uuid, maker_account uuid,
    maker_id uuid, keys_max bigint, replaces uuid, replaced_until timestamptz, event_id uuid, kind text,
    actor text, request_id text, address text, means text)
returns setof text
language plpgsql as $$
declare
    kept text;
begin
    if exists (select from sluice.api_key k where k.account_id = maker_account and k.id = maker_id
            and k.policy is not null) then
        return next 'maker';
        return;
    end if;
    select k.policy into kept
    from sluice.api_key k where k.account_id = key_create.account_id and k.id = replaces;
    return query select word from sluice.key_create(account_id => key_create.account_id,
        id => key_create.id, hash => key_create.hash, prefix => key_create.prefix,
        name => key_create.name, scopes => key_create.scopes, created_at => key_create.created_at,
        expires_at => key_create.expires_at, addresses => key_create.addresses,
        forms => key_create.forms, unattended_writes => key_create.unattended_writes,
        policy => kept, user_id => key_create.user_id, external_id => key_create.external_id,
        made_by => key_create.made_by, line => key_create.line,
        maker_account => key_create.maker_account, maker_id => key_create.maker_id,
        keys_max => key_create.keys_max, replaces => key_create.replaces,
        replaced_until => key_create.replaced_until, event_id => key_create.event_id,
        kind => key_create.kind, actor => key_create.actor, request_id => key_create.request_id,
        address => key_create.address, means => key_create.means) word;
end
$$;

-- As in 0030_keys.sql, with the key's policy. Also returns 'policy': the account has no policy with that
-- name. A rolled key keeps its policy, whether that exists or not.
create function sluice.key_create(account_id uuid, id uuid, hash bytea, prefix text, name text, scopes text,
    created_at timestamptz, expires_at timestamptz, addresses text, forms text, unattended_writes text,
    policy text, user_id uuid, external_id text, made_by uuid, line uuid, maker_account uuid, maker_id uuid,
    keys_max bigint, replaces uuid, replaced_until timestamptz, event_id uuid, kind text, actor text,
    request_id text, address text, means text)
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
    elsif key_create.policy is not null then
        -- locked against its deletion (policy_delete)
        perform from sluice.policy p
        where p.account_id = key_create.account_id and p.name = key_create.policy for key share;
        if not found then
            return next 'policy';
            return;
        end if;
    end if;
    insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, expires_at, ends_at,
        addresses, forms, unattended_writes, policy, user_id, external_id, made_by, line)
    values (key_create.account_id, key_create.id, key_create.hash, key_create.prefix, key_create.name,
        key_create.scopes, key_create.created_at,
        case when is_barred then barred else key_create.expires_at end,
        case when is_barred then key_create.expires_at end,
        key_create.addresses, key_create.forms, key_create.unattended_writes, key_create.policy,
        key_create.user_id, key_create.external_id, key_create.made_by,
        nullif(key_create.line, key_create.id));
    perform sluice.event_add(key_create.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('key_id', key_create.id, 'prefix', key_create.prefix,
            'scopes', key_create.scopes, 'forms', key_create.forms,
            'unattended_writes', key_create.unattended_writes, 'policy', key_create.policy,
            'user', key_create.external_id, 'replaces', replaces, 'by', means)));
    return next 'made';
end
$$;

-- Changes of policies, each with its audit event (0024_changes.sql). The account's row is locked first, so
-- that two at a time are counted and numbered one after the other.

-- Returns what became of it, and the rev that the policy has then. 'changed', also for the text that it has
-- already, which is no new revision and no event; 'stale': it has another rev than old_rev (0: there is
-- none; null: any); 'full': the account has count_max others.
create function sluice.policy_set(account_id uuid, name text, old_rev bigint, body json, count_max bigint,
    event_id uuid, kind text, actor text, request_id text, address text, means text)
returns table (word text, new_rev bigint)
language plpgsql as $$
declare
    old record;
    is_there boolean;
begin
    perform from sluice.account a where a.account_id = policy_set.account_id for no key update;
    if not found then
        raise foreign_key_violation using message = 'the account of the policy does not exist';
    end if;
    select p.rev, p.body into old
    from sluice.policy p where p.account_id = policy_set.account_id and p.name = policy_set.name;
    is_there := found;
    new_rev := coalesce(old.rev, 0);
    if old_rev <> new_rev then
        word := 'stale';
        return next;
        return;
    end if;
    word := 'changed';
    if is_there and old.body::text = policy_set.body::text then
        return next;
        return;
    end if;
    if not is_there and (select count(*) from sluice.policy p
            where p.account_id = policy_set.account_id) >= count_max then
        word := 'full';
        return next;
        return;
    end if;
    update sluice.account a set policy_rev = coalesce(a.policy_rev, 0) + 1
    where a.account_id = policy_set.account_id returning a.policy_rev into new_rev;
    if is_there then
        update sluice.policy p set rev = new_rev, body = policy_set.body, updated_at = now()
        where p.account_id = policy_set.account_id and p.name = policy_set.name;
    else
        insert into sluice.policy (account_id, name, rev, body, updated_at)
        values (policy_set.account_id, policy_set.name, new_rev, policy_set.body, now());
    end if;
    perform sluice.event_add(policy_set.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('policy', policy_set.name, 'rev', new_rev, 'by', means)));
    return next;
end
$$;

-- A row, if the account had the policy: how many valid keys name it, which is then kept, and the labels of
-- the first ten of them.
create function sluice.policy_delete(account_id uuid, name text, event_id uuid, kind text, actor text,
    request_id text, address text, means text)
returns table (users bigint, labels text)
language plpgsql as $$
declare
    barred constant timestamptz = '1970-01-02 00:00:00+00';
    old_rev bigint;
begin
    select p.rev into old_rev from sluice.policy p
    where p.account_id = policy_delete.account_id and p.name = policy_delete.name for update;
    if not found then
        return;
    end if;
    select count(*), string_agg('"' || k.label || '"', ', ' order by k.id) filter (where k.n <= 10)
    into users, labels
    from (select k.id, coalesce(nullif(k.name, ''), k.prefix || '…') as label,
            row_number() over (order by k.id) as n
        from sluice.api_key k
        where k.account_id = policy_delete.account_id and k.policy = policy_delete.name
          and k.revoked_at is null
          and coalesce(case when k.expires_at = barred then k.ends_at else k.expires_at end > now(), true)
        ) k;
    if users = 0 then
        delete from sluice.policy p
        where p.account_id = policy_delete.account_id and p.name = policy_delete.name;
        perform sluice.event_add(policy_delete.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('policy', policy_delete.name, 'rev', old_rev, 'by', means)));
    end if;
    return next;
end
$$;

-- As in 0038_usage_sums.sql, with the policies.
create or replace function sluice.account_remove(account_id uuid, with_users boolean) returns boolean
language plpgsql as $$
begin
    perform from sluice.account a where a.account_id = account_remove.account_id for update;
    if not found then
        return false; -- another process was first
    end if;
    if not with_users and exists (select from sluice.account_user t
            where t.account_id = account_remove.account_id) then
        update sluice.account_user t set erase_at = now() + interval '100 years'
        where t.account_id = account_remove.account_id and t.erase_at is null;
        return false;
    end if;
    delete from sluice.connection t where t.parent_id = account_remove.account_id;
    delete from sluice.connection t where t.account_id = account_remove.account_id;
    delete from sluice.oauth_client t where t.account_id = account_remove.account_id;
    delete from sluice.webhook t where t.account_id = account_remove.account_id;
    delete from sluice.policy t where t.account_id = account_remove.account_id;
    delete from sluice.api_key t where t.account_id = account_remove.account_id;
    delete from sluice.usage t where t.account_id = account_remove.account_id;
    delete from sluice.account_user t where t.account_id = account_remove.account_id;
    delete from sluice.account t where t.account_id = account_remove.account_id;
    return true;
end
$$;
