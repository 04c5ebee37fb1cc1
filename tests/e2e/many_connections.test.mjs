// An account with more connections than a page or a choice lists: each of them can be used by its
// id, the default may be at any position, lists continue to the end, and an app's state counts all
// of them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Pages, linkOf } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const MANY = 1100;
const GOOD = { token: 'ya29.demo-gmail-full' };

let stack, server, account, last;
before(async () => {
  stack = await Stack.start();
  server = await stack.serve();
  account = await stack.account('crowd', { apps: [] });
  const { id } = account;
  // all are older than the only real connection: they have no valid credentials
  await stack.cluster.sql(`insert into sluice.connection (account_id, id, integration_id, label, is_default, auth_kind,
      sealed, key_id, params, status, rev, op_token, created_at, updated_at)
    select '${id}', n, 'probe', 'user ' || n, false, 'bearer', '', '', '{}', 'live', 1, gen_random_uuid(), now(), now()
    from generate_series(1, ${MANY}) n`);
  last = await stack.connect(id, 'probe', GOOD, ['--label', 'the last', '--default']);
  await stack.connect(id, 'notion', { access_token: 'ntn_demo_notion' });
});
after(() => stack?.stopWell(assert));

const get = (path) => server.call(account.key, 'GET', path);
const run = (connectionId) =>
  server.call(account.key, 'POST', '/api/tools/probe_read_label/execute', { arguments: { id: 'INBOX' }, connectionId });

async function listed(query) {
  const found = [];
  let cursor = '';
  for (;;) {
    const page = await get(`/api/connections?${query}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    assert.equal(page.status, 200, page.text);
    found.push(...page.json.connections);
    assert.ok(found.length <= MANY + 10 && page.json.next_cursor !== undefined);
    if (page.json.next_cursor === null) return found;
    cursor = page.json.next_cursor;
  }
}

test('one after the thousandth works, as the default and by its id', async () => {
  const byDefault = await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(byDefault.status, 200, byDefault.text);
  const named = await run(last);
  assert.equal(named.status, 200, named.text);
  assert.equal(named.json.ok, true);
  await stack.must(['connections', 'default', account.id, '7']);
  const again = await run(last); // `last` is no longer the default
  assert.equal(again.status, 200, again.text);
  const link = { integration_id: 'probe', connection_id: last };
  assert.equal((await server.call(account.key, 'POST', '/api/connect/sessions', link)).status, 201);
  assert.equal((await server.call(account.key, 'POST', '/api/connect/sessions', { ...link, integration_id: 'notion' })).status, 404);
});

test('several first connections are added at once: all are stored, and one is the default', async () => {
  for (const args of [[], ['--default']]) {
    const { id } = await stack.account(`at once ${args}`, { apps: [] });
    const ids = await Promise.all(Array.from({ length: 6 }, () => stack.connect(id, 'probe', GOOD, args)));
    assert.equal(new Set(ids).size, 6);
    await Promise.all(ids.map((one) => stack.must(['connections', 'default', id, String(one)])));
    assert.equal(await stack.cluster.sql(`select count(*), count(*) filter (where is_default) from sluice.connection where account_id = '${id}'`), '6|1');
  }
});

test('a connection of another app or account is not found', async () => {
  const [notion] = (await get('/api/connections?integration_id=notion')).json.connections;
  for (const id of [notion.id, String(MANY + 1), '9007199254740991']) {
    const refused = await run(id);
    assert.equal(refused.status, 409, refused.text);
    assert.equal(refused.json.canonical.error_code, 'integration_not_connected');
  }
});

test('a change takes effect at once', async () => {
  const path = `/api/connections/${last}`;
  assert.equal((await server.call(account.key, 'PATCH', path, { default: true })).status, 200);
  assert.equal((await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' })).status, 200);
  const spare = await stack.connect(account.id, 'probe', GOOD, ['--label', 'spare']);
  assert.equal((await run(spare)).status, 200);
  assert.equal((await server.call(account.key, 'DELETE', `/api/connections/${spare}`)).status, 200);
  assert.equal((await run(spare)).status, 409);
});

test('a list continues from page to page, with each connection once', async () => {
  const own = await listed('integration_id=probe');
  assert.deepEqual(own.map((one) => one.id), [...Array.from({ length: MANY }, (_, i) => String(i + 1)), last]);
  assert.deepEqual(own.filter((one) => one.default).map((one) => one.id), [last]);
  const all = await listed('limit=99');
  assert.equal(all.length, MANY + 2);
  assert.equal(all[0].integration_id, 'notion');
  assert.equal((await get('/api/connections?limit=1')).json.connections.length, 1);
  assert.equal((await get('/api/connections?limit=1&integration_id=gmail')).json.next_cursor, null);
  for (const wrong of ['limit=0', 'limit=x', 'cursor=x', 'cursor=probe:x', 'integration_id=probe&cursor=notion:5']) {
    const refused = await get(`/api/connections?${wrong}`);
    assert.equal(refused.status, 400, wrong);
    assert.match(refused.json.error, /limit|cursor/);
  }
  const rows = JSON.parse(await stack.must(['connections', 'list', account.id, '--json']));
  assert.equal(rows.length, MANY + 2);
});

test('the state of an app counts all of them', async () => {
  const state = async (app) => (await get('/api/integrations?page_size=100')).json.items.find((one) => one.integration_id === app).connection_state;
  assert.equal(await state('probe'), 'connected');
  await stack.cluster.sql(`update sluice.connection set is_default = false where account_id = '${account.id}'`);
  assert.equal(await state('probe'), 'ambiguous');
  assert.equal(await state('notion'), 'connected');
  let refused;
  await until('the cache has expired', async () => (refused = await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' })).status === 409);
  assert.equal(refused.json.error_code, 'policy_blocked');
  assert.match(refused.json.hint, /one of 1, 2, .*, 10\./);
  // all earlier connections are dead, so the only live connection is used
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'gone' where account_id = '${account.id}' and id <= ${MANY}`);
  assert.equal(await state('probe'), 'connected');
  await until('the one that lives is used', async () => (await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' })).status === 200);
  await stack.cluster.sql(`update sluice.connection set is_default = true where account_id = '${account.id}' and id = ${MANY}`);
  assert.equal(await state('probe'), 'reauth_required');
});

test('the dashboard shows pages, the default first', async () => {
  const pages = new Pages(server.base);
  assert.equal((await pages.signIn(account.key)).status, 200);
  let page = await pages.go('/integrations/probe');
  assert.ok(page.text.indexOf(`/connections/${MANY}"`) < page.text.indexOf('/connections/1"'), 'the default is not first');
  assert.ok(!page.text.includes('/connections/51"'));
  const seen = new Set();
  const note = () => [...page.text.matchAll(/href="\/connections\/(\d+)"/g)].forEach(([, id]) => seen.add(id));
  for (note(); page.text.includes('More connections'); note()) page = await pages.go(linkOf(page.text, 'More connections'));
  assert.equal(seen.size, MANY + 1);
  assert.equal((await pages.go(`/connections/${last}`)).status, 200);
  const overview = await pages.go('/');
  page = await pages.go('/connections');
  assert.ok(overview.text.includes('href="/connections"') && page.text.includes('More connections'));
  assert.equal((await pages.go('/connections?after=x')).status, 404);
});
