// End users of an account (Sluice-User): the header, when a user comes into being, whose connection
// acts, what the account pays for, and what survives the process that began it. That one user never
// sees another is in tenants.test.mjs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { Raw } from './support/raw.mjs';
import { isRunning, rowsOf as rowsOfOwners, tablesOfAccounts } from './support/rows.mjs';
import { Stack } from './support/stack.mjs';

const GOOD = 'ya29.demo-gmail-full';
let stack, server, account, other;

before(async () => {
  stack = await Stack.start();
  server = await stack.serve();
  account = await stack.account('with users', { apps: [] });
  other = await stack.account('other', { apps: [] });
});
after(() => stack?.stopWell(assert));

const as = (user) => (user === undefined ? {} : { 'sluice-user': user });
const call = (user, method, path, body, { at = server, key = account.key } = {}) => at.call(key, method, path, body, as(user));
const echo = (user, options) => call(user, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: user ?? 'none' } }, options);
const userId = (user, of = account) => stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${of.id}' and external_id = '${user.replaceAll("'", "''")}'`);
const users = async (of = account) => Number(await stack.cluster.sql(`select count(*) from sluice.account_user where account_id = '${of.id}'`));

// Connects the app as a person does: over the link that a request for the user has made.
async function connect(user, options) {
  const made = await call(user, 'POST', '/api/connect/sessions', { integration_id: 'probe' }, options);
  assert.equal(made.status, 201, made.text);
  const person = new Pages((options?.at ?? server).base);
  const page = await person.press(await person.ask(new URL(made.json.url).pathname), 'Continue');
  assert.ok(page.text.includes('with users') || options?.key, page.text); // the account's name
  const done = await person.press(page, 'Connect Probe', { token: GOOD });
  assert.equal(done.status, 200, done.text);
  return (await call(user, 'GET', `/api/connect/sessions/${made.json.id}`, undefined, options)).json.connection_id;
}

// The account pays for its users: the calls that were counted for it. Each was; a stopped server has
// stored its counts.
async function paid() {
  await server.stop();
  server = await stack.serve();
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.tally where account_id <> '${account.id}' and outcome = 'succeeded'`), '0');
  return Number(await stack.cluster.sql(`select sum(calls) from sluice.tally where account_id = '${account.id}' and outcome = 'succeeded'`));
}

test('a header that is not an id is refused', async () => {
  for (const user of ['', 'a b', 'a'.repeat(256), 'caf\u00e9', 'a\tb'])
    assert.equal((await call(user, 'GET', '/api/connections')).status, 400, user);
  const raw = await Raw.connect({ port: new URL(server.base).port }); // no client sends this one
  raw.send(`GET /api/connections HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\nsluice-user: a\x7f\r\nconnection: close\r\n\r\n`);
  assert.equal((await raw.reply()).status, 400);
  raw.close();
  const twice = await fetch(`${server.base}/api/connections`, { headers: [['authorization', `Bearer ${account.key}`], ['sluice-user', 'a'], ['sluice-user', 'a']] });
  assert.equal(twice.status, 400);
  assert.deepEqual(await twice.json(), { error: 'Sluice-User must be sent once, with 1 to 255 characters from ! to ~' });
  for (const user of ['a'.repeat(255), '!', '~', 'A%2F../b', "o'hara"]) assert.equal((await call(user, 'GET', '/api/connections')).status, 200, user);
  const mcp = new Mcp(server.base, account.key);
  assert.equal((await mcp.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'sluice-user': 'a b' })).status, 400);
  // the key comes first, and only /api and /mcp read the header
  assert.equal((await call('a b', 'GET', '/api/connections', undefined, { key: 'sk_x' })).status, 401);
  for (const path of ['/healthz', '/openapi.json', '/sign-in']) assert.equal((await fetch(server.base + path, { headers: { 'sluice-user': 'a b' } })).status, 200, path);
  const stats = await call('ada', 'GET', '/api/stats'); // and /api/users, below
  assert.deepEqual([stats.status, stats.json], [400, { error: 'This path is for the account alone: send it without Sluice-User' }]);
  assert.equal(await users(), 0);
});

test('the first request that may change something creates the user', async () => {
  const document = (await server.call(account.key, 'GET', '/openapi.json')).json;
  for (const [path, item] of Object.entries(document.paths))
    if (item.get && path.startsWith('/api/') && !path.includes('{')) await call('reader', 'GET', path);
  await call('reader', 'POST', '/api/flows/01900000-0000-7000-8000-000000000000/approve', {});
  await call('reader', 'PATCH', '/api/connections/1', { label: 'x' });
  await call('reader', 'DELETE', '/api/connections/1');
  const mcp = new Mcp(server.base, account.key);
  assert.equal((await mcp.call('list_connections', {}, { headers: as('reader') })).isError, undefined);
  assert.equal(await users(), 0);

  assert.equal((await echo('ada')).status, 409); // nothing is connected, and the user exists
  assert.equal((await call('links', 'POST', '/api/connect/sessions', { integration_id: 'probe' })).status, 201);
  assert.equal((await call('starts', 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'x' } })).status, 200);
  await mcp.call('run_action', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, { headers: as('agent') });
  await new Mcp(server.base, account.key, '/mcp?tools=probe_echo').call('probe_echo', { value: 1 }, { headers: as('tool') });
  for (const user of ['ada', 'links', 'starts', 'agent', 'tool']) assert.match(await userId(user), /^[0-9a-f-]{36}$/, user);
  assert.equal(await users(), 5);
  // at the same time, on two servers: one user
  const second = await stack.serve();
  await Promise.all(Array.from({ length: 20 }, (_, at) => echo('at once', { at: at % 2 ? server : second }).then((reply) => assert.equal(reply.status, 400))));
  await Promise.all(Array.from({ length: 20 }, (_, at) => echo('at-once', { at: at % 2 ? server : second }).then((reply) => assert.equal(reply.status, 409))));
  assert.equal(await users(), 6);
  await second.stop();
});

test('an account has a maximum of users', async () => {
  const few = await stack.serve({ args: ['--account-users', '2'] });
  const options = { at: few, key: other.key };
  for (const user of ['one', 'two', 'one']) assert.equal((await echo(user, options)).status, 409, user);
  const full = await echo('three', options);
  assert.deepEqual([full.status, full.json], [403, { error: 'This account has the maximum of 2 users' }]);
  assert.equal((await call('three', 'GET', '/api/connections', undefined, options)).status, 200);
  assert.equal((await echo(undefined, options)).status, 409);
  assert.equal(await users(other), 2);
  await few.stop();
});

test('a user’s own connection acts, and belongs to that user alone', async () => {
  const id = await connect('ada');
  assert.equal(await stack.cluster.sql(`select account_id || ' ' || parent_id from sluice.connection where id = ${id}`), `${await userId('ada')} ${account.id}`);
  const run = await echo('ada');
  assert.equal(run.status, 200, run.text);
  for (const user of ['links', undefined, 'never-seen']) assert.equal((await echo(user)).json.error_code, 'integration_not_connected');
  assert.equal((await echo('ada', { key: other.key })).json.error_code, 'integration_not_connected');
  const { executions } = (await call('ada', 'GET', '/api/executions')).json;
  assert.deepEqual(executions.map((one) => one.execution_id), [run.json.execution_id]);
  assert.match(executions[0].api_key.id, /^[0-9a-f-]{36}$/, JSON.stringify(executions[0]));
  assert.deepEqual((await call(undefined, 'GET', '/api/executions')).json.executions, []);
  // the same idempotency key of two users names two runs
  await connect('links');
  const send = (user) => call(user, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: 'x' }, confirm: true, idempotency_key: 'k' });
  const [first, second, again] = [await send('ada'), await send('links'), await send('ada')];
  assert.deepEqual([first.status, second.status, again.headers.get('idempotent-replayed')], [200, 200, 'true']);
  assert.notEqual(first.json.execution_id, second.json.execution_id);
  assert.ok((await paid()) >= 3);
});

test('a user’s flow continues on another process, for that user', async () => {
  const begun = await stack.serve(), before = await paid();
  const started = await call('ada', 'POST', '/api/flows/start', { flowTemplate: 'probe_slow', input: { ms: 1500, subject: 'slow', confirm: true } }, { at: begun });
  const id = (started.json?.flowId) ?? assert.fail(started.text);
  assert.equal(await stack.cluster.sql(`select parent_id from sluice.flow where id = '${id}'`), account.id);
  stack.forget(begun);
  begun.process.kill('SIGKILL');
  const ended = await until('it has ended', async () => {
    const { flow } = (await call('ada', 'GET', `/api/flows/${id}`)).json;
    return flow.status !== 'running' && flow.status !== 'pending' && flow;
  });
  assert.ok(ended.status === 'completed', JSON.stringify(ended));
  assert.match(await stack.must(['flow', 'explain', id]), /with users/);
  assert.equal((await call('links', 'GET', `/api/flows/${id}`)).status, 404);
  assert.equal((await call(undefined, 'GET', `/api/flows/${id}`)).status, 404);
  assert.ok((await paid()) >= before + 1); // its write, at least
});

test('a user’s task over /mcp', async () => {
  const mcp = new Mcp(server.base, account.key);
  const started = contentOf(await mcp.call('start_flow', { template: 'probe_approve', input: { subject: 'x' } }, { headers: as('ada') }));
  assert.ok(started.flowId, JSON.stringify(started));
  // what a person does is done in the account's application: the dashboard does not show this flow
  const waiting = contentOf(await mcp.call('get_flow', { flow_id: started.flowId, wait: 20 }, { headers: as('ada') }));
  assert.match(waiting.hint, new RegExp(`POST /api/flows/${started.flowId}/approve \\(with Sluice-User\\)`));
  assert.doesNotMatch(JSON.stringify(waiting), /dashboard|\/flows\/[0-9a-f-]+\./);
  const blocked = await mcp.call('run_action', { integration_id: 'gmail', action_id: 'list_labels', input: {} }, { headers: as('ada') });
  assert.match(JSON.stringify(blocked), /Have the user connect the app, then send the same request again\. connect_app /);
  assert.doesNotMatch(JSON.stringify(blocked), /dashboard/);
  const read = (user) => mcp.ask('resources/read', { uri: `sluice://flows/${started.flowId}` }, { headers: as(user) });
  assert.ok((await read('ada')).result);
  for (const user of ['links', undefined, 'never-seen']) assert.ok((await read(user)).error, user);
});

