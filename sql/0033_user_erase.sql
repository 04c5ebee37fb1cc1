-- Erasing an end user: a pass over all tables that begins after erase_at is its last one, since the calls
-- that were under way have ended by then. A time many years ahead: its keys, links and flows may not have
-- ended yet. NULL: the user is not being erased. The version before knows none of this, and acts for such
-- a user as for any other.
alter table sluice.account_user add column erase_at timestamptz;
-- Built by one pass over a narrow table, during which no user is created: less than half a second for
-- a million.
create index account_user_erasing on sluice.account_user (user_id) where erase_at is not null;
-- The keys of a user are rows of its account.
create index api_key_user on sluice.api_key (user_id) where user_id is not null;

-- Deletes rows of these owners (accounts or users) in all tables, at most about rows_max. Returns
-- their number; 0: there are none left; -1: another process does the same, and nothing was done.
-- Tables are found by their column account_id, so those of later migrations are covered; partitions
-- contain rows themselves, their parents do not. Keys that act for a user go first, then what a server
-- would continue by itself; depth 0 ends there. Depth 1 keeps the claims of runs under way, so that their
-- results are recorded and answered; depth 2 keeps nothing. The rows of `account` and `account_user` are
-- the caller's.
--
-- Each table is read once for all owners, and only one with rows is changed. All rows are deleted by
-- account_id; where they are too many, those of one owner by ctid, because a DELETE has no LIMIT: on a
-- cluster, the rows of one owner are on one node.
create function sluice.rows_erase(owners uuid[], rows_max bigint, depth bigint) returns bigint
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
    for part in
        select c.relname from pg_class c
        where c.relkind = 'r' and c.relnamespace = 'sluice'::regnamespace
          and c.relname not in ('account', 'account_user')
          and (depth > 0 or c.relname in ('connect_session', 'oauth_begun', 'flow'))
          and exists (select from pg_attribute a
                where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped)
        order by c.relname not in ('connect_session', 'oauth_begun', 'flow'), c.relname
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
