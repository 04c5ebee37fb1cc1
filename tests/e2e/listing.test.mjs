// GET /api/executions and GET /api/audit: what an account has done, newest first, in pages.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { makePartition } from './support/partition.mjs';
import { Stack } from './support/stack.mjs';

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const DAY_MS = 86_400_000;
let stack, server, a, b;

before(async () => {
  stack = await Stack.start({ catalog: false });
  a = await stack.account('lists', { apps: ['gmail', 'notion'] });
  b = await stack.account('other');
  // Housekeeping runs a second after the start. Rows are kept for 1,000 days so that it does not
  // remove the older rows that a test inserts.
  const keep = ['--execution-days', '1000'];
  server = await stack.serve({ args: ['--trusted-proxy', '127.0.0.1', '--trusted-proxy', '10.0.0.0/8', ...keep] });
});
after(() => stack?.stopWell(assert));

const get = (key, path, headers) => server.call(key, 'GET', path, undefined, headers);

// All items of a list, page by page. Every page except the last says where to continue.
async function walk(key, path, name) {
  const items = [];
  for (let cursor = '', pages = 1; ; pages++) {
    const reply = await get(key, `${path}${path.includes('?') ? '&' : '?'}${cursor && `cursor=${cursor}`}`);
    assert.equal(reply.status, 200, reply.text);
    items.push(...reply.json[name]);
    cursor = reply.json.next_cursor;
    if (cursor === null) return { items, pages };
    assert.ok(pages < 1000);
  }
}

test('executions, newest first, without the provider’s replies', async () => {
  const done = [];
  for (let i = 0; i < 5; i++) done.push((await server.execute(a.key, 'gmail', 'list_labels', {})).json);
  const failed = (await server.execute(a.key, 'gmail', 'get_message', { id: 'ffffffffffffffff' })).json;
  assert.equal(failed.status, 'failed', JSON.stringify(failed));
  const notion = (await server.execute(a.key, 'notion', 'get_self', {})).json;
  const refused = (await server.execute(a.key, 'gmail', 'nope', {})).json; // blocked, so it is not an execution
  assert.equal(refused.status, 'blocked');
  const { status, json, text } = await get(a.key, '/api/executions');
  assert.equal(status, 200, text);
  assert.equal(json.next_cursor, null);
  const ids = [...done, failed, notion].map((one) => one.execution_id).reverse();
  assert.deepEqual(json.executions.map((one) => one.execution_id), ids);
  const [first, second, third] = json.executions;
  assert.deepEqual(Object.keys(first), ['status', 'execution_id', 'integration_id', 'action_id', 'connection_id',
    'started_at', 'finished_at', 'duration_ms', 'api_key', 'attempts']);
  assert.ok(Math.abs(first.duration_ms - (Date.parse(first.finished_at) - Date.parse(first.started_at))) <= 1, JSON.stringify(first));
  const key = (await get(a.key, '/api/audit?kind=key.created')).json.events[0];
  assert.equal(first.api_key.id, key.details.key_id);
  assert.equal(typeof first.api_key.name, 'string');
  assert.equal(first.attempts, 1);
  assert.deepEqual(second.api_key, first.api_key);
  assert.match(first.started_at, ISO);
  assert.match(first.connection_id, /^\d+$/);
  for (const key of ['status', 'integration_id', 'action_id', 'started_at', 'finished_at']) {
    assert.equal(first[key], notion[key]);
    assert.equal(third[key], done[4][key]);
  }
  for (const key of ['status', 'error_code', 'message', 'hint']) assert.equal(second[key], failed[key]);
  assert.ok(!text.includes('"output"'));

  const of = async (query) => (await get(a.key, `/api/executions?${query}`)).json.executions.map((one) => one.execution_id);
  assert.deepEqual(await of('status=failed'), [failed.execution_id]);
  assert.deepEqual(await of('integration_id=notion'), [notion.execution_id]);
  assert.deepEqual(await of('integration_id=gmail&status=succeeded'), done.map((one) => one.execution_id).reverse());
  assert.deepEqual(await of('integration_id=nope'), []);
  assert.deepEqual(await of('action_id=get_self'), [notion.execution_id]);
  assert.deepEqual(await of(`error_code=${failed.error_code}`), [failed.execution_id]);
  assert.deepEqual(await of('error_code=action_not_found'), []);
  assert.deepEqual(await of(`error_code=${failed.error_code}&status=succeeded`), []);
  assert.deepEqual(await of(`error_code=${failed.error_code}%22,%22message`), []);
  assert.deepEqual(await of(`key_id=${first.api_key.id}`), ids);
  assert.deepEqual(await of(`key_id=${failed.execution_id}`), []);
  assert.deepEqual(await of('limit=3'), ids.slice(0, 3));
  for (const limit of [1, 2, 6, 7]) {
    const { items, pages } = await walk(a.key, `/api/executions?limit=${limit}`, 'executions');
    assert.deepEqual(items.map((one) => one.execution_id), ids);
    assert.equal(pages, Math.ceil(7 / limit));
  }
  assert.deepEqual((await get(b.key, '/api/executions')).json, { executions: [], next_cursor: null });

  const event = await until('the blocked run is written', async () => (await get(a.key, '/api/audit?kind=execution')).json.events[0]);
  const blocked = (await get(a.key, '/api/executions?status=blocked')).json.executions;
  const { details, id, at } = event;
  assert.deepEqual(blocked, [{ status: 'blocked', execution_id: null, event_id: id, ...details, connection_id: null, started_at: at, finished_at: at, duration_ms: 0,
    api_key: first.api_key, attempts: null, error_code: refused.error_code, message: null }]);
  assert.deepEqual(await of('status=everything'), [null, ...ids]);
  assert.deepEqual(await of('status=everything&error_code=action_not_found'), [null]);
  assert.deepEqual(await of(`status=everything&error_code=${failed.error_code}`), [failed.execution_id]);
  assert.deepEqual(await of('status=blocked&error_code=validation_error'), []);
  const { items, pages } = await walk(a.key, '/api/executions?status=everything&limit=3', 'executions');
  assert.deepEqual([items.map((one) => one.execution_id), pages], [[null, ...ids], 3]);
  assert.deepEqual((await get(b.key, '/api/executions?status=everything')).json.executions, []);
});

