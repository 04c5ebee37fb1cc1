-- End users of an account. All that a user owns is stored under account_id = user_id, as another
-- account's rows are, so that no statement can confuse two users. parent_id is then the account: it
-- pays, its keys ask and its OAuth clients are used. NULL: the row is the account's own. The version
-- before inserts NULL. It finds users' rows only where it scans those of all accounts: flows that
-- are due, and links.
create table sluice.account_user (
    account_id uuid not null,
    external_id text collate "C" not null check (external_id ~ '^[!-~]{1,255}$'),
    user_id uuid not null,
    created_at timestamptz not null,
    primary key (account_id, external_id),
    unique (account_id, user_id)
);

alter table sluice.connection add column parent_id uuid;
alter table sluice.flow add column parent_id uuid;
alter table sluice.connect_session add column parent_id uuid;

-- A user is not a row of `account`: that table is copied to every node of a cluster.
alter table sluice.connection drop constraint connection_account_id_fkey;
alter table sluice.connect_session drop constraint connect_session_account_id_fkey;
alter table sluice.oauth_begun drop constraint oauth_begun_account_id_fkey;
alter table sluice.rate_lease drop constraint rate_lease_account_id_fkey;
