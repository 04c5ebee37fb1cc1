-- Erasing an account over HTTP. erase_at is as that of a user (0033_user_erase.sql): a pass over all tables
-- that begins after it is the last one. NULL: the account is not being erased. The version before knows
-- none of this: it shows such an account as disabled, which it is.
alter table sluice.account add column erase_at timestamptz;
create index account_erasing on sluice.account (account_id) where erase_at is not null;
-- Users whose links and flows have not ended, among those of large accounts whose calls are awaited.
create index account_user_far on sluice.account_user (user_id) where erase_at > '2100-01-01 00:00:00+00';

-- That of 0024_changes.sql, by which the version before enables accounts, too: an account that is being
-- erased stays disabled. Then the row is false.
create or replace function sluice.account_change(account_id uuid, is_mark boolean, disabled_at timestamptz,
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
          and (a.disabled_at is null) <> (account_change.disabled_at is null)
          and (a.erase_at is null or account_change.disabled_at is not null);
    end if;
    if found then
        perform sluice.event_add(account_change.account_id, event_id, kind, actor, request_id, address,
            json_strip_nulls(json_build_object('by', means)));
    end if;
    return query select is_mark or account_change.disabled_at is not null or a.disabled_at is null
        from sluice.account a where a.account_id = account_change.account_id;
end
$$;

-- Marks a disabled account as being erased: its links and flows may not have ended yet, so the time is
-- many years ahead. No row: there is no such account. False: it was not disabled, and nothing was done. The
-- event is the operator's, since those of the account are deleted.
create function sluice.account_erase(account_id uuid, event_id uuid, kind text, actor text, request_id text,
    address text, means text)
returns setof boolean
language plpgsql as $$
begin
    update sluice.account a set erase_at = now() + interval '100 years'
    where a.account_id = account_erase.account_id and a.disabled_at is not null and a.erase_at is null;
    if found then
        perform sluice.event_add('00000000-0000-0000-0000-000000000000', event_id, kind, actor, request_id,
            address, json_strip_nulls(json_build_object('account_id', account_erase.account_id, 'by', means)));
    end if;
    return query select a.erase_at is not null from sluice.account a
        where a.account_id = account_erase.account_id;
end
$$;

-- Marks users of an account that is being erased, at most rows_max, in the order of their ids after
-- `after`. Returns the last one; NULL: there are no more.
create function sluice.account_users_erase(account_id uuid, after text, rows_max bigint) returns text
language plpgsql as $$
declare
    last text;
begin
    select max(u.external_id) into last from (select t.external_id from sluice.account_user t
        where t.account_id = account_users_erase.account_id and t.external_id > after
        order by t.external_id limit rows_max) u;
    update sluice.account_user t set erase_at = now() + interval '100 years'
    where t.account_id = account_users_erase.account_id and t.external_id > after and t.external_id <= last
      and t.erase_at is null;
    return last;
end
$$;

-- Deletes the account itself, whose rows are deleted. Its row is locked first: that waits for the
-- statements that insert a row only if the account exists, and later ones find no account. So the rows
-- that they have made since the last pass are all found here. Such rows of a user are a reason to wait for
-- the erasure of that user, unless `with_users`: then nothing is done, and the result is false.
create function sluice.account_remove(account_id uuid, with_users boolean) returns boolean
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
    delete from sluice.api_key t where t.account_id = account_remove.account_id;
    delete from sluice.account_user t where t.account_id = account_remove.account_id;
    delete from sluice.account t where t.account_id = account_remove.account_id;
    return true;
end
$$;

-- What an account's keys and users did, by day; counted in memory and written once a minute, so a process
-- that dies loses that minute. day: midnight, UTC. user_id: nil if the account itself. reads, writes: runs
-- that were not blocked, with those that failed and those of flows.
create table sluice.usage (
    account_id uuid not null,
    day timestamptz not null,
    key_id uuid not null,
    user_id uuid not null,
    reads bigint not null,
    writes bigint not null,
    failed bigint not null,
    blocked bigint not null,
    flow_calls bigint not null,
    primary key (account_id, day, key_id, user_id)
) with (fillfactor = 80); -- counts change, and are in no index: HOT
-- For housekeeping. An expression, so that no query of an account can use it.
create index usage_day on sluice.usage ((day at time zone 'UTC'));
-- Rows of users are the account's; erasing the user deletes them.
create index usage_user on sluice.usage (user_id, account_id, day);

-- Deletes rows of these owners (accounts or users) in all tables, at most about rows_max. Returns
-- their number; 0: there are none left; -1: another process does the same, and nothing was done.
-- Tables are found by their column account_id, so those of later migrations are covered; partitions
-- contain rows themselves, their parents do not. Keys that act for a user go first, then what a server
-- would continue by itself; depth 0 ends there. What is sealed follows, and then all others. Depth 1 keeps the claims of runs under way, so that their
-- results are recorded and answered; depth 2 keeps nothing. The rows of `account` and `account_user` are
-- the caller's.
--
-- Each table is read once for all owners, and only one with rows is changed. All rows are deleted by
-- account_id; where they are too many, those of one owner by ctid, because a DELETE has no LIMIT: on a
-- cluster, the rows of one owner are on one node.
create or replace function sluice.rows_erase(owners uuid[], rows_max bigint, depth bigint) returns bigint
language plpgsql as $$
declare
    part name;
    which text;
    found_owners uuid[];
    found_count bigint;
    gone bigint;
    total bigint := 0;
    is_refused boolean := false;
begin
    if not pg_try_advisory_xact_lock(7453010373645639524) then
        return -1;
    end if;
    delete from sluice.api_key k where k.user_id = any(owners);
    get diagnostics total = row_count;
    if depth > 0 then
        delete from sluice.usage t
        where t.user_id = any(owners) and t.user_id <> '00000000-0000-0000-0000-000000000000';
        get diagnostics gone = row_count;
        total := total + gone;
    end if;
    for part in
        select c.relname from pg_class c
        where c.relkind = 'r' and c.relnamespace = 'sluice'::regnamespace
          and c.relname not in ('account', 'account_user')
          and (depth > 0 or c.relname in ('connect_session', 'oauth_begun', 'flow'))
          and exists (select from pg_attribute a
                where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped)
        order by c.relname not in ('connect_session', 'oauth_begun', 'flow'),
            c.relname not in ('connection', 'oauth_client') and not starts_with(c.relname, 'execution_input'),
            c.relname
    loop
        which := case when part = 'idempotency_key' and depth = 1 then 'and t.state = ''bound''' end;
        execute format('select array_agg(distinct k.account_id), count(*) from (select t.account_id '
            'from sluice.%I t where t.account_id = any($1) %s limit $2) k', part, which)
            into found_owners, found_count using owners, rows_max + 1;
        continue when found_count = 0;
        begin
            if found_count <= rows_max then
                execute format('delete from sluice.%I t where t.account_id = any($1) %s', part, which)
                    using found_owners;
            else
                execute format('delete from sluice.%1$I t where t.account_id = $1 and t.ctid = '
                    'any(array(select t.ctid from sluice.%1$I t where t.account_id = $1 %2$s limit $2))',
                    part, which)
                    using found_owners[1], rows_max;
            end if;
            get diagnostics gone = row_count;
            total := total + gone;
        exception
            -- rows of another table still refer to these; the next call tries again
            when foreign_key_violation then is_refused := true;
        end;
        exit when total >= rows_max;
    end loop;
    if is_refused and total = 0 then
        raise exception 'rows of other accounts refer to rows of this one'
            using errcode = 'foreign_key_violation';
    end if;
    return total;
end
$$;
