-- That of 0036_webhooks.sql, for a cluster: Citus accepts no function that is not immutable within a CASE
-- or COALESCE of an UPDATE, neither now() nor the sum of a time and an interval. So no failure of an
-- endpoint was counted there. What it sets is now computed before.
create or replace function sluice.webhook_failed(account_id uuid, id uuid, url text, is_gone boolean,
    off_after_ms bigint, event_id uuid, audit_id uuid)
returns setof boolean
language plpgsql as $$
declare
    old record;
    is_off boolean;
    moment constant timestamptz = now();
    pause timestamptz;
begin
    select w.* into old from sluice.webhook w
    where w.account_id = webhook_failed.account_id and w.id = webhook_failed.id and w.off_at is null
      and w.url = webhook_failed.url
    for no key update;
    if not found then
        return;
    end if;
    is_off := is_gone or coalesce(old.failing_since < moment - off_after_ms * interval '1 millisecond', false);
    if old.failures >= 2 and not is_off then
        pause := moment + least(interval '1 hour',
            greatest(interval '5 seconds', (moment - old.failing_since) / 2));
    end if;
    update sluice.webhook w
    set failures = old.failures + 1, failing_since = coalesce(old.failing_since, moment),
        paused_until = pause, off_at = case when is_off then moment end,
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
            old.rev + 1, moment, json_build_object('webhook_id', old.id, 'account_id',
                webhook_failed.account_id, 'reason',
                case when is_gone then 'answered_410' else 'failing' end),
            'pending', 0, moment
        from sluice.webhook h
        where h.account_id = webhook_failed.account_id and h.id <> old.id and h.off_at is null
          and h.url is not null and (h.events is null or 'webhook.disabled' = any(string_to_array(h.events, ' ')))
        on conflict do nothing;
    end if;
    return next is_off;
end
$$;
