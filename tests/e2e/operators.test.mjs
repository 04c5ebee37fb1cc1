// Accounts over HTTP, with keys of the operator: what such a key reaches, and what it does not.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { requestsWith } from './support/matrix.mjs';
import { Mcp } from './support/mcp.mjs';
import { Pages } from './support/pages.mjs';
import { isRunning, rowsOf } from './support/rows.mjs';
import { credentials, Stack } from './support/stack.mjs';

let stack, server, operator, account;
const operatorKey = async (...more) => (await stack.must(['keys', 'create', '--operator', '--addresses', '127.0.0.0/8,::1', ...more])).trim();
before(async () => {
  stack = await Stack.start();
  server = await stack.serve({ args: ['--cache-time', '1h', '--trusted-proxy', '127.0.0.1'] });
  operator = await operatorKey('--name', 'provisioning');
  account = await stack.account('made by a command', { apps: [] });
});
after(() => stack?.stopWell(assert));

const call = (method, path, body, { key = operator, headers } = {}) => server.call(key, method, path, body, headers);
const create = (body, options) => call('POST', '/api/accounts', body, options);
const status = async (key) => (await call('GET', '/api/keys/self', undefined, { key })).status;

test('an account is created once by its external id', async () => {
  const made = await create({ name: 'Acme', external_id: 'customer-42' });
  assert.equal(made.status, 201, made.text);
  const { json } = made;
  assert.deepEqual(json, { id: json.id, name: 'Acme', external_id: 'customer-42', disabled: false, erasing: false, created_at: json.created_at });
  const again = await create({ name: 'Another name', external_id: 'customer-42' });
  assert.deepEqual([again.status, again.json], [200, json]);
  const same = await create({ name: 'Acme', external_id: 'customer-43' });
  assert.equal(same.status, 201, same.text);
  const many = await Promise.all(Array.from({ length: 10 }, () => create({ name: 'At once', external_id: 'at-once' })));
  assert.deepEqual(many.map((reply) => reply.status).sort(), [...Array(9).fill(200), 201]);
  assert.equal(new Set(many.map((reply) => reply.json.id)).size, 1);
  assert.equal((await create({ name: 'No id' })).status, 201);
  const taken = await create({ name: 'No id' });
  assert.equal(taken.status, 409);
  assert.match(taken.json.error, /^The account [0-9a-f-]{36} has this name\. Send an external_id/);
  for (const body of [{}, { name: '' }, { name: 1 }, { name: 'a\nb' }, { name: 'a'.repeat(201) }, { name: 'x', external_id: '' }, { name: 'x', external_id: 'a b' }, { name: 'x', external_id: 1 }, { name: 'x', externalId: 'y' }])
    assert.equal((await create(body)).status, 400, JSON.stringify(body));
  const events = await stack.cluster.sql(`select kind || ' ' || actor || ' ' || address from sluice.audit_event where account_id = '${json.id}'`);
  assert.match(events, /^account\.created operator:[0-9a-f-]{36} 127\.0\.0\.1$/);
});

test('the list, and one account', async () => {
  const all = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = (await call('GET', `/api/accounts?limit=2${cursor && `&cursor=${cursor}`}`)).json;
    all.push(...page.items);
    cursor = page.next_cursor;
  }
  const whole = (await call('GET', '/api/accounts')).json;
  assert.deepEqual([all, whole.next_cursor], [whole.items, null]);
  const ids = (await stack.cluster.sql('select account_id from sluice.account order by account_id desc')).split('\n');
  assert.deepEqual(all.map(({ id }) => id), ids);
  const one = all.find(({ id }) => id === account.id);
  assert.deepEqual([one.name, one.external_id], ['made by a command', null]);
  const acme = all.find(({ external_id }) => external_id === 'customer-42');
  assert.match(await stack.must(['accounts', 'show', acme.id]), /external_id customer-42/);
  assert.equal(JSON.parse(await stack.must(['accounts', 'list', '--json'])).find(({ account_id }) => account_id === acme.id).external_id, 'customer-42');
  assert.deepEqual((await call('GET', `/api/accounts/${account.id}`)).json, one);
  for (const id of ['x', '00000000-0000-0000-0000-000000000000', '019a1b2c-3d4e-7f50-8a61-72839405a6b7'])
    for (const reply of [await call('GET', `/api/accounts/${id}`), await call('PATCH', `/api/accounts/${id}`, { disabled: true }), await call('PATCH', `/api/accounts/${id}`, { name: 'x' }), await call('POST', `/api/accounts/${id}/keys`, { name: 'x', scopes: ['read'] })])
      assert.deepEqual([reply.status, reply.json], [404, { error: 'Account not found' }], id);
});