// ---- /api/users ----

const people = (query = '', options) => call(undefined, 'GET', `/api/users${query}`, undefined, options);
const person = (id) => `/api/users/${encodeURIComponent(id)}`;

test('the list of users, in pages and by the beginning of an id', async () => {
  const listing = await stack.account('with a list', { apps: [] });
  const options = { key: listing.key };
  assert.deepEqual((await people('', options)).json, { items: [], next_cursor: null });
  const ids = ['a', 'a/b', 'a/c', 'aB', 'ab', 'a~', 'a~~', 'b%', 'z'.repeat(255), '~'];
  for (const id of ids) assert.equal((await echo(id, options)).status, 409, id);
  await echo('of another account');
  const sorted = [...ids].sort(); // by the bytes, as all are ASCII
  const { json } = await people('', options);
  assert.deepEqual([json.items.map(({ id }) => id), json.next_cursor], [sorted, null]);
  assert.deepEqual(Object.keys(json.items[0]), ['id', 'label', 'created_at', 'last_seen_at', 'erasing']);
  for (const limit of [1, 3, ids.length - 1, ids.length]) {
    const got = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = (await people(`?limit=${limit}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, options)).json;
      assert.ok(page.items.length > 0 && page.items.length <= limit, String(limit));
      got.push(...page.items.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    assert.deepEqual(got, sorted, String(limit));
  }
  for (const query of ['a', 'a/', 'A', 'a~', 'b%', '~', 'z'.repeat(255), '_', '%']) {
    const found = (await people(`?query=${encodeURIComponent(query)}`, options)).json.items.map(({ id }) => id);
    assert.deepEqual(found, sorted.filter((id) => id.startsWith(query)), query);
  }
  const next = (await people('?query=a&limit=2', options)).json;
  const rest = (await people(`?query=a&cursor=${encodeURIComponent(next.next_cursor)}`, options)).json;
  assert.deepEqual([...next.items, ...rest.items].map(({ id }) => id), sorted.filter((id) => id.startsWith('a')));
  for (const bad of ['query=a%20b', `query=${'a'.repeat(256)}`, 'cursor=%00', 'cursor=a%20b', 'limit=0', 'limit=x', 'Query=a'])
    assert.equal((await people(`?${bad}`, options)).status, 400, bad);
});

test('one user: its connections, its label', async () => {
  const ada = (await call(undefined, 'GET', person('ada'))).json;
  assert.deepEqual({ ...ada, created_at: 0, last_seen_at: 0 }, { id: 'ada', label: null, created_at: 0, last_seen_at: 0, erasing: false, connections: 1, broken: 0 });
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'x' where account_id = '${await userId('ada')}'`);
  assert.deepEqual((({ connections, broken }) => [connections, broken])((await call(undefined, 'GET', person('ada'))).json), [1, 1]);
  await stack.cluster.sql(`update sluice.connection set status = 'live', error = null where account_id = '${await userId('ada')}'`);

  const label = (id, value) => call(undefined, 'PATCH', person(id), { label: value });
  const named = await label('ada', 'Ada L.');
  assert.deepEqual([named.status, named.json], [200, { ...ada, label: 'Ada L.' }]);
  assert.equal((await people('?query=ada')).json.items[0].label, 'Ada L.');
  assert.equal((await label('ada', '\u00e9'.repeat(200))).status, 200);
  assert.equal((await label('ada', null)).json.label, null);
  for (const bad of ['', 'a'.repeat(201), 'two\nlines', ' ', 1, {}, undefined]) assert.equal((await label('ada', bad)).status, 400, JSON.stringify(bad));
  assert.equal((await call(undefined, 'PATCH', person('ada'), { Label: 'x' })).status, 400);

  await echo('a/b c'.replace(' ', '%')); // an id with both characters that a path may not have
  assert.equal((await call(undefined, 'GET', person('a/b%c'))).json.id, 'a/b%c');
  assert.equal((await label('a/b%c', 'x')).json.id, 'a/b%c');
  for (const id of ['no-such-user', 'Ada', 'a'.repeat(256), 'a b', '\u00e9', await userId('ada')])
    for (const reply of [await call(undefined, 'GET', person(id)), await label(id, 'x')])
      assert.deepEqual([reply.status, reply.json], [404, { error: 'User not found' }], id);
  assert.equal((await call(undefined, 'GET', person('links'), undefined, { key: other.key })).status, 404);
});

test('paths and bodies that name no user, or something unknown', async () => {
  const key = (await call(undefined, 'POST', '/api/keys', { name: 'rolled', scopes: ['read'] })).json.id;
  await echo('a/b');
  const cases = [
    // a slash of an id is %2F, also in lower case; the path is split before it is decoded
    [200, 'GET', '/api/users/a%2Fb'], [200, 'GET', '/api/users/a%2fb'], [200, 'PATCH', '/api/users/a%2Fb', { label: 'x' }],
    [404, 'GET', '/api/users/a/b'], [404, 'GET', '/api/users/a%252Fb'], [404, 'GET', '/api/users/a%2F'], [404, 'GET', '/api/users/%2F'], [404, 'GET', '/api/users/%2Fada'],
    [404, 'GET', '/api/users/ada%2F..%2Flinks'], [404, 'GET', '/api/users/'],
    [404, 'GET', '/api/users/a%20b'], [404, 'GET', '/api/users/a%7F'], [400, 'GET', '/api/users/a%00'], [400, 'GET', '/api/users/%FF'], [400, 'GET', '/api/users/a%2'],
    [404, 'DELETE', '/api/users/%2F'], [404, 'PATCH', '/api/users/%2F', { label: 'x' }], [404, 'GET', '/api/executions/a%2Fb'], [404, 'GET', '/api/flows/a%2Fb'],
    [404, 'GET', '/api/connections/1%2F2'], [404, 'DELETE', '/api/keys/a%2Fb'],
    // what is not an object, or is nearly a member that is known; other members are ignored
    [400, 'PATCH', '/api/users/a%2Fb', []], [400, 'PATCH', '/api/users/a%2Fb', '{'], [400, 'PATCH', '/api/users/a%2Fb', { label: 'x', Label: 'x' }], [200, 'PATCH', '/api/users/a%2Fb', { label: 'x', name: 'y' }],
    [400, 'POST', `/api/keys/${key}/roll`, { overlap: 0, Overlap: 0 }], [400, 'POST', '/api/keys', { name: 'x', scopes: ['read'], Scopes: [] }],
    // a user in the wrong place: without it, the request would act for the account
    [400, 'POST', '/api/connections', { integration_id: 'probe', credential: { token: GOOD }, user: 'ada' }], [400, 'POST', '/api/connect/sessions', { integration_id: 'probe', user_id: 'ada' }],
    [400, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 }, userId: 'ada' }], [400, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'x' }, user: 'ada' }],
    [400, 'GET', '/api/connections?user=ada'], [400, 'GET', '/api/audit?external_user_id=ada'], [400, 'GET', '/api/flows?user=ada'],
    [400, 'POST', '/api/connect/sessions?user=ada', { integration_id: 'probe' }], [400, 'DELETE', '/api/connections/1?user=ada'], [400, 'PATCH', '/api/connections/1?user_id=ada', { label: 'x' }], [400, 'GET', '/api/flows/templates?user=ada'],
    ...['approve', 'reject', 'resume', 'cancel'].flatMap((verb) => [[400, 'POST', `/api/flows/01900000-0000-7000-8000-000000000000/${verb}?user=ada`, {}], [400, 'POST', `/api/flows/01900000-0000-7000-8000-000000000000/${verb}`, { user: 'ada' }]]),
    // where the header is refused, too
    [400, 'GET', '/api/users?user=ada'], [400, 'GET', '/api/stats?user=ada'], [400, 'PATCH', '/api/users/a%2Fb', { label: 'x', user: 'ada' }], [404, 'GET', '/api/nowhere?user=ada'],
  ];
  const wrong = [];
  for (const [status, method, path, body] of cases) {
    const reply = await call(undefined, method, path, body);
    if (reply.status !== status || (status !== 200 && Object.keys(reply.json).join() !== 'error')) wrong.push(`${method} ${path} ${JSON.stringify(body)}: ${reply.status} ${reply.text}`);
  }
  assert.deepEqual(wrong, []);
  assert.deepEqual((await call(undefined, 'GET', '/api/executions?user=ada')).json, { error: 'user is not a query parameter here: use the header Sluice-User' });
  assert.equal((await call(undefined, 'GET', '/api/users/a%2Fb')).json.label, 'x');
  for (const name of ['user_id', 'externalUserId', 'sluice-user']) assert.deepEqual((await call(undefined, 'POST', '/api/keys', { name: 'x', scopes: ['read'], [name]: 'ada' })).json, { error: `${name} is not a member of this request: use user` });
  assert.deepEqual((await call(undefined, 'GET', '/api/stats?user=ada')).json, { error: 'user is not a query parameter here: use no user, as this path is for the account alone' });
  // an argument of that name beside the input
  const beside = await call(undefined, 'POST', '/api/executions', { integration_id: 'slack', action_id: 'get_user', input: {}, user: 'U123' });
  assert.deepEqual([beside.status, beside.json], [400, { error: 'user is not a member of this request: use the header Sluice-User, or put it inside input if it is an argument' }]);
  const { result } = await new Mcp(server.base, account.key).ask('tools/call', { name: 'run_action', arguments: { integration_id: 'slack', action_id: 'get_user', input: {}, user: 'U123' } });
  assert.match(JSON.stringify(result), /has no argument user/); // a model knows no header
  assert.equal((await new Mcp(server.base, account.key, '/mcp?user=ada').post({ jsonrpc: '2.0', id: 1, method: 'ping' })).status, 400);
});

