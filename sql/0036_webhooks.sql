-- Endpoints of accounts, to which events are sent (src/event/README.md). The version before writes no
-- events and reads neither table. url NULL: made by a later version, which alone sends to it. events:
-- names of kinds with a space between them; NULL: all. sealed, old_sealed: the signing secret, and the
-- one before it, which also signs until old_until; key_id: the master key of both. off_at: since then it
-- gets nothing. failing_since, failures: since its last success; paused_until: until then it is sent
-- nothing, since its last messages failed.
create table sluice.webhook (
    account_id uuid not null,
    id uuid not null,
    url text collate "C",
    description text not null,
    events text collate "C",
    sealed bytea not null,
    old_sealed bytea,
    old_until timestamptz,
    key_id text not null,
    api_key_id uuid,
    off_at timestamptz,
    off_reason text,
    failing_since timestamptz,
    failures bigint not null,
    paused_until timestamptz,
    rev bigint not null,
    created_at timestamptz not null,
    primary key (account_id, id),
    unique (account_id, url)
);

-- The outbox: an event for one endpoint. The statement that makes a change inserts its rows. account_id:
-- of the changed row; parent_id: of a user's row, the account, which has the endpoint. event_id (a
-- UUIDv7) is the same for all endpoints. object: the id of the changed row, rev: its revision after the
-- change. due_at: when it is to be sent, or, while it is being sent, when it is to be sent again if the
-- process ends.
create table sluice.delivery (
    account_id uuid not null,
    event_id uuid not null,
    webhook_id uuid not null,
    parent_id uuid,
    kind text collate "C" not null,
    object uuid not null,
    rev bigint not null,
    at timestamptz not null,
    data json not null,
    status text collate "C" not null check (status in ('pending', 'delivered', 'failed')),
    attempt bigint not null,
    due_at timestamptz,
    code bigint,
    problem text,
    ended_at timestamptz,
    primary key (account_id, event_id, webhook_id),
    check ((status = 'pending') = (due_at is not null)),
    check ((status = 'pending') = (ended_at is null))
);
-- For timers.
create index delivery_due on sluice.delivery (due_at, event_id) where status = 'pending';
-- For the order of an object's events.
create index delivery_object on sluice.delivery (account_id, webhook_id, object, rev)
    where status = 'pending';
-- For lists, which name the condition: no other statement is to use it instead of the primary key.
create index delivery_webhook on sluice.delivery (webhook_id, event_id) where kind <> '';
-- For retention.
create index delivery_ended on sluice.delivery (ended_at) where ended_at is not null;

-- The account of a user's run, for the event that its outcome is unknown if its process has ended.
alter table sluice.idempotency_key add column parent_id uuid;

-- A message to the endpoint has failed. From the third failure in a row on it is paused, for longer the
-- longer it fails. It goes off where is_gone, or once it has failed for off_after_ms; then the row has
-- true, the account an audit event, and the account's other endpoints an event each.
create function sluice.webhook_failed(account_id uuid, id uuid, url text, is_gone boolean,
    off_after_ms bigint, event_id uuid, audit_id uuid)
returns setof boolean
language plpgsql as $$
declare
    old record;
    is_off boolean;
begin
    select w.* into old from sluice.webhook w
    where w.account_id = webhook_failed.account_id and w.id = webhook_failed.id and w.off_at is null
      and w.url = webhook_failed.url
    for no key update;
    if not found then
        return;
    end if;
    is_off := is_gone or coalesce(old.failing_since < now() - off_after_ms * interval '1 millisecond', false);
    update sluice.webhook w
    set failures = old.failures + 1, failing_since = coalesce(old.failing_since, now()),
        paused_until = case when old.failures >= 2 and not is_off then now() + least(interval '1 hour',
            greatest(interval '5 seconds', (now() - old.failing_since) / 2)) end,
        off_at = case when is_off then now() end,
        off_reason = case when is_off then case when is_gone then 'answered_410' else 'failing' end end,
        rev = old.rev + is_off::integer
    where w.account_id = webhook_failed.account_id and w.id = webhook_failed.id;
    if is_off then
        perform sluice.event_add(webhook_failed.account_id, audit_id, 'webhook.disabled', 'system',
            null, null, json_build_object('webhook_id', old.id, 'url', old.url,
                'reason', case when is_gone then 'answered_410' else 'failing' end));
        insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status,
            attempt, due_at)
        select webhook_failed.account_id, webhook_failed.event_id, h.id, 'webhook.disabled', old.id,
            old.rev + 1, now(), json_build_object('webhook_id', old.id, 'account_id',
                webhook_failed.account_id, 'reason',
                case when is_gone then 'answered_410' else 'failing' end),
            'pending', 0, now()
        from sluice.webhook h
        where h.account_id = webhook_failed.account_id and h.id <> old.id and h.off_at is null
          and h.url is not null and (h.events is null or 'webhook.disabled' = any(string_to_array(h.events, ' ')))
        on conflict do nothing;
    end if;
    return next is_off;
