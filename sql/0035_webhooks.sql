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
-- For lists.
create index delivery_webhook on sluice.delivery (webhook_id, event_id);
-- For retention.
create index delivery_ended on sluice.delivery (ended_at) where ended_at is not null;

-- The account of a user's run, for the event that its outcome is unknown if its process has ended.
alter table sluice.idempotency_key add column parent_id uuid;