test('invalid queries are refused', async () => {
  for (const path of ['/api/executions', '/api/audit']) {
    for (const query of ['limit=0', 'limit=-1', 'limit=x', 'limit=', 'limit=1.5', 'limit=+1', 'cursor=x', 'cursor=1']) {
      const reply = await get(a.key, `${path}?${query}`);
      assert.equal(reply.status, 400, query);
      assert.match(reply.json.error, new RegExp(query.split('=')[0]));
    }
    for (const limit of ['100', '101', '1000000', '99999999999999999999999', '007'])
      assert.equal((await get(a.key, `${path}?limit=${limit}`)).status, 200, limit);
  }
  for (const query of ['status=blockd', 'status=FAILED', 'key_id=x', 'error_code=%00', 'action_id=a%20b', `integration_id=${'x'.repeat(201)}`, 'integration_id=%00'])
    assert.equal((await get(a.key, `/api/executions?${query}`)).status, 400, query);
  for (const query of [`kind=${'x'.repeat(201)}`, 'kind=%0a', 'kind=a%20b'])
    assert.equal((await get(a.key, `/api/audit?${query}`)).status, 400, query);
});

// Inserts rows as if they had been written at that time, newest last.
async function insertOld(account, ms, count, integration = 'gmail') {
  await stack.cluster.sql(
    `insert into sluice.execution select '${account}', (lpad(to_hex(${ms} + n), 12, '0') || '70008000000000000000')::uuid,
     '${integration}', 'x', null, 'succeeded', null, now(), now(), gen_random_uuid(), '{}'
     from generate_series(1, ${count}) n`,
  );
}

test('old executions are found after empty days', async () => {
  const c = await stack.account('long ago', { apps: [] });
  const days = [3, 40, 400];
  for (const day of days) {
    const at = Math.floor(Date.now() / DAY_MS - day) * DAY_MS;
    await makePartition(stack, 'execution', at);
    await insertOld(c.id, at, 2);
  }
  const { items, pages } = await walk(c.key, '/api/executions', 'executions');
  assert.equal(items.length, 6);
  assert.equal(pages, 1);
  assert.deepEqual(items.map((one) => one.execution_id), items.map((one) => one.execution_id).sort().reverse());
  assert.equal((await walk(c.key, '/api/executions?limit=1', 'executions')).items.length, 6);
});

test('a filter with few matches is answered in bounded steps', async () => {
  const c = await stack.account('busy', { apps: [] });
  const yesterday = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS;
  await insertOld(c.id, yesterday, 1, 'notion');
  await insertOld(c.id, yesterday + 1000, 18_000);
  const first = await get(c.key, '/api/executions?integration_id=notion');
  assert.deepEqual(first.json.executions, []);
  assert.equal(typeof first.json.next_cursor, 'string');
  const { items, pages } = await walk(c.key, '/api/executions?integration_id=notion', 'executions');
  assert.deepEqual([items.length, pages], [1, 2]);
  assert.equal((await get(c.key, '/api/executions?limit=500')).json.executions.length, 100);
  assert.equal((await get(c.key, '/api/executions')).json.executions.length, 20);
});