test('an account is named, disabled and enabled; its first key', async () => {
  const { id } = (await create({ name: 'Changing', external_id: 'changing' })).json;
  const change = (body) => call('PATCH', `/api/accounts/${id}`, body);
  const made = await call('POST', `/api/accounts/${id}/keys`, { name: 'first', scopes: ['read', 'admin'] });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual([made.json.addresses, made.json.made_by, made.json.line], [null, null, made.json.id]);
  const ofUser = (await call('POST', `/api/accounts/${id}/keys`, { name: 'of ada', scopes: ['read'], user: 'ada' })).json;
  assert.deepEqual([await status(made.json.key), await status(ofUser.key)], [200, 200]);
  const off = await change({ name: 'Changed', disabled: true });
  assert.deepEqual([off.status, off.json.name, off.json.disabled], [200, 'Changed', true]);
  for (const { key } of [made.json, ofUser]) await until('it is refused', async () => (await status(key)) === 401);
  assert.equal((await change({ disabled: false })).json.disabled, false);
  assert.equal(await status(made.json.key), 200);
  for (const body of [{}, { disabled: 1 }, { disabled: null }, { name: '' }, { name: null }, { external_id: 'x' }]) assert.equal((await change(body)).status, 400, JSON.stringify(body));
  for (const body of [{}, { name: 'x' }, { name: 'x', scopes: ['operator'] }]) assert.equal((await call('POST', `/api/accounts/${id}/keys`, body)).status, 400);
  const kinds = await stack.cluster.sql(`select string_agg(kind, ' ' order by id) from sluice.audit_event where account_id = '${id}'`);
  assert.equal(kinds, 'account.created key.created key.created account.disabled account.changed account.enabled');
});

