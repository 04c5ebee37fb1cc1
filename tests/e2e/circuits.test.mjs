// Circuits between accounts (contrib/deploy/README.md, circuit-accounts): an account is not blocked
// by the circuits of others, and only a few probes call an origin that fails for most accounts.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const VOLUME = 20;
const APP = 'https://app.example.com';

let stack, provider, server, failing;
const accounts = {};
const names = ['one', 'two', 'three', 'victim', 'quiet'];

before(async () => {
  stack = await Stack.start({ provider: false });
  provider = await Scripted.start((request, reply, url) => {
    const fails = failing.down || request.headers.authorization === 'down' || url.searchParams.get('q') === 'fail';
    reply.writeHead(fails ? 500 : 200, { 'content-type': 'application/json' }).end('{"ok":true}');
  });
  const q = { type: 'string', description: 'Anything.' };
  const request = { method: 'GET', path: '/read', headers: { 'x-one': '${input.q}', 'x-two': '${input.q}', 'x-three': '${input.q}' } };
  stack.catalog = await writeCatalog(stack.dir, { app: { actions: { read: {}, long: { input_schema: { type: 'object', additionalProperties: false, properties: { q } }, request } } } });
  for (const name of names) accounts[name] = await stack.account(name, { apps: [] });
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});
beforeEach(async () => {
  failing = { down: false };
  await server?.stop(); /* circuits belong to a process */
  server = await stack.serve({
    env: { SLUICE_CATALOG: stack.catalog, SLUICE_CONNECTION_LIMITS: 'off' },
    args: [...overrides(provider.url, 'app'), '--circuit-volume', String(VOLUME), '--circuit-open', '1m'],
  });
});

const run = (name, input = {}, integration = 'app') => server.execute(accounts[name].key, integration, 'read', input);
const times = (count, fn) => Promise.all(Array.from({ length: count }, fn));
const gauge = async () => {
  const lines = (await server.metrics()).split('\n').filter((line) => line.startsWith('sluice_circuit_open{'));
  return lines.map((line) => line.replace('sluice_circuit_open', ''));
};
const succeeded = (replies) => replies.filter((reply) => reply.status === 200).length;

test('one account that fails does not harm a quiet one', async () => {
  await times(VOLUME * 3, () => run('one', { q: 'fail' }));
  assert.equal((await run('one')).status, 409);
  assert.equal(succeeded(await times(5, () => run('quiet'))), 5);
});

test('two accounts that fail do not harm others', async () => {
  const replies = [];
  for (let i = 0; i < 33; i++) {
    const attack = ['one', 'two', 'one', 'two', 'one', 'two'].map((name) => run(name, { q: 'fail' }));
    replies.push(...(await times(3, () => run('victim'))));
    await Promise.all(attack);
  }
  assert.equal(succeeded(replies), 99);
  assert.equal(succeeded(await times(5, () => run('quiet'))), 5);
  assert.deepEqual((await gauge()).filter((line) => line.endsWith(' 1')), []);
});

test('three that fail do not block one that is served', async () => {
  assert.equal((await run('victim')).status, 200);
  for (let i = 0; i < 10; i++) {
    await Promise.all(['one', 'two', 'three'].map((name) => times(3, () => run(name, { q: 'fail' }))));
    assert.equal(succeeded(await times(5, () => run('victim'))), 5);
  }
});

test('an app that fails most accounts is not called by any account', async () => {
  failing.down = true;
  for (let i = 0; i < 8; i++) await Promise.all(['one', 'two', 'three'].map((name) => run(name)));
  const before = provider.seen['/read'];
  const reply = await run('quiet');
  assert.deepEqual([reply.status, reply.json.error_code], [409, 'execution_failed'], reply.text);
  assert.match(reply.json.message, /^Calls to https:\/\/app\.example\.com kept failing/);
  assert.ok(Number(reply.headers.get('retry-after')) >= 1);
  assert.equal(provider.seen['/read'], before);
  assert.deepEqual(await gauge(), [`{origin="${APP}"} 1`]);
});

// The head of the request would be too large, so no request was sent to the app.
test('a call that this server refuses to send is not a vote', async () => {
  const LONG = 'x'.repeat(12_000);
  const replies = [];
  for (let i = 0; i < 8; i++) replies.push(...(await Promise.all(['one', 'two', 'three'].map((name) => server.execute(accounts[name].key, 'app', 'long', { q: LONG })))));
  assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [500], replies[0].text);
  assert.match(replies[0].json.message, /the request's head is larger/);
  assert.equal(succeeded(await times(5, () => run('quiet'))), 5);
  assert.equal(succeeded(await times(5, () => run('one'))), 5);
  assert.deepEqual(await gauge(), []);
});

test('if one account is alone on a server, its failures block the app for it', async () => {
  failing.down = true;
  await times(VOLUME, () => run('one'));
  assert.equal((await run('one')).status, 409);
  assert.deepEqual(await gauge(), [`{origin="${APP}"} 1`]);
});

test('the integration http has its own circuits, by account, and its hosts are not labels', async () => {
  const http = ['one', 'two', 'three'];
  for (const name of http) {
    const credential = { api_key: 'down' };
    await stack.connect(accounts[name].id, 'http', credential, ['--default', '--params', '{"base":"app.example.com"}'],
      { env: { SLUICE_CATALOG: stack.catalog } });
  }
  const call = (name) => server.execute(accounts[name].key, 'http', 'list_resources', { resource: 'read' });
  for (const name of http) {
    const replies = await times(VOLUME, () => call(name));
    assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [500], replies[0].text);
    assert.equal((await call(name)).status, 409);
  }
  assert.equal(succeeded(await times(5, () => run('quiet'))), 5); /* the app at that host */
  assert.equal(succeeded(await times(5, () => run('one'))), 5);
  assert.deepEqual(await gauge(), []);
});
