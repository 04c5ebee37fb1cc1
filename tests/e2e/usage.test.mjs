// GET /api/usage: the runs of each key and each user by day, from every process that has written its
// counts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const NAMES = ['reads', 'writes', 'failed', 'blocked', 'flow_calls'];
const NIL = '00000000-0000-0000-0000-000000000000', BY_KEY = NIL.replaceAll('0', 'f'), BY_DAY = BY_KEY.replace(/f$/, 'e'); // user ids of rows that sum users
let stack, server, account, other, bound;

const as = (user) => (user === undefined ? {} : { 'sluice-user': user });
async function usage(query = '', { key = account.key, status = 200, headers } = {}) {
  const reply = await server.call(key, 'GET', `/api/usage${query}`, undefined, headers);
  assert.equal(reply.status, status, reply.text);
  return reply.json;
}
const counts = (item) => NAMES.map((name) => item[name]);
// A server writes its counts when it stops, so no test waits for a minute.
async function restart() {
  await server?.stop();
  server = await stack.serve();
}
const key = (scopes, more = {}) => server.call(account.key, 'POST', '/api/keys', { name: `may ${scopes}`, scopes, ...more }).then(({ json }) => json);

before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('usage', { apps: ['gmail'] });
  other = await stack.account('other', { apps: ['gmail'] });
  server = await stack.serve();
  const [{ id }] = (await server.call(account.key, 'GET', '/api/connections')).json.connections;
  assert.equal((await server.call(account.key, 'PATCH', `/api/connections/${id}`, { shared: true })).status, 200);
  bound = await key(['read', 'execute'], { user: 'bo' });
});
after(() => stack?.stopWell(assert));

const SEND = { to: ['a@example.com'], subject: 's', text: 't' };
const run = (at, by, user, action_id, input, more) => at.call(by, 'POST', '/api/executions', { integration_id: 'gmail', action_id, input, ...more }, as(user));
// Three reads, one of which fails, a write, and what is blocked; a replay and a dry run, which are not counted.
async function runs(at, by, user) {
  const statuses = [];
  const send = async (...args) => statuses.push((await run(at, by, user, ...args)).status);
  for (let i = 0; i < 2; i++) await send('list_labels', {});
  await send('get_message', { id: 'ffffffffffffffff' });
  for (let i = 0; i < 2; i++) await send('send_message', SEND, { confirm: true, idempotency_key: 'once' });
  await send('send_message', SEND);
  await send('list_labels', {}, { dry_run: true });
  assert.deepEqual(statuses, [200, 200, 500, 200, 200, 409, 200]);
}
const ONCE = [3, 1, 1, 1, 0];

