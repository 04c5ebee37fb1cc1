-- Sums of usage. Users and their keys may be very many, so runs of users are counted twice more: for all
-- users by key (user_id ffffffff-ffff-ffff-ffff-ffffffffffff) and by day (ffffffff-ffff-ffff-ffff-fffffffffffe,
-- whose key_id is nil). These rows remain when a user is erased. The version before writes none, so what
-- users did on its processes after this migration is seen by user alone.
insert into sluice.usage select t.account_id, t.day, t.key_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    sum(t.reads), sum(t.writes), sum(t.failed), sum(t.blocked), sum(t.flow_calls)
from sluice.usage t
where t.user_id not in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
group by t.account_id, t.day, t.key_id
on conflict do nothing;
insert into sluice.usage select t.account_id, t.day, '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-fffffffffffe',
    sum(t.reads), sum(t.writes), sum(t.failed), sum(t.blocked), sum(t.flow_calls)
from sluice.usage t
where t.user_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
group by t.account_id, t.day
on conflict do nothing;
-- A page of keys reads the rows of its own keys. Rows of users are not in it.
create index usage_key on sluice.usage (account_id, key_id, day)
    where user_id in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff');

-- As in 0036_webhooks.sql, with the usage that was written since the last pass. False: another process was
-- first.
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
    delete from sluice.api_key t where t.account_id = account_remove.account_id;
    delete from sluice.usage t where t.account_id = account_remove.account_id;
    delete from sluice.account_user t where t.account_id = account_remove.account_id;
    delete from sluice.account t where t.account_id = account_remove.account_id;
    return true;
end
$$;

-- As in 0035_account_erase_usage.sql, with a limit of the rows of usage: those of the first days of one user
-- if there are too many.
create or replace function sluice.rows_erase(owners uuid[], rows_max bigint, depth bigint) returns bigint
language plpgsql as $$
declare
    part name;
    which text;
    found_owners uuid[];
    found_count bigint;
    last_day timestamptz;
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
        select array_agg(distinct k.user_id), count(*) into found_owners, found_count
        from (select t.user_id from sluice.usage t
            where t.user_id = any(owners) and t.user_id <> '00000000-0000-0000-0000-000000000000'
            limit rows_max + 1) k;
        if found_count > rows_max then
            -- the first days of one user
            found_owners := found_owners[1:1];
            select max(k.day) into last_day from (select t.day from sluice.usage t
                where t.user_id = any(found_owners) order by t.day limit rows_max) k;
        end if;
        delete from sluice.usage t
        where t.user_id = any(found_owners) and (last_day is null or t.day <= last_day);
        get diagnostics gone = row_count;
        total := total + gone;
        if total >= rows_max then
            return total;
        end if;
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