test('users are the account’s to see, with the scope admin', async () => {
  const reader = await stack.key(account.id, ['--scopes', 'read,execute,approve']);
  for (const [method, path, body] of [['GET', '/api/users'], ['GET', person('ada')], ['PATCH', person('ada'), { label: 'x' }], ['DELETE', person('ada')]]) {
    assert.equal((await call('ada', method, path, body)).status, 400, path);
    assert.equal((await call('no-such-user', method, path, body)).status, 400, path);
    assert.equal((await call(undefined, method, path, body, { key: reader })).status, 403, path);
  }
  assert.equal(await userId('no-such-user'), '');
});

// ---- lists over all users ----

async function walk(path, name, options) {
  const items = [];
  for (let cursor = ''; cursor !== null; ) {
    const reply = await call(undefined, 'GET', `${path}${cursor && `&cursor=${cursor}`}`, undefined, options);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.json.partial, undefined);
    items.push(...reply.json[name]);
    cursor = reply.json.next_cursor;
  }
  return items;
}

test('connections and events of all users, in pages', async () => {
  const many = await stack.account('with users of all', { apps: ['gmail', 'probe'] });
  const options = { key: many.key };
  const own = await walk('/api/connections?limit=100', 'connections', options);
  const wanted = new Map(own.map(({ id }) => [id, null]));
  for (const user of ['ada', 'b/%', 'z']) wanted.set(await connect(user, options), user);
  wanted.set(await connect('ada', options), 'ada');
  await connect('elsewhere', { key: other.key });
  const all = await walk('/api/connections?users=all', 'connections', options);
  assert.deepEqual(new Map(all.map(({ id, user }) => [id, user])), wanted);
  assert.deepEqual(all.map(({ integration_id, id }) => [integration_id, Number(id)]), all.map(({ integration_id, id }) => [integration_id, Number(id)]).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1])));
  for (const limit of [1, 2, 4, 6]) assert.deepEqual(await walk(`/api/connections?users=all&limit=${limit}`, 'connections', options), all, String(limit));
  const probes = all.filter(({ integration_id }) => integration_id === 'probe');
  assert.equal(probes.length, 5);
  for (const limit of [1, 2, 5]) assert.deepEqual(await walk(`/api/connections?users=all&integration_id=probe&limit=${limit}`, 'connections', options), probes);
  assert.deepEqual((await walk('/api/connections?limit=100', 'connections', options)).map((one) => one.user), own.map(() => undefined));
  assert.ok(all.every((one) => !JSON.stringify(one).includes(GOOD)));

  const events = await walk('/api/audit?users=all&limit=100', 'events', options);
  assert.deepEqual(events.map(({ id }) => id), events.map(({ id }) => id).sort().reverse());
  const count = (kind, user) => events.filter((one) => one.kind === kind && one.user === user).length;
  assert.deepEqual([count('connection.added', null), count('connection.added', 'ada'), count('connection.added', 'b/%'), count('link.used', 'z'), count('key.created', null)], [2, 2, 1, 1, 1]);
  assert.deepEqual(new Set(events.map(({ user }) => user)), new Set([null, 'ada', 'b/%', 'z']));
  for (const limit of [1, 7]) assert.deepEqual(await walk(`/api/audit?users=all&limit=${limit}`, 'events', options), events, String(limit));
  assert.deepEqual(await walk('/api/audit?users=all&kind=link&limit=3', 'events', options), events.filter(({ kind }) => kind.startsWith('link.')));
  assert.deepEqual(await walk('/api/audit?limit=100', 'events', options), events.filter(({ user }) => user === null).map(({ user, ...rest }) => rest));

  // one query for the rows (on a cluster: for each of the 8 shards) and one for the names, however
  // many there are; housekeeping may add some
  const sent = async () => Number((await server.metrics()).match(/^sluice_pg_batched_queries_total (\d+)/m)[1]);
  const counts = [];
  for (let at = 0; at < 5; at++) {
    const before = await sent();
    await call(undefined, 'GET', '/api/connections?users=all&limit=6', undefined, options);
    counts.push((await sent()) - before);
  }
  assert.equal(Math.min(...counts), stack.isSharded ? 9 : 2, counts.join());

  // who may ask
  const reader = await stack.key(many.id, ['--scopes', 'read']);
  for (const path of ['/api/connections', '/api/audit']) {
    assert.equal((await call(undefined, 'GET', `${path}?users=all`, undefined, { key: reader })).status, 403, path);
    assert.equal((await call('ada', 'GET', `${path}?users=all`, undefined, options)).status, 400, path);
    const bound = (await call(undefined, 'POST', '/api/keys', { name: 'of ada', user: 'ada', scopes: ['admin', 'read'] }, options)).json.key;
    assert.equal((await call(undefined, 'GET', `${path}?users=all`, undefined, { key: bound })).status, 403, path);
    for (const bad of ['ada', 'ALL', 'al']) {
      const reply = await call(undefined, 'GET', `${path}?users=${bad}`, undefined, options);
      assert.deepEqual([reply.status, reply.json], [400, { error: `users must be all, got "${bad}"` }]);
    }
  }
});

