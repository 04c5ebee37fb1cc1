// More events than a server lets wait: one server, whose busy endpoints hold every place and every
// place to wait. webhook_delivery.test.mjs has the rest of what endpoints are sent.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const SENDING_MAX = 64, WAITING_MAX = 4000; // src/event/outbox.c
const ACCOUNTS = 5, ENDPOINTS = 10, EVENTS = 90; // less than an endpoint lets wait
const BACKLOG = 50_000;
let stack, server, receiver, isHeard;
const held = []; // answers that endpoints owe
let slow = 0;

before(async () => {
  stack = await Stack.start();
  receiver = await Scripted.start((request, reply) => {
    if (request.url.startsWith('/quick')) {
      isHeard = request.url;
      return reply.writeHead(204).end();
    }
    slow++;
    held.push(() => reply.writeHead(204).end());
  });
  server = await stack.serve({ args: ['--webhook-host', '127.0.0.1', '--webhook-timeout', '60s'] });
});
after(async () => {
  await receiver?.stop();
  await stack?.stopWell(assert);
});

const sql = (text) => stack.cluster.sql(text);
const listen = async (key, path) => {
  const reply = await server.call(key, 'POST', '/api/webhooks', { url: receiver.url + path });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.id;
};

test('busy endpoints hold all places: an event of another account waits for one of the next', async () => {
  const busy = [];
  for (let at = 0; at < ACCOUNTS; at++) {
    const { id, key } = await stack.account(`busy ${at}`, { apps: [] });
    for (let n = 0; n < ENDPOINTS; n++) busy.push(`('${id}'::uuid, '${await listen(key, `/slow${at}${n}`)}'::uuid)`);
  }
  const account = await stack.account('quick');
  await listen(account.key, '/quick');
  await sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at)
    select b.account_id, gen_random_uuid(), b.webhook_id, 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 0, now() - interval '10 minutes'
    from (values ${busy}) b (account_id, webhook_id), generate_series(1, ${EVENTS})`);
  const over = ACCOUNTS * ENDPOINTS * EVENTS - SENDING_MAX - WAITING_MAX - ENDPOINTS * ACCOUNTS;
  await until('the events without a place to wait are put off', async () => Number(await sql('select count(*) from sluice.delivery where attempt = 0 and due_at > at')) >= over);
  // those that wait for a slow endpoint are not late
  await until('the metric leaves out what waits', async () => Number((await server.metrics()).match(/^sluice_due_overdue_seconds\{of="delivery"\} (\S+)/m)[1]) < 60);
  const reply = await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'quick' } });
  assert.equal(reply.status, 200, reply.text);
  await until('its event is written', async () => (await sql(`select count(*) from sluice.delivery where account_id = '${account.id}'`)) === '1');
  for (let ended = 0; ended < SENDING_MAX && !isHeard; ended++) {
    const before = slow;
    (await until('an answer is owed', () => held.shift()))();
    await until('a place is taken again', () => isHeard || slow > before);
  }
  assert.ok(isHeard, `not after ${SENDING_MAX} others`);
  await sql('delete from sluice.delivery');
  for (const answer of held.splice(0)) answer();
});

// Those that can neither be sent nor wait are put off, which takes a hundred statements, here slow
// ones. The event of another account, which only a scan finds and which was due last, does not wait
// for them.
test('very many events of endpoints that hang: an event of another account does not wait until they are put off', async () => {
  const { id: owner, key } = await stack.account('hanging', { apps: [] });
  const hooks = [];
  for (let n = 0; n < ENDPOINTS; n++) hooks.push(await listen(key, `/hangs${n}`));
  const account = await stack.account('quick too', { apps: [] });
  const quick = await listen(account.key, '/quick-too');
  const add = (of, ids, count) =>
    sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at)
      select '${of}', gen_random_uuid(), w, 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 0, now()
      from unnest(array['${ids.join("','")}']::uuid[]) w, generate_series(1, ${count})`);
  await sql(`create function public.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.001); return new; end';
    create trigger slow before update on sluice.delivery for each row when (new.attempt = old.attempt) execute function public.slow()`);
  await add(owner, hooks, BACKLOG / ENDPOINTS);
  await add(account.id, [quick], 1);
  await until('the event arrives', () => isHeard === '/quick-too');
  const left = Number(await sql(`select count(*) from sluice.delivery where account_id = '${owner}' and attempt = 0 and due_at = at`));
  assert.ok(left > BACKLOG / 2, `only ${left} of ${BACKLOG} were still to be put off`);
  await sql('drop trigger slow on sluice.delivery; delete from sluice.delivery');
  for (const answer of held.splice(0)) answer();
});

// What is put off would come back after an hour here, so only the server that has put it off sends
// it: as soon as the endpoint has accepted what waited.
test('more events than may wait, of an endpoint that accepts them: all arrive at once', async () => {
  const COUNT = 700;
  const { id, key } = await stack.account('burst', { apps: [] });
  const hook = await listen(key, '/quick-burst');
  await sql(`create function public.later() returns trigger language plpgsql as 'begin new.due_at = now() + interval ''1 hour''; return new; end';
    create trigger later before update on sluice.delivery for each row when (new.attempt = old.attempt and old.status = 'pending' and new.status = 'pending') execute function public.later()`);
  await sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at)
    select '${id}', overlay(gen_random_uuid()::text placing '0199' from 1)::uuid, '${hook}', 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 0, now() from generate_series(1, ${COUNT})`);
  const arrive = (attempt, count = COUNT) => until('all are delivered', async () => (await sql(`select count(*) from sluice.delivery where webhook_id = '${hook}' and status = 'delivered' and attempt = ${attempt}`)) === String(count));
  await arrive(1);
  // so do those of last night that are sent again
  await sql(`update sluice.delivery set status = 'failed', attempt = 10, at = now() - interval '9 hours' where webhook_id = '${hook}'`);
  const again = await server.call(key, 'POST', `/api/webhooks/${hook}/replay`, { since: '2025-01-01T00:00:00Z' });
  assert.deepEqual([again.status, again.json.count], [202, COUNT]);
  await arrive(11);
  // and those that a pause has put off, once a message is accepted again
  await sql(`update sluice.webhook set failures = 3, failing_since = now() where id = '${hook}';
    insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at)
      select '${id}', gen_random_uuid(), '${hook}', 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 0, now() + (n > 1)::int * interval '1 hour' from generate_series(1, 200) n`);
  await arrive(1, 200);
  await sql('drop trigger later on sluice.delivery; drop function public.later()');
});