test('the audit trail: who did what, when, from where', async () => {
  const c = await stack.account('audited', { apps: [] });
  const connection = await stack.connect(c.id, 'gmail', { access_token: 'ya29.demo-gmail-full' });
  const extra = JSON.parse(await stack.must(['keys', 'create', c.id, '--json']));
  await stack.must(['keys', 'revoke', c.id, extra.id]);
  const blocked = await server.call(c.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'nope', input: {} },
    { 'x-request-id': 'asked-for-this' });
  assert.equal(blocked.status, 409);
  await stack.must(['connections', 'remove', c.id, connection]);
  const events = await until('the blocked run is written', async () => {
    const { status, json, text } = await get(c.key, '/api/audit');
    assert.equal(status, 200, text);
    return json.events.some((one) => one.kind === 'execution.blocked') && json.events;
  });
  assert.deepEqual(events.map((one) => one.kind).sort(), ['account.created', 'connection.added', 'connection.removed',
    'execution.blocked', 'key.created', 'key.created', 'key.revoked']);
  assert.deepEqual(events.map((one) => one.id), events.map((one) => one.id).sort().reverse());
  for (const event of events) {
    assert.deepEqual(Object.keys(event), ['id', 'at', 'kind', 'reason', 'actor', 'address', 'request_id', 'details']);
    assert.match(event.at, ISO);
    assert.ok(Math.abs(Date.parse(event.at) - Date.now()) < 60_000);
  }
  const of = (kind) => events.find((one) => one.kind === kind);
  const { reason, actor, address, request_id, details } = of('execution.blocked');
  assert.deepEqual([reason, address, request_id], ['action_unknown', '127.0.0.1', 'asked-for-this']);
  assert.match(actor, /^key:[0-9a-f-]{36}$/);
  assert.deepEqual(details, { integration_id: 'gmail', action_id: 'nope' });
  assert.equal(of('key.revoked').details.key_id, extra.id);
  assert.match(of('key.revoked').actor, /^operator:./);
  assert.match(of('key.revoked').address, /^host:./);
  assert.equal(of('connection.removed').details.connection_id, connection);

  const kinds = async (kind) => (await get(c.key, `/api/audit?kind=${kind}`)).json.events.map((one) => one.kind);
  assert.deepEqual(await kinds('key'), ['key.revoked', 'key.created', 'key.created']);
  assert.deepEqual(await kinds('key.revoked'), ['key.revoked']);
  assert.equal((await get(c.key, '/api/audit?kind=ke')).status, 400);
  const { items } = await walk(c.key, '/api/audit?limit=2', 'events');
  assert.deepEqual(items, events);
});

test('the audit trail is for keys with the scope admin', async () => {
  const key = await stack.key(a.id, ['--scopes', 'read,execute,approve']);
  const reply = await get(key, '/api/audit');
  assert.equal(reply.status, 403);
  assert.match(reply.json.error, /admin/);
  assert.equal((await get(key, '/api/executions')).status, 200);
  assert.equal((await get(await stack.key(a.id, ['--scopes', 'admin']), '/api/audit')).status, 200);
});

test('the address is the one that trusted proxies report, and no other', async () => {
  const plain = await stack.serve();
  const c = await stack.account('behind proxies', { apps: [] });
  const cases = [
    [server, '203.0.113.9', '203.0.113.9'],
    [server, '198.51.100.7, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
    [server, '203.0.113.9:4711, 10.1.2.3', '203.0.113.9'],
    [server, '[2001:db8::1]:4711', '2001:db8::1'],
    [server, '::ffff:203.0.113.9', '203.0.113.9'],
    [server, '203.0.113.9, unknown, 10.0.0.1', '10.0.0.1'],
    [server, 'garbage', '127.0.0.1'],
    [server, '', '127.0.0.1'],
    [server, '10.0.0.2,10.0.0.1', '10.0.0.2'],
    [plain, '203.0.113.9', '127.0.0.1'],
  ];
  for (const [i, [at, forwarded, wanted]] of cases.entries()) {
    const headers = { 'x-forwarded-for': forwarded, 'x-request-id': `proxied-${i}` };
    await at.call(c.key, 'POST', '/api/executions', { integration_id: 'x', action_id: 'y', input: {} }, headers);
    const event = await until('the event is written', async () => {
      const { json } = await get(c.key, '/api/audit?kind=execution');
      return json.events.find((one) => one.request_id === `proxied-${i}`);
    });
    assert.equal(event.address, wanted, forwarded);
  }
});