// What a list over all users finds: each event of a user names the account, and no other event does.
test('every event of a user names its account', async () => {
  const rows = async (sql) => (await stack.cluster.sql(sql)).split('\n').map((row) => row.split('|'));
  const accounts = new Map(await rows('select user_id, account_id from sluice.account_user'));
  for (const [owner, parent, kind] of await rows('select distinct account_id, parent_id, kind from sluice.audit_event'))
    assert.equal(parent, accounts.get(owner) ?? '', kind);
  const kinds = (await stack.cluster.sql('select distinct kind from sluice.audit_event where parent_id is not null order by 1')).split('\n');
  for (const kind of ['connection.added', 'execution.blocked', 'link.created', 'link.used']) assert.ok(kinds.includes(kind), kinds.join());
});

test('a user’s last request is written once an hour', async () => {
  const seen = () => stack.cluster.sql(`select last_seen_at from sluice.account_user where account_id = '${account.id}' and external_id = 'ada'`);
  const shift = (ago) => stack.cluster.sql(`update sluice.account_user set last_seen_at = now() - interval '${ago}' where account_id = '${account.id}' and external_id = 'ada'`);
  const look = async (at) => {
    const operator = new Pages(at.base);
    await operator.signIn(account.key);
    return operator.ask('/connections?user=ada');
  };
  await shift('50 minutes');
  const before = await seen();
  const fresh = await stack.serve(); // it has no user in its cache
  assert.equal((await call('ada', 'GET', '/api/connections', undefined, { at: fresh })).status, 200);
  await fresh.stop();
  assert.equal(await seen(), before);
  await shift('61 minutes');
  // a look at the user’s pages is not a request of the user
  const looked = await stack.serve();
  const old = await seen();
  assert.equal((await look(looked)).status, 200);
  await looked.stop();
  assert.equal(await seen(), old);
  const again = await stack.serve();
  assert.equal((await look(again)).status, 200); // it caches the user
  assert.equal((await call('ada', 'GET', '/api/connections', undefined, { at: again })).status, 200);
  await until('it is written', async () => (await seen()) !== old);
  const { last_seen_at } = (await call(undefined, 'GET', person('ada'))).json;
  assert.ok(Date.now() - Date.parse(last_seen_at) < 60000, last_seen_at);
  await again.stop();
});

