// Through PgBouncer in session mode: the session's settings take effect, although a pooler refuses
// them in the startup packet; notifications of changes arrive; and a pooler may die and come back.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { PooledCluster } from './support/pooler.mjs';
import { Running } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

let stack, account, server;
before(async () => {
  stack = await Stack.start({ cluster: PooledCluster });
  account = await stack.account('pooled', { apps: ['probe'] });
  server = await stack.serve({ args: ['--cache-time', '1h'] }); // notifications concern cached rows
});
after(() => stack?.stopWell(assert));

const connections = (key = account.key) => server.call(key, 'GET', '/api/connections');
const read = () => server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' });

test('commands, executions and flows work', async () => {
  assert.equal((await read()).status, 200);
  const { json } = await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'probe_wait', input: { seconds: 0 } });
  await until('the flow has ended', async () => (await server.call(account.key, 'GET', `/api/flows/${json.flowId}`)).json.flow.status === 'completed');
});

test('a lock wait lasts as long as the session’s settings say', async () => {
  const { bin, home } = stack.cluster;
  const text = 'begin; lock table sluice.connection in access exclusive mode; select pg_sleep(60)';
  const holder = new Running(`${bin}/psql`, ['-h', home, '-U', 'sluice', '-d', 'sluice', '-c', text]);
  const locked = () => stack.cluster.sql(`select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'sluice.connection'::regclass`);
  await until('the table is locked', async () => (await locked()) === '1');
  assert.equal((await connections()).status, 503);
  assert.equal(await locked(), '1');
  await holder.stop('SIGKILL');
  await stack.cluster.sql(`select pg_terminate_backend(pid) from pg_locks where mode = 'AccessExclusiveLock' and relation = 'sluice.connection'::regclass`);
  await until('the table is read again', async () => (await connections()).status === 200);
});

test('a change by another process is notified through it', async () => {
  const key = await stack.key(account.id);
  assert.equal((await connections(key)).status, 200);
  await stack.must(['keys', 'revoke', account.id, key.slice(0, 10)]);
  await until('the key is refused', async () => (await connections(key)).status === 401);
});

test('a pooler that dies and comes back', async () => {
  await stack.cluster.pooler.stop('SIGKILL');
  assert.equal((await connections()).status, 503);
  await stack.cluster.pooler.up();
  await until('it is served again', async () => (await connections()).status === 200);
  assert.equal((await read()).status, 200);
});