test('an operator’s key reaches accounts alone, and no other key reaches them', async () => {
  const document = JSON.parse(await readFile(join(import.meta.dirname, '../../src/api/openapi.json'), 'utf8'));
  let count = 0;
  for (const { method, route, path, body } of requestsWith(document, account.id)) {
    const isTheirs = route.startsWith('/api/accounts');
    const key = isTheirs ? account.key : operator;
    for (const headers of [{}, { 'sluice-user': 'ada' }]) {
      const reply = await call(method, path, body, { key, headers });
      assert.equal(reply.status, 403, `${method} ${path} ${reply.text}`);
      count++;
    }
    if (isTheirs) assert.equal((await call(method, path, body, { headers: { 'sluice-user': 'ada' } })).status, 400, path);
  }
  assert.ok(count > 100);
  assert.equal((await new Mcp(server.base, operator).post({ jsonrpc: '2.0', id: 1, method: 'ping' })).status, 403);
  const bound = (await call('POST', `/api/accounts/${account.id}/keys`, { name: 'x', scopes: ['read', 'execute', 'approve', 'admin'], user: 'ada' })).json;
  assert.equal((await call('GET', '/api/accounts', undefined, { key: bound.key })).status, 403);
  const page = await new Pages(server.base).ask('/sign-in', { method: 'POST', fields: { key: operator }, headers: { Origin: server.base } });
  assert.equal(page.status, 403);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.account_user where account_id = '00000000-0000-0000-0000-000000000000'`), '0');
});

test('it works only from its addresses, until it expires or is revoked', async () => {
  const away = await call('GET', '/api/accounts', undefined, { headers: { 'x-forwarded-for': '192.0.2.1' } });
  assert.deepEqual([away.status, away.json], [403, { error: 'This API key may not be used from this address' }]);
  for (const args of [[], ['--addresses', 'x'], ['--addresses', '::1', '--scopes', 'read'], [account.id, '--addresses', '::1'], ['--addresses', '::1,0.0.0.0/0'], ['--addresses', '::1', '--allow-address', '::1']]) {
    const { code, stderr } = await stack.sluice(['keys', 'create', '--operator', ...args]);
    assert.ok(code > 0 && stderr.length > 0, args.join());
  }
  const ending = JSON.parse(await operatorKey('--expires', '1h', '--json'));
  const first = await call('POST', `/api/accounts/${account.id}/keys`, { name: 'x', scopes: ['read'] }, { key: ending.key });
  assert.equal(first.json.expires_at, ending.expires_at); // left out
  await stack.must(['keys', 'revoke', '--operator', ending.prefix]);
  await stack.cluster.sql(`delete from sluice.api_key where id = '${ending.id}'`);
  // the scope without the nil account, and the nil account without addresses
  for (const [owner, addresses] of [[`'${account.id}'`, `'127.0.0.1'`], [`'00000000-0000-0000-0000-000000000000'`, 'null']]) {
    const text = `sk_${'b'.repeat(43)}`;
    await stack.cluster.sql(`insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, addresses) values (${owner}, gen_random_uuid(), sha256('${text}'), 'sk_b', 'x', 'operator', now(), ${addresses})`);
    const fresh = await stack.serve();
    assert.equal((await fresh.call(text, 'GET', '/api/accounts')).status, 401);
    await fresh.stop();
    await stack.cluster.sql(`delete from sluice.api_key where prefix = 'sk_b'`);
  }
  const other = JSON.parse(await operatorKey('--json'));
  const brief = await operatorKey('--expires', '15s');
  const works = async (key) => (await call('GET', '/api/accounts', undefined, { key })).status === 200;
  assert.deepEqual([await works(brief), await works(other.key)], [true, true]);
  const listed = JSON.parse(await stack.must(['keys', 'list', '--operator', '--json']));
  assert.deepEqual([listed.length, listed[0].name, listed[0].scopes], [3, 'provisioning', 'operator']);
  await stack.must(['keys', 'revoke', '--operator', other.id]);
  await until('it is refused', async () => !(await works(other.key)));
  await until('the short-lived one has expired', async () => !(await works(brief)));
  // the program before would take it for a key of the nil account
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.api_key where account_id = '00000000-0000-0000-0000-000000000000' and expires_at > '1971-01-01'`), '0');
});

// ---- erasing an account ----

