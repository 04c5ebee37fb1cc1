// Every server learns without delay of a change by an operator command or another process. Both
// servers here would use their caches for an hour, so they see a change only if they are notified.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, servers, account;
before(async () => {
  stack = await Stack.start({ catalog: false, tokens: ['gmail=ya29.second'] });
  account = await stack.account('changing', { apps: ['gmail', 'notion'] });
  const args = ['--cache-time', '1h'];
  servers = [await stack.serve({ args }), await stack.serve({ args })];
});
after(() => stack?.stopWell(assert));

const statuses = (key) =>
  Promise.all(servers.map(async (one) => (await one.call(key, 'GET', '/api/integrations')).status));
const seen = (what, key, status) =>
  until(what, async () => (await statuses(key)).every((one) => one === status));
const run = (server, action = 'list_labels', app = 'gmail') => server.execute(account.key, app, action, {});

test('a revoked key', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  assert.deepEqual(await statuses(key), [200, 200]);
  await stack.must(['keys', 'revoke', account.id, id]);
  await seen('both refuse the key', key, 401);
  assert.deepEqual(await statuses(account.key), [200, 200]);
});

test('a disabled account, enabled again', async () => {
  const other = await stack.account('not disabled', { apps: [] });
  assert.deepEqual([await statuses(account.key), await statuses(other.key)], [[200, 200], [200, 200]]);
  await stack.must(['accounts', 'disable', account.id]);
  await seen('both refuse the account', account.key, 401);
  assert.deepEqual(await statuses(other.key), [200, 200]);
  await stack.must(['accounts', 'enable', account.id]);
  await seen('both accept it again', account.key, 200);
});

test('the policy of a key, and that of all keys without one', async () => {
  const admin = (method, path, body) => servers[0].call(account.key, method, path, body);
  const set = async (name, policy) => assert.equal((await admin('PUT', `/api/policies/${name}`, { policy })).status, 200);
  const [allows, denies] = ['allow', 'deny'].map((decision) => ({ default: decision, rules: [] }));
  await set('changing', allows);
  const { key } = (await admin('POST', '/api/keys', { name: 'bound', scopes: ['read', 'execute'], policy: 'changing' })).json;
  const both = (what, of, status) =>
    until(what, async () => (await Promise.all(servers.map((one) => one.execute(of, 'gmail', 'list_labels', {})))).every((one) => one.status === status));
  await both('both allow', key, 200);
  await set('changing', denies);
  await both('both deny', key, 409);
  const file = join(stack.dir, 'policy.json');
  await writeFile(file, JSON.stringify(allows));
  await stack.must(['policy', 'set', account.id, 'changing', file]);
  await both('both allow again', key, 200);
  await both('without a policy', account.key, 200);
  await set('default', denies);
  await both('both have the policy of all', account.key, 409);
  await both('but a key has its own', key, 200);
  assert.equal((await admin('DELETE', '/api/policies/default')).status, 200);
  await both('both have none again', account.key, 200);
});

test('connections removed, added, made the default', async () => {
  for (const server of servers) assert.equal((await run(server)).status, 200);
  const listed = JSON.parse(await stack.must(['connections', 'list', account.id, '--json']));
  const first = listed.find((one) => one.integration_id === 'gmail').id;
  await stack.must(['connections', 'remove', account.id, first]);
  for (const server of servers)
    await until('it is removed', async () => (await run(server)).json.error_code === 'integration_not_connected');
  await stack.connect(account.id, 'gmail', { access_token: 'ya29.second' });
  for (const server of servers) await until('it is added', async () => (await run(server)).status === 200);
  const dead = await stack.connect(account.id, 'gmail', { access_token: 'ya29.nobody' });
  await stack.must(['connections', 'default', account.id, dead]);
  for (const server of servers)
    await until('the new default is used', async () => (await run(server)).json.error_code === 'reauth_required');
});

test('a connection that another process has found dead', async () => {
  for (const server of servers) assert.equal((await run(server, 'get_self', 'notion')).status, 200);
  const before = (await stack.provider.control('GET', '/counters')).requests;
  await stack.provider.faults([{ match: { path_prefix: '/v1/' }, count: 1, action: { status: 401 } }]);
  const found = await run(servers[0], 'get_self', 'notion');
  assert.equal(found.status, 409, found.text);
  await until('the other server knows it', async () => (await run(servers[1], 'get_self', 'notion')).status === 409);
  const told = await run(servers[1], 'get_self', 'notion');
  assert.deepEqual([told.json.error_code, told.json.execution_id], ['reauth_required', null]);
  const asked = (await stack.provider.control('GET', '/counters')).requests - before;
  const passed = (await servers[1].metrics()).match(/sluice_changes_total (\d+)/);
  assert.ok(asked >= 1 && Number(passed[1]) > 0);
});

test('a server that missed hints drops its caches when it gets hints again', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  assert.deepEqual(await statuses(key), [200, 200]);
  // the change is committed in the same transaction that ends both connections, so neither server
  // can have been notified
  const cut = await stack.cluster.sql(
    `begin; update sluice.api_key set revoked_at = now() where id = '${id}';
     select count(pg_terminate_backend(pid)) from pg_stat_activity 
     where query ilike 'listen %' or query ilike 'select pg_notify(%'; commit`,
  );
  assert.equal(cut, '2');
  await seen('both listen again', key, 401);
});