test('counts are what was run, by key and by user, over two processes', async () => {
  const second = await stack.serve();
  await runs(server, account.key);
  await runs(second, account.key, 'ada');
  await runs(server, bound.key);
  await runs(second, other.key);
  const { flowId } = (await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_summary', input: { maxResults: 1 } }, as('ada'))).json;
  await until('the flow has ended', async () => (await server.call(account.key, 'GET', `/api/flows/${flowId}`, undefined, as('ada'))).json.flow.status === 'completed');
  await second.stop();
  await restart();
  const byUser = (await usage('?by=user')).items;
  assert.deepEqual(byUser.map(({ user }) => user), ['ada', 'bo', null]);
  const [, , , , calls] = counts(byUser[0]);
  assert.ok(calls > 0);
  assert.deepEqual(byUser.map(counts), [[3 + calls, 1, 1, 1, calls], ONCE, ONCE]);
  const byKey = (await usage('?by=key')).items;
  const id = (await server.call(account.key, 'GET', '/api/keys/self')).json.id;
  assert.deepEqual(byKey.map(({ key_id, key_name }) => [key_id, key_name]), [[id, byKey[0].key_name], [bound.id, bound.name]]);
  assert.deepEqual(byKey.map(counts), [[6 + calls, 2, 2, 2, calls], ONCE]);
  const ofKey = (query) => usage(`?by=day&key_id=${query}`).then(({ items }) => NAMES.map((name) => items.reduce((sum, item) => sum + item[name], 0)));
  assert.deepEqual(await Promise.all([id, bound.id, crypto.randomUUID()].map(ofKey)), [[6 + calls, 2, 2, 2, calls], ONCE, [0, 0, 0, 0, 0]]);
  // durations: of days and keys, not of users
  const timed = (item) => 'p95_ms' in item && item.p50_ms >= 0 && item.p95_ms >= item.p50_ms;
  assert.ok(byKey.every(timed), JSON.stringify(byKey));
  assert.ok(byUser.every((item) => !('p50_ms' in item) && !('p95_ms' in item)), JSON.stringify(byUser));
  assert.ok((await usage(`?key_id=${id}`)).items.every(timed));
  const timedRuns = (where) => stack.cluster.sql(`select sum(n) from sluice.usage, unnest(buckets) n where account_id = '${account.id}' and user_id ${where}`);
  assert.equal(await timedRuns(`in ('${BY_KEY}', '${NIL}')`), String(12 + calls));
  assert.equal(await timedRuns(`= '${BY_DAY}'`), String(8 + calls));
  const today = new Date().toISOString().slice(0, 10);
  const byDay = await usage();
  assert.ok(byDay.items.every(timed));
  assert.equal(byDay.to, today);
  assert.deepEqual(NAMES.map((name) => byDay.items.reduce((sum, item) => sum + item[name], 0)), [9 + calls, 3, 3, 3, calls]);
  assert.deepEqual((await usage('', { key: other.key })).items.map(counts).at(-1), ONCE);
});

// Its state is asked for five times, and its result three times.
test('a call that waited for an approval is one blocked run, and one of the key that asked', async () => {
  const holding = await stack.account('holding', { apps: ['gmail'] });
  const own = (method, path, body, user) => server.call(holding.key, method, path, body, as(user));
  const [{ id }] = (await own('GET', '/api/connections')).json.connections;
  assert.equal((await own('PATCH', `/api/connections/${id}`, { shared: true })).status, 200);
  const policy = { default: 'allow', rules: [{ side_effect: ['write'], decision: 'hold' }] };
  assert.ok((await own('PUT', '/api/policies/asks', { policy })).status < 300);
  const asker = (await own('POST', '/api/keys', { name: 'asks', policy: 'asks', scopes: ['execute'] })).json;
  const ask = () => run(server, asker.key, 'ada', 'send_message', SEND);
  const flow = (await ask()).json.approval.flow_id;
  for (let i = 0; i < 4; i++) assert.equal((await ask()).json.approval.flow_id, flow);
  await until('it is approved', async () => (await own('POST', `/api/flows/${flow}/approve`, {}, 'ada')).status === 200);
  await until('the flow has ended', async () => (await own('GET', `/api/flows/${flow}`, undefined, 'ada')).json.flow.status === 'completed');
  for (let i = 0; i < 3; i++) assert.equal((await ask()).status, 200);
  await restart();
  const of = (by) => usage(`?by=${by}`, { key: holding.key }).then(({ items }) => items);
  assert.deepEqual((await of('user')).map(({ user, ...item }) => [user, ...counts(item)]), [['ada', 0, 1, 0, 1, 0]]);
  assert.deepEqual((await of('key')).map(({ key_id, ...item }) => [key_id, ...counts(item)]), [[asker.id, 0, 1, 0, 1, 0]]);
});

// The version before writes rows without durations. What is added to such a row has those of the new runs.
test('durations are of the runs that have them', async () => {
  const mixed = await stack.account('mixed', { apps: ['gmail'] });
  const day = `date_trunc('day', now() at time zone 'UTC') at time zone 'UTC'`;
  const { id } = (await server.call(mixed.key, 'GET', '/api/keys/self')).json;
  const items = async (by) => (await usage(`?by=${by}`, { key: mixed.key })).items.map(({ reads, p50_ms, p95_ms }) => [reads, p50_ms, p95_ms]);
  await stack.cluster.sql(`insert into sluice.usage (account_id, day, key_id, user_id, reads, writes, failed, blocked, flow_calls) select '${mixed.id}', ${day} - n * interval '1 day', '${id}', '${NIL}', 100, 0, 0, 0, 0 from generate_series(0, 1) n`);
  assert.deepEqual(await items('day'), [[100, null, null], [100, null, null]]);
  assert.equal((await run(server, mixed.key, undefined, 'list_labels', {})).status, 200);
  await restart();
  const [before, today] = (await items('day')).slice(-2);
  assert.deepEqual(before.slice(1), [null, null]);
  assert.ok(today[1] >= 0 && today[2] >= today[1], String(today));
  // known durations: 15 runs of 20 to 40 ms, 5 of 1 to 2 s
  await stack.cluster.sql(`update sluice.usage set buckets = '{0,0,15,0,0,0,0,0,0,0,0,5,0,0,0,0}' where account_id = '${mixed.id}'`);
  for (const by of ['day', 'key']) for (const [, p50, p95] of await items(by)) assert.deepEqual([p50, p95], [33, 1800], by);
});

test('pages, and dates', async () => {
  await stack.cluster.sql(`insert into sluice.usage select '${account.id}', date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' - n * interval '1 day', '${bound.id}', user_id, 1, 0, 0, 0, 0 from generate_series(40, 44) n, sluice.account_user where account_id = '${account.id}';
    insert into sluice.usage select account_id, day, case when is_by_key then key_id else '${NIL}' end, case when is_by_key then '${BY_KEY}' else '${BY_DAY}' end::uuid, sum(reads), 0, 0, 0, 0
      from sluice.usage, unnest(array[true, false]) is_by_key where account_id = '${account.id}' and day < now() - interval '30 days' group by 1, 2, 3, 4`);
  const day = (n) => new Date(Date.now() - n * 86_400_000).toISOString().slice(0, 10);
  const range = `from=${day(44)}&to=${day(41)}`;
  for (const by of ['user', 'key', 'day']) {
    const whole = await usage(`?by=${by}&${range}`);
    assert.deepEqual([whole.from, whole.to, whole.next_cursor], [day(44), day(41), null]);
    const items = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await usage(`?by=${by}&${range}&limit=1${cursor && `&cursor=${cursor}`}`);
      assert.ok(page.items.length <= 1);
      items.push(...page.items);
      cursor = page.next_cursor;
    }
    assert.deepEqual(items, whole.items, by);
    assert.equal(items.reduce((sum, { reads }) => sum + reads, 0), 8, by);
  }
  assert.deepEqual((await usage(`?${range}`)).items.map((item) => item.day), [44, 43, 42, 41].map(day));
  const paged = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = await usage(`?by=user&limit=1${cursor && `&cursor=${cursor}`}`);
    paged.push(...page.items);
    cursor = page.next_cursor;
  }
  assert.deepEqual(paged.map(({ user }) => user), ['ada', 'bo', null]);
  assert.equal((await usage(`?from=${day(91)}`)).from, day(91));
  for (const query of ['by=app', 'from=x', 'from=2026-02-30', 'to=2026-1-1', 'from=', `from=${day(92)}`, `from=${day(1)}&to=${day(2)}`, 'cursor=x', 'by=key&cursor=x', 'by=user&cursor=%20', 'limit=0', 'From=2026-01-01']) {
    const reply = await server.call(account.key, 'GET', `/api/usage?${query}`);
    if (query === 'from=') assert.equal(reply.status, 200); // as if it were left out
    else assert.ok(reply.status === 400 && reply.json.error.length > 10, `${query} ${reply.text}`);
  }
});