// ---- erasing a user ----

const erase = (user, options) => call(undefined, 'DELETE', person(user), undefined, options);
const rowsOf = (...ids) => rowsOfOwners(stack, ...ids);
// The time after which no call is under way passes at once.
const due = (user) => stack.cluster.sql(`update sluice.account_user set erase_at = now() where account_id = '${account.id}' and external_id = '${user}' and erase_at is not null`);
const unknown = (user) => until(`${user} is erased`, async () => (await call(undefined, 'GET', person(user))).status === 404);
// One row in most of the tables: a connection, runs, a key, a flow that waits, an open link, events.
async function live(user) {
  await connect(user);
  assert.equal((await echo(user)).status, 200);
  assert.equal((await call(user, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: user }, confirm: true, idempotency_key: 'k' })).status, 200);
  assert.equal((await call(user, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: user } })).status, 409);
  const started = await call(user, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: user } });
  assert.equal(started.status, 200, started.text);
  assert.equal((await call(user, 'POST', '/api/connect/sessions', { integration_id: 'gmail' })).status, 201);
  return started.json.flowId;
}

test('erasing a user deletes all of it, and what a call under way still writes', async () => {
  const flow = await live('grace');
  await live('heir');
  const second = await stack.serve();
  assert.equal((await call('grace', 'GET', '/api/connections', undefined, { at: second })).status, 200); // cached there
  const [id, heir] = [await userId('grace'), await userId('heir')];
  await until('the blocked run is written', async () => (await call('heir', 'GET', '/api/audit')).json.events.some(({ kind }) => kind === 'execution.blocked'));
  const kept = await rowsOf(heir);
  assert.ok(kept.length >= 8, kept.join());
  const late = call('grace', 'POST', '/api/executions', { integration_id: 'probe', action_id: 'wait', input: { ms: 3000 }, idempotency_key: 'late' });
  await until('the call is under way', async () => (await stack.cluster.sql(`select count(*) from sluice.idempotency_key where account_id = '${id}' and key = 'late'`)) === '1');

  const bound = (await call(undefined, 'POST', '/api/keys', { name: 'of grace', scopes: ['read'], user: 'grace' })).json.key;
  assert.equal((await call(undefined, 'GET', '/api/connections', undefined, { at: second, key: bound })).json.connections.length, 1);
  for (const again of [false, true]) {
    const { status, json } = await erase('grace');
    assert.deepEqual([status, json], [202, { id: 'grace', erasing: true }], String(again));
  }
  const events = (await call(undefined, 'GET', '/api/audit?kind=user.erased')).json.events;
  assert.deepEqual(events.map(({ details }) => details), [{ user_id: id }]);
  for (const at of [server, second]) {
    const refused = await until('its requests are refused', async () => {
      const reply = await call('grace', 'GET', '/api/connections', undefined, { at });
      return reply.status !== 200 && reply;
    });
    assert.deepEqual([refused.status, refused.json], [503, { error: 'This user is being erased. Its id can be used again after that.' }]);
    assert.ok(Number(refused.headers.get('retry-after')) > 60);
    assert.equal((await echo('grace', { at })).status, 503);
  }
  assert.equal((await call(undefined, 'POST', '/api/keys', { name: 'x', scopes: ['read'], user: 'grace' })).status, 503);
  for (const at of [server, second]) await until('its key is unknown', async () => (await call(undefined, 'GET', '/api/connections', undefined, { at, key: bound })).status === 401);
  assert.deepEqual((await people('?query=grace')).json.items.map(({ erasing }) => erasing), [true]);
  assert.equal((await call(undefined, 'GET', person('grace'))).json.erasing, true);
  assert.equal((await call(undefined, 'GET', person('heir'))).json.erasing, false);
  // at once, without a wait for the next round
  await until('its flows and links are deleted', async () => (await rowsOf(id)).every((row) => !/^(flow|connect_session|connection) /.test(row)));
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.flow where id = '${flow}'`), '0');

  assert.equal((await late).status, 200); // its client gets the answer, and the record is late
  await until('the late record is written', async () => (await rowsOf(id)).length > 0);
  assert.equal((await call(undefined, 'GET', person('grace'))).status, 200);
  await due('grace');
  const round = await stack.serve(); // its first round begins soon
  await unknown('grace');
  assert.deepEqual(await rowsOf(id), []);
  assert.deepEqual(await rowsOf(heir), kept);
  assert.equal((await erase('grace')).status, 404);
  assert.equal((await call('grace', 'GET', '/api/connections')).json.connections.length, 0);
  assert.equal((await echo('grace')).json.error_code, 'integration_not_connected');
  assert.notEqual(await userId('grace'), id);
  await Promise.all([second.stop(), round.stop()]);
});

// The process died after the time was written, between the two parts. The next one makes its pass and
// keeps that time.
async function keepsTime(user, id) {
  const time = (what = 'erase_at') => stack.cluster.sql(`select ${what} from sluice.account_user where user_id = '${id}'`);
  const written = await time();
  assert.equal(await time(`erase_at between now() + interval '1 minute' and now() + interval '1 hour'`), 't', written);
  server = await stack.serve();
  await until('its rows are deleted', async () => (await rowsOf(id)).length === 0);
  assert.equal(await time(), written);
  assert.equal((await call(undefined, 'GET', person(user))).json.erasing, true);
  await server.stop();
}

test('a user that is marked during a long pass does not wait for its end', async () => {
  await live('long');
  await live('brief');
  const [long, brief] = [await userId('long'), await userId('brief')];
  const left = async () => Number(await stack.cluster.sql(`select count(*) from sluice.idempotency_key where account_id = '${long}'`));
  await stack.cluster.sql(`insert into sluice.idempotency_key select '${long}', 'k' || n, gen_random_uuid(), sha256('x'), 'bound', null, 'a', 'a', null, true, now(), now() + interval '1 day' from generate_series(1, 12000) n`);
  const { table, node } = await stack.cluster.shardOf('idempotency_key', long);
  await stack.cluster.sql(`set citus.enable_ddl_propagation = off;
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.7); return null; end $$;
    create trigger slow after delete on sluice.${table} execute function slow()`, 'sluice', node);
  assert.equal((await erase('long')).status, 202);
  await until('the pass is under way', async () => (await left()) < 12000);
  assert.equal((await erase('brief')).status, 202);
  await until('flows and links have ended', async () => !isRunning(await rowsOf(brief)));
  assert.ok((await left()) > 0);
  // an account, whose own rows do not wait for those of users either
  const operator = (await stack.must(['keys', 'create', '--operator', '--addresses', '127.0.0.1,::1'])).trim();
  const own = await stack.account('own rows', { apps: ['gmail'] });
  const change = (method, body) => server.call(operator, method, `/api/accounts/${own.id}`, body);
  assert.equal((await change('PATCH', { disabled: true })).status, 200);
  assert.equal((await change('DELETE')).status, 202);
  await until('its connection is deleted', async () => !(await rowsOf(own.id)).some((row) => row.startsWith('connection ')));
  assert.ok((await left()) > 0);
  await stack.cluster.sql(`drop trigger slow on sluice.${table}`, 'sluice', node);
  for (const user of ['long', 'brief']) {
    await until(`${user} has a time`, async () => (await stack.cluster.sql(`select count(*) from sluice.account_user where external_id = '${user}' and erase_at < now() + interval '1 year'`)) === '1');
    await due(user);
  }
  // the account, too: until its end each new process makes a pass over it
  await until('the account has a time', async () => (await stack.cluster.sql(`select count(*) from sluice.account where account_id = '${own.id}' and erase_at < now() + interval '1 year'`)) === '1');
  await stack.cluster.sql(`update sluice.account set erase_at = now() where account_id = '${own.id}'`);
  const round = await stack.serve();
  for (const user of ['long', 'brief']) await unknown(user);
  await until('the account is erased', async () => (await change('GET')).status === 404);
  assert.deepEqual(await rowsOf(long, brief), []);
  await round.stop();
});

test('the erasure of a user survives the process at each of its steps', async () => {
  await server.stop(); // it would erase them, too
  for (const step of ['erase', 'erased', 'removed']) {
    const user = `dies-at-${step}`;
    server = await stack.serve({ env: { SLUICE_CRASH_AT: `eraser/${step}` } });
    await live(user);
    const id = await userId(user);
    assert.equal((await erase(user)).status, 202);
    assert.equal((await server.process.gone).signal, 'SIGKILL', server.log);
    stack.forget(server);
    assert.equal(isRunning(await rowsOf(id)), step === 'erase');
    if (step === 'removed') await keepsTime(user, id);
    await due(user); // and once more in the last pass
    server = await stack.serve({ env: { SLUICE_CRASH_AT: `eraser/${step}` } }).catch(() => null);
    if (server) {
      assert.equal((await server.process.gone).signal, 'SIGKILL', server.log);
      stack.forget(server);
    }
    server = await stack.serve();
    await unknown(user);
    assert.deepEqual(await rowsOf(id), []);
    if (step !== 'removed') await server.stop();
  }
});

test('erasing an account erases its users', async () => {
  const ids = await stack.cluster.sql(`select string_agg(quote_literal(user_id), ',') from sluice.account_user where account_id = '${account.id}'`);
  await stack.must(['accounts', 'erase', account.id, '--yes', '--settle', '1s']);
  await until('the key is refused', async () => (await echo('ada')).status === 401);
  const tables = await tablesOfAccounts(stack);
  assert.ok(tables.length > 10);
  for (const table of tables) assert.equal(await stack.cluster.sql(`select count(*) from sluice.${table} where account_id in (${ids}, '${account.id}')`), '0', table);
});

test('the dashboard lists users, shows one with its connections, and erases it', async () => {
  const odd = "o'hara/<b>&?#%";
  const own = await stack.account('with pages', { apps: [] });
  await connect(odd, own);
  await echo('odette', own);
  const person = new Pages(server.base);
  await person.signIn(own.key);
  const path = `/users/${encodeURIComponent(odd).replaceAll("'", '%27')}`;
  const list = await person.ask(`/users?q=o`);
  assert.ok(list.text.includes(`href="${path}"`), list.text);
  assert.ok(list.text.includes('href="/users/odette"'));
  assert.ok((await person.ask('/users?q=odd')).text.includes('No id begins with this'));
  for (const each of ['/users', '/users?q=']) assert.equal((await person.ask(each)).status, 200, each);
  const page = await person.ask(path);
  assert.equal(page.status, 200);
  assert.match(page.text, /Probe: /);
  assert.equal((await person.ask('/users/nobody')).status, 404);
  assert.equal((await person.ask(`${path}/erase`, { method: 'POST' })).status, 403, 'without the token of a page');
  const done = await person.press(await person.ask(`${path}/erase`), 'Erase the user');
  assert.equal(done.path.split('?')[0], '/users');
  assert.match(done.text, /being erased/);
  assert.equal((await call(odd, 'GET', '/api/connections', undefined, own)).status, 503);
  const reader = new Pages(server.base);
  await reader.signIn(await stack.key(own.id, ['--scopes', 'read']));
  for (const each of ['/users', '/users/odette', '/users/odette/erase']) assert.equal((await reader.ask(each)).status, 403, each);
});

test('other pages show one user’s rows, and what is done there is done for that user', async () => {
  const odd = "o'hara/&?#%", user = `user=${encodeURIComponent(odd).replaceAll("'", '%27')}`;
  const own = await stack.account('with more pages', { apps: ['probe'] });
  const options = { key: own.key };
  await echo(odd, options);
  await echo('other', options);
  const reader = new Pages(server.base);
  await reader.signIn(own.key);

  // the user in the address
  for (const path of ['/flows', '/executions', '/connections', '/approvals', '/audit', '/audit.csv', '/integrations', '/integrations/probe', '/flows/new', '/events', '/flows/01900000-0000-7000-8000-000000000000/approve']) {
    const method = path.endsWith('approve') ? 'POST' : 'GET';
    const unknown = await reader.ask(`${path}?user=nobody`, { method });
    assert.equal(unknown.status, 404, path);
    assert.match(unknown.text, /The account has no end user with the id nobody\./, path);
    assert.ok(!unknown.text.includes('with more pages'), path);
    for (const bad of ['user=', 'user=a%20b', `user=${'a'.repeat(256)}`, `${user}&${user}`, 'user=other&user=nobody', 'user=%7F'])
      assert.equal((await reader.ask(`${path}?${bad}`, { method })).status, 400, `${path} ${bad}`);
  }
  for (const path of ['/', '/keys', '/keys/new', '/users', '/users/other', '/sign-out', '/integrations/probe/client/delete']) {
    const refused = await reader.ask(`${path}?user=other`);
    assert.equal(refused.status, 400, path);
    assert.match(refused.text, /of the account alone/);
  }
  for (const path of ['/docs', '/sign-in']) assert.ok((await reader.ask(`${path}?user=nobody`)).status < 400, path);
  assert.equal(await users(own), 2);

  // an app is connected for the user, runs through it, and the account's own rows stay as they were
  const page = await reader.ask(`/integrations/probe?${user}`);
  assert.match(page.text, /End user <strong>o&#39;hara/);
  const connected = await reader.press(page, 'Connect Probe', { token: GOOD });
  assert.ok(connected.path.includes(user), connected.path);
  const id = (await call(odd, 'GET', '/api/connections', undefined, options)).json.connections[0].id;
  const rows = await stack.cluster.sql(`select account_id || ' ' || parent_id from sluice.connection where id = ${id}`);
  assert.equal(rows, `${await userId(odd, own)} ${own.id}`);
  assert.ok((await reader.ask(`/connections?${user}`)).text.includes(`href="/connections/${id}?${user}"`));
  assert.equal((await reader.ask(`/connections/${id}`)).status, 404);
  assert.equal((await reader.ask(`/connections/${id}?user=other`)).status, 404);
  const tested = await reader.press(await reader.ask(`/connections/${id}?${user}`), 'Test it');
  assert.match(tested.text, /the connection works/);
  const ran = (await echo(odd, options)).json.execution_id;
  // calls are counted for the account: a user's pages show no chart that says there were none
  for (const path of [`/connections/${id}`, '/integrations/probe']) assert.doesNotMatch((await reader.ask(`${path}?${user}`)).text, /No calls|last 24 hours/, path);
  assert.match((await reader.ask(`/connections/${id}?${user}`)).text, /What uses it/);
  const [form] = formsOf((await reader.ask(`/executions/${ran}/again?${user}`)).text).filter(({ buttons }) => buttons.includes('Run it'));
  const again = await reader.ask(form.action, { method: 'POST', fields: { ...form.fields, input: '{"value":2}' } });
  assert.deepEqual([again.status, again.location?.endsWith(user)], [303, true], again.text);
  assert.equal((await call(odd, 'GET', '/api/executions', undefined, options)).json.executions.length, 2);
  assert.equal((await call(undefined, 'GET', '/api/executions', undefined, options)).json.executions.length, 0);

  // a decision is the same op and the same event as over the API with the header
  const flows = [];
  for (let at = 0; at < 2; at++) flows.push((await call(odd, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: `x${at}` } }, options)).json.flowId);
  for (const flow of flows) await until('it waits', async () => (await call(odd, 'GET', `/api/flows/${flow}`, undefined, options)).json.flow.status === 'waiting');
  assert.equal((await reader.ask(`/flows/${flows[0]}`)).status, 404);
  const inbox = await reader.ask(`/approvals?${user}`);
  for (const flow of flows) assert.ok(inbox.text.includes(`/flows/${flow}?${user}`));
  assert.ok(!(await reader.ask('/approvals')).text.includes(flows[0]));
  const decided = await reader.press(await reader.ask(`/flows/${flows[0]}?${user}`), 'Approve 1 write');
  assert.ok(decided.path.includes(user), decided.path);
  const { currentStep: stepKey } = (await call(odd, 'GET', `/api/flows/${flows[1]}`, undefined, options)).json.flow;
  assert.equal((await call(odd, 'POST', `/api/flows/${flows[1]}/approve`, { stepKey }, options)).status, 200);
  const events = (await call(odd, 'GET', '/api/audit?kind=flow.approved', undefined, options)).json.events;
  assert.deepEqual(events.map(({ details }) => details.flow_id).sort(), [...flows].sort());
  const [one, two] = events.map(({ id: _, at, address, request_id, details, ...rest }) => ({ ...rest, details: Object.keys(details).filter((name) => name !== 'by').sort() })); // a page says that it was one
  assert.deepEqual(one, two);
  assert.deepEqual((await call(undefined, 'GET', '/api/audit?kind=flow', undefined, options)).json.events, []);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${await userId(odd, own)}' and parent_id is distinct from '${own.id}'`), '0');

  // the keys are the account's, and are named on the user's pages
  const keyName = await stack.cluster.sql(`select coalesce(nullif(name, ''), prefix || '…') from sluice.api_key where account_id = '${own.id}'`);
  const waiting = (await call(odd, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'y' } }, options)).json.flowId;
  await until('it waits', async () => (await call(odd, 'GET', `/api/flows/${waiting}`, undefined, options)).json.flow.status === 'waiting');
  for (const at of [`/executions/${ran}`, '/executions', '/approvals', '/flows', `/connections/${id}`]) {
    const text = (await reader.ask(`${at}?${user}`)).text.replace(/<[^>]*>/g, ' ');
    assert.ok(text.includes(keyName), `${at} names ${keyName}`);
    assert.ok(!/deleted key|that was deleted|key:0/.test(text), at);
  }

  // lists keep to the user from page to page and in their forms; a file of events has that user's alone
  const list = await reader.ask(`/executions?${user}`);
  assert.ok(list.text.includes(`<input type="hidden" name="user" value="o&#39;hara/&amp;?#%">`), 'a form sent by GET');
  const csv = await reader.ask(`/audit.csv?${user}`);
  assert.ok(csv.text.includes('flow.approved') && !csv.text.includes('key.created'));

  // the key's rights decide, as over the API
  const weak = new Pages(server.base);
  await weak.signIn(await stack.key(own.id, ['--scopes', 'read']));
  assert.equal((await weak.ask(`/flows?${user}`)).status, 200);
  for (const path of ['/audit', '/flows/new']) for (const one of [user, 'user=nobody']) assert.equal((await weak.ask(`${path}?${one}`)).status, 403, `${path} ${one}`);
  assert.equal((await weak.ask(`/connections/${id}/delete?${user}`)).status, 403);

  // a form whose session has ended comes back for the same user
  const typed = await reader.ask(`/flows/new?template=probe_approve&${user}`);
  reader.cookies.clear();
  const signIn = await reader.press(typed, 'Start', { 'input.subject': 'typed' }, { follow: false });
  assert.equal(signIn.status, 401);
  const back = await reader.press(signIn, 'Sign in', { key: own.key }, { follow: false });
  assert.match(back.text, /value="typed"/);
  // but not if its address names two: it would act for the account
  const [typedForm] = formsOf(typed.text).filter(({ buttons }) => buttons.includes('Start'));
  const lostReader = new Pages(server.base);
  const lost = await lostReader.ask(`${typedForm.action}&user=other`, { method: 'POST', fields: { ...typedForm.fields, 'input.subject': 'typed' } });
  assert.equal(lost.status, 401);
  const elsewhere = await lostReader.press(lost, 'Sign in', { key: own.key }, { follow: false });
  assert.ok(!/value="typed"/.test(elsewhere.text), elsewhere.text);
  const started = await reader.press(back, 'Start');
  assert.ok(started.path.endsWith(`?${user}`) || started.path.includes(`&${user}`), started.path);
  assert.deepEqual((await call(undefined, 'GET', '/api/flows', undefined, options)).json.flows, []);

  // shared connections are listed without a page of their own; an erased user has no pages
  const shared = await stack.connect(own.id, 'probe', { token: GOOD }, ['--label', 'Team']);
  assert.equal((await call(undefined, 'PATCH', `/api/connections/${shared}`, { shared: true }, options)).status, 200);
  const theirs = await reader.ask('/connections?user=other');
  assert.match(theirs.text, /Probe: Team/);
  assert.ok(!theirs.text.includes(`/connections/${shared}`));
  assert.match((await reader.ask('/connections')).text, /for all end users/);
  assert.equal((await reader.ask(`/connections/${shared}`)).status, 200);
  assert.match((await reader.ask('/integrations?user=other')).text, /Probe/);
  const app = await reader.ask('/integrations/probe?user=other');
  assert.match(app.text, /<h3>Team<\/h3>\s*<p class="soft">shared by the account</);
  assert.ok(!app.text.includes(`/connections/${shared}`));
  assert.ok((await reader.ask('/integrations/probe')).text.includes(`<h3><a href="/connections/${shared}">Team</a></h3>`));
  // a flow that the user's page starts may name one
  const mail = await stack.connect(own.id, 'gmail', { access_token: GOOD }, ['--label', 'Mailbox']);
  const offered = async (query) => [...(await reader.ask(`/flows/new?template=unread_mail_summary${query}`)).text.matchAll(/<option value="(\d+)">([^<]*)</g)].map(([, ...one]) => one);
  assert.deepEqual(await offered('&user=other'), []);
  assert.equal((await call(undefined, 'PATCH', `/api/connections/${mail}`, { shared: true }, options)).status, 200);
  assert.deepEqual(await offered(''), [[`${mail}`, 'Mailbox']]);
  assert.deepEqual(await offered('&user=other'), [[`${mail}`, 'Mailbox, shared by the account']]);
  const summary = await reader.press(await reader.ask('/flows/new?template=unread_mail_summary&user=other'), 'Start', { 'input.mailConnectionId': `${mail}` });
  const [, read] = summary.path.match(/\/flows\/([0-9a-f-]{36})/);
  await until('its calls have run', async () => (await call('other', 'GET', `/api/flows/${read}`, undefined, options)).json.flow.status === 'completed');
  // what ran through it, and what will, says so, without a link
  const lent = (await echo('other', options)).json.execution_id;
  const asked = (await call('other', 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'z' } }, options)).json.flowId;
  await until('it waits', async () => (await call('other', 'GET', `/api/flows/${asked}`, undefined, options)).json.flow.status === 'waiting');
  for (const at of [`/executions/${lent}`, `/flows/${asked}`]) {
    const { text } = await reader.ask(`${at}?user=other`);
    assert.match(text, /Team, shared by the account/, at);
    assert.ok(!text.includes(`/connections/${shared}`), at);
  }
  const repeat = await reader.ask(`/executions/${lent}/again?user=other`);
  assert.match(repeat.text, /Team/);
  assert.ok(!/was deleted/.test(repeat.text));
  assert.equal((await erase(odd, options)).status, 202);
  const gone = await until('its pages are closed', async () => {
    const reply = await reader.ask(`/flows?${user}`);
    return reply.status !== 200 && reply;
  });
  assert.equal(gone.status, 503);
  assert.match(gone.text, /is being erased/);
});
