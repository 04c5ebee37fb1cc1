-- Calls that wait for a person's approval (src/policy/README.md "Holds"): the flow that asks, and then
-- calls, for all requests with this key of the account. asker: the first key of the line of keys that
-- asked. execution_id: of the call that was intended last; NULL: none was. lifetime_ms: how long the row
-- is kept after the flow's end. The version before knows none of this: it makes no holds, and fails the
-- flow of one that it takes, as its template has a member that is unknown there; `resume` goes on.
create table sluice.hold (
    account_id uuid not null,
    key text collate "C" not null check (char_length(key) between 1 and 255),
    flow_id uuid not null,
    fingerprint bytea not null check (octet_length(fingerprint) = 32),
    asker uuid not null,
    execution_id uuid,
    lifetime_ms bigint not null check (lifetime_ms > 0),
    created_at timestamptz not null,
    primary key (account_id, key)
) with (fillfactor = 80); -- a request with the key of a hold rewrites its row: HOT
-- For the flow's call. Partial, though every row is in it, so that no look-up by the key takes it.
create index hold_flow on sluice.hold (account_id, flow_id) where key <> '';
-- For housekeeping. An expression, so that no query of an account can use it.
create index hold_age on sluice.hold ((created_at at time zone 'UTC'));

-- As in 0026_key_limits.sql, with `hold`: a write that no form can confirm waits for an approval.
alter table sluice.api_key drop constraint api_key_unattended_writes_check;
alter table sluice.api_key add constraint api_key_unattended_writes_check
    check (unattended_writes in ('allow', 'refuse', 'hold'));