test('a page by user reads a thousand users', async () => {
  await stack.cluster.sql(`insert into sluice.account_user select '${other.id}', 'u' || n, gen_random_uuid(), now() from generate_series(1001, 2100) n;
    insert into sluice.usage select account_id, now(), user_id, user_id, 7, 0, 0, 0, 0 from sluice.account_user where account_id = '${other.id}' and external_id in ('u1001', 'u2000', 'u2050')`);
  const page = async (query) => {
    const { items, next_cursor } = await usage(`?by=user${query}`, { key: other.key });
    return [items.map(({ user }) => user), next_cursor];
  };
  assert.deepEqual(await page(''), [['u1001', 'u2000'], 'u2000']);
  assert.deepEqual(await page('&cursor=u2000'), [['u2050', null], null]);
  assert.deepEqual(await page('&cursor=u1001&limit=1'), [['u2000'], 'u2000']);
  assert.deepEqual(await page('&cursor=u1050'), [['u2000', 'u2050'], 'u2050']);
  assert.deepEqual(await page('&cursor=u2050'), [[null], null]);
});

test('it is the account’s to see, with the scope admin', async () => {
  assert.match((await usage('', { status: 400, headers: as('ada') })).error, /Sluice-User/);
  await usage('', { status: 403, key: bound.key });
  await usage('', { status: 403, key: (await key(['read', 'execute', 'approve'])).key });
});

test('a process that is killed loses what it has not written, and no more', async () => {
  await restart();
  const before = (await usage('?by=user')).items;
  for (let i = 0; i < 3; i++) assert.equal((await run(server, account.key, undefined, 'list_labels', {})).status, 200);
  server.process.kill('SIGKILL');
  assert.equal((await server.process.gone).signal, 'SIGKILL');
  stack.forget(server);
  server = await stack.serve();
  const after = (await usage('?by=user')).items;
  assert.deepEqual(after.slice(0, -1), before.slice(0, -1));
  const lost = before.at(-1).reads + 3 - after.at(-1).reads;
  assert.ok(lost >= 0 && lost <= 3, lost);
});

test('rows end with their user, and by age', async () => {
  const rows = (where) => stack.cluster.sql(`select count(*) from sluice.usage where account_id = '${account.id}' and ${where}`);
  const bo = await stack.cluster.sql(`select user_id from sluice.account_user where external_id = 'bo'`);
  assert.notEqual(await rows(`user_id = '${bo}'`), '0');
  await stack.cluster.sql(`insert into sluice.usage values ('${account.id}', now() - interval '401 days', '${bound.id}', '${NIL}', 1, 0, 0, 0, 0)`);
  assert.equal((await run(server, bound.key, undefined, 'list_labels', {})).status, 200); // which is not written yet
  assert.equal((await server.call(account.key, 'DELETE', '/api/users/bo')).status, 202);
  await until('the rows are deleted', async () => (await rows(`user_id = '${bo}'`)) === '0');
  await until('the user has a time', async () => (await stack.cluster.sql(`select count(*) from sluice.account_user where external_id = 'bo' and erase_at < now() + interval '1 year'`)) === '1');
  await server.stop(); // it writes its counts, which come too late
  assert.equal(await rows(`user_id = '${bo}'`), '0');
  server = await stack.serve();
  const ofKey = (await usage('?by=key')).items.find(({ key_id }) => key_id === bound.id);
  assert.deepEqual([ofKey.key_name, ...counts(ofKey)], [null, ONCE[0] + 1, ...ONCE.slice(1)]);
  assert.deepEqual((await usage('?by=user')).items.map(({ user }) => user), ['ada', null]);
  await until('the old row is removed', async () => (await rows(`day < now() - interval '1 year'`)) === '0');
  assert.notEqual(await rows('true'), '0');
});