end
$$;

-- Changes of endpoints, each with its audit event: functions, as those of 0024_changes.sql. They return
-- what became of it: 'changed'; 'full': the account has count_max endpoints; 'twice': another one has the
-- URL; 'stale': the row has another rev, or no longer exists. The account's row is locked first, so that
-- two at a time are counted and compared one after the other.
create function sluice.webhook_create(account_id uuid, id uuid, url text, description text, events text,
    sealed bytea, old_sealed bytea, key_id text, old_until timestamptz, off_at timestamptz, off_reason text,
    api_key_id uuid, created_at timestamptz, count_max bigint, event_id uuid, kind text, actor text,
    request_id text, address text, means text)
returns setof text
language plpgsql as $$
begin
    perform from sluice.account a where a.account_id = webhook_create.account_id for no key update;
    if not found then
        raise foreign_key_violation using message = 'the account of the webhook does not exist';
    end if;
    if exists (select from sluice.webhook w where w.account_id = webhook_create.account_id
            and w.url = webhook_create.url) then
        return next 'twice';
        return;
    end if;
    if (select count(*) from sluice.webhook w
            where w.account_id = webhook_create.account_id) >= count_max then
        return next 'full';
        return;
    end if;
    insert into sluice.webhook (account_id, id, url, description, events, sealed, old_sealed, old_until,
        key_id, api_key_id, off_at, off_reason, failures, rev, created_at)
    values (webhook_create.account_id, webhook_create.id, webhook_create.url, webhook_create.description,
        webhook_create.events, webhook_create.sealed, webhook_create.old_sealed, webhook_create.old_until,
        webhook_create.key_id, webhook_create.api_key_id, webhook_create.off_at, webhook_create.off_reason,
        0, 1, webhook_create.created_at);
    perform sluice.event_add(webhook_create.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('webhook_id', webhook_create.id, 'url', webhook_create.url,
            'events', webhook_create.events, 'by', means)));
    return next 'changed';
end
$$;

create function sluice.webhook_update(account_id uuid, id uuid, rev bigint, url text, description text,
    events text, sealed bytea, old_sealed bytea, key_id text, old_until timestamptz, off_at timestamptz,
    off_reason text, is_forgiven boolean, event_id uuid, kind text, actor text, request_id text,
    address text, means text)
returns setof text
language plpgsql as $$
begin
    perform from sluice.account a where a.account_id = webhook_update.account_id for no key update;
    if exists (select from sluice.webhook w where w.account_id = webhook_update.account_id
            and w.url = webhook_update.url and w.id <> webhook_update.id) then
        return next 'twice';
        return;
    end if;
    update sluice.webhook w
    set url = webhook_update.url, description = webhook_update.description, events = webhook_update.events,
        sealed = webhook_update.sealed, old_sealed = webhook_update.old_sealed,
        key_id = webhook_update.key_id, old_until = webhook_update.old_until,
        off_at = webhook_update.off_at, off_reason = webhook_update.off_reason,
        failing_since = case when not is_forgiven then w.failing_since end,
        failures = case when is_forgiven then 0 else w.failures end,
        paused_until = case when not is_forgiven then w.paused_until end,
        rev = w.rev + 1
    where w.account_id = webhook_update.account_id and w.id = webhook_update.id
      and w.rev = webhook_update.rev;
    if not found then
        return next 'stale';
        return;
    end if;
    perform sluice.event_add(webhook_update.account_id, event_id, kind, actor, request_id, address,
        json_strip_nulls(json_build_object('webhook_id', webhook_update.id, 'url', webhook_update.url,
            'events', webhook_update.events, 'reason', webhook_update.off_reason, 'by', means)));
    return next 'changed';
end
$$;

-- A row, if the account had the endpoint.
create function sluice.webhook_delete(account_id uuid, id uuid, event_id uuid, kind text, actor text,
    request_id text, address text, means text)
returns setof boolean
language plpgsql as $$
declare
    old_url text;
begin
    delete from sluice.webhook w
    where w.account_id = webhook_delete.account_id and w.id = webhook_delete.id
    returning w.url into old_url;
    if found then
        perform sluice.event_add(webhook_delete.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('webhook_id', webhook_delete.id, 'url', old_url,
                'by', means)));
        return next true;
    end if;
end
$$;

-- As in 0035_account_erase_usage.sql, with the endpoints: the account's row is locked, so none is created
-- after the last pass over all tables.
create or replace function sluice.account_remove(account_id uuid, with_users boolean) returns boolean
language plpgsql as $$
begin
    perform from sluice.account a where a.account_id = account_remove.account_id for update;
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
    delete from sluice.api_key t where t.account_id = account_remove.account_id;
    delete from sluice.account_user t where t.account_id = account_remove.account_id;
    delete from sluice.account t where t.account_id = account_remove.account_id;
    return true;
end
$$;