// A connection, a run, a flow that waits and an open link, of the account or of a user.
async function live(key, user) {
  const headers = user === undefined ? {} : { 'sluice-user': user };
  const send = async (path, body, status) => {
    const reply = await call('POST', path, body, { key, headers });
    assert.equal(reply.status, status, reply.text);
  };
  await send('/api/connections', { integration_id: 'probe', credential: credentials.probe }, 201);
  await send('/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: 'x' }, confirm: true, idempotency_key: 'k' }, 200);
  await send('/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'x' } }, 200);
  await send('/api/connect/sessions', { integration_id: 'probe' }, 201);
}

test('an account is erased with its users, whichever process dies', async () => {
  await server.stop(); // it would erase them, too
  const died = async () => {
    assert.equal((await server.process.gone).signal, 'SIGKILL', server.log);
    stack.forget(server);
  };
  for (const step of ['marked', 'erased', 'removed']) {
    const crash = { env: { SLUICE_CRASH_AT: `eraser/${step}` } };
    server = await stack.serve(crash);
    const body = { name: `dies at ${step}`, external_id: step };
    const { id } = (await create(body)).json;
    const path = `/api/accounts/${id}`;
    const { key } = (await call('POST', `${path}/keys`, { name: 'first', scopes: ['read', 'execute', 'approve', 'admin'] })).json;
    for (const user of [undefined, 'ada', 'bo']) await live(key, user);
    const users = (await stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${id}'`)).split('\n');
    const others = await rowsOf(stack, account.id);
    const early = await call('DELETE', path);
    assert.deepEqual([early.status, early.json], [409, { error: 'Refused: the account is not disabled; disable it first' }]);
    assert.equal((await call('PATCH', path, { disabled: true })).json.erasing, false);
    const erased = await call('DELETE', path);
    assert.deepEqual([erased.status, erased.json], [202, { id, erasing: true }]);
    await died();

    const time = (what) => stack.cluster.sql(`select ${what} from sluice.account where account_id = '${id}'`);
    const written = await time('erase_at');
    assert.equal(await time(`erase_at between now() + interval '1 minute' and now() + interval '1 hour'`), step === 'removed' ? 't' : 'f', written);
    server = await stack.serve();
    const one = (await call('GET', path)).json;
    assert.deepEqual([one.disabled, one.erasing], [true, true]);
    assert.deepEqual((await call('GET', '/api/accounts')).json.items.find((item) => item.id === id), one);
    assert.deepEqual((await create(body)).json, one);
    assert.equal((await call('DELETE', path)).status, 202);
    const enabled = await call('PATCH', path, { disabled: false });
    assert.deepEqual([enabled.status, enabled.json], [409, { error: 'Refused: the account is being erased and stays disabled' }]);
    for (const args of [['accounts', 'enable', id], ['keys', 'create', id]]) assert.match((await stack.sluice(args)).stderr, /is being erased/);
    assert.match(await stack.must(['accounts', 'show', id]), /^state {3}erasing$/m);
    const made = await call('POST', `${path}/keys`, { name: 'late', scopes: ['read'] });
    assert.deepEqual([made.status, made.json], [409, { error: 'No key was made: the account is being erased' }]);
    await until('links and flows have ended', async () => !isRunning(await rowsOf(stack, id, ...users)));
    const far = `erase_at > now() + interval '1 year'`;
    await until('each has a time', async () => (await stack.cluster.sql(`select (select count(*) from sluice.account_user where ${far}) + (select count(*) from sluice.account where ${far})`)) === '0');
    if (step === 'removed') assert.equal(await time('erase_at'), written);
    assert.equal((await call('GET', path)).status, 200);

    await server.stop();
    for (const table of ['account', 'account_user']) await stack.cluster.sql(`update sluice.${table} set erase_at = now() where account_id = '${id}'`);
    server = await stack.serve(crash).catch(() => null); // and once more in the last pass
    if (server && step !== 'marked') await died();
    if (!server || step !== 'marked') server = await stack.serve();
    await until('it is erased', async () => (await call('GET', path)).status === 404);
    assert.deepEqual(await rowsOf(stack, id, ...users), []);
    assert.equal((await stack.cluster.sql(`select count(*) from sluice.connection where parent_id = '${id}'`)), '0');
    assert.deepEqual(await rowsOf(stack, account.id), others);
    assert.equal(await stack.cluster.sql(`select details from sluice.audit_event where account_id = '00000000-0000-0000-0000-000000000000' and kind = 'account.erased' and details::text like '%${id}%'`), `{"account_id":"${id}"}`);
    assert.equal((await call('DELETE', path)).status, 404);
    const again = await create(body);
    assert.ok(again.status === 201 && again.json.id !== id, again.text);
    await server.stop();
  }
  server = await stack.serve();
});
