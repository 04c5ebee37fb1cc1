// Tenants and secrets: no account sees or uses another's objects, no secret leaves the server in a
// log, a dump, a metric or a reply, and a sealed credential opens only in its row.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { requestsWith } from './support/matrix.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { rowsOf as countsOf, tablesOfAccounts } from './support/rows.mjs';
import { Scripted } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

// Unique strings, so that finding one means that it leaked.
const TOKEN_A = 'ya29.sentinel-of-a-Zx81';
const TOKEN_B = 'ya29.sentinel-of-b-Qw47';

let stack, server, receiver, a, b;
const secrets = new Map([
  ['token of a', TOKEN_A],
  ['token of b', TOKEN_B],
]);
// Every byte of every reply, except for the keys that commands print on purpose.
const replies = [];

before(async () => {
  receiver = await Scripted.start((request, reply) => reply.writeHead(204).end());
  stack = await Stack.start({ tokens: [`gmail=${TOKEN_A}`, `gmail=${TOKEN_B}`] });
  a = await stack.account('tenant a', { apps: [] });
  b = await stack.account('tenant b', { apps: [] });
  a.gmail = await stack.connect(a.id, 'gmail', { access_token: TOKEN_A, refresh_token: 'refresh-sentinel-1f' });
  b.gmail = await stack.connect(b.id, 'gmail', { access_token: TOKEN_B });
  secrets.set('key of a', a.key);
  secrets.set('key of b', b.key);
  secrets.set('refresh token', 'refresh-sentinel-1f');
  secrets.set('master key', (await readFile(stack.masterKeyFile, 'utf8')).trim());
  server = await serve();
  for (const account of [a, b]) await equip(account);
});
after(async () => {
  await receiver?.stop();
  await stack?.stopWell(assert);
});

const serve = () => stack.serve({ args: ['--webhook-host', '127.0.0.1'], env: { SLUICE_LOG_LEVEL: 'debug' } });

// An endpoint of its events, and a key whose writes wait for an approval. The replies have secrets.
async function equip(account) {
  const make = async (method, path, body) => {
    const reply = await server.call(account.key, method, path, body);
    assert.ok(reply.status < 300, reply.text);
    return reply.json;
  };
  const { secret } = await make('POST', '/api/webhooks', { url: `${receiver.url}/${account.id}`, events: ['flow.waiting', 'connection.connected'] });
  await make('PUT', '/api/policies/asks', { policy: { default: 'allow', rules: [{ side_effect: ['write'], decision: 'hold', reason: `reason-of-${account.id}` }] } });
  account.asker = (await make('POST', '/api/keys', { name: 'asks', policy: 'asks', scopes: ['read', 'execute'] })).key;
  secrets.set(`endpoint of ${account.id}`, secret);
  secrets.set(`asker of ${account.id}`, account.asker);
}

async function call(key, method, path, body, headers) {
  const reply = await server.call(key, method, path, body, headers);
  replies.push(reply.text, ...reply.headers.values());
  return reply;
}

const execute = (key, action_id, input, more = {}, integration_id = 'gmail') =>
  call(key, 'POST', '/api/executions', { integration_id, action_id, input, ...more });
const mail = (subject) => ({ to: 'x@example.com', subject, text: 'x' });

test('an execution belongs to its own account', async () => {
  const own = await execute(a.key, 'list_labels', {});
  assert.equal(own.status, 200, own.text);
  const path = `/api/executions/${own.json.execution_id}`;
  assert.equal((await call(a.key, 'GET', path)).status, 200);
  const other = await call(b.key, 'GET', path);
  assert.equal(other.status, 404);
  assert.deepEqual(other.json, { error: 'Execution not found' });
  // the same reply as for an execution that never existed
  const none = await call(b.key, 'GET', '/api/executions/01900000-0000-7000-8000-000000000000');
  assert.equal(none.text, other.text);
  const failed = await execute(a.key, 'get_message', { id: 'ffffffffffffffff' });
  assert.equal(failed.status, 500, failed.text);
  assert.equal((await call(b.key, 'GET', `/api/executions/${failed.json.execution_id}`)).status, 404);
});

test('an idempotency key belongs to its own account', async () => {
  const more = { confirm: true, idempotency_key: 'the same key' };
  const first = await execute(a.key, 'send_message', mail('from a'), more);
  const second = await execute(b.key, 'send_message', mail('from b'), more);
  assert.deepEqual([first.status, second.status], [200, 200], second.text);
  assert.equal(second.headers.get('idempotent-replayed'), null);
  assert.notEqual(first.json.execution_id, second.json.execution_id);
  const again = await execute(b.key, 'send_message', mail('from b'), more);
  assert.equal(again.text, second.text);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
});

test('connections belong to their own account', async () => {
  const bare = await stack.account('tenant without apps', { apps: [] });
  secrets.set('key of c', bare.key);
  const blocked = await execute(bare.key, 'list_labels', {});
  assert.equal(blocked.status, 409);
  assert.equal(blocked.json.error_code, 'integration_not_connected');
  assert.deepEqual(blocked.json.recommended_next_action, {
    tool: 'sluice.connect_app',
    input: { integration_id: 'gmail' },
  });
  const list = await call(bare.key, 'GET', '/api/integrations?connected_only=true');
  assert.deepEqual(list.json.items, []);
  const wrong = await stack.sluice(['connections', 'remove', bare.id, a.gmail]);
  assert.equal(wrong.code, 1);
  assert.equal((await execute(a.key, 'list_labels', {})).status, 200);
});

test('several connections: the default is used, none is ambiguous', async () => {
  const c = await stack.account('tenant with two', { apps: [] });
  secrets.set('key of d', c.key);
  const first = await stack.connect(c.id, 'gmail', { access_token: TOKEN_A }, ['--label', 'one']);
  const second = await stack.connect(c.id, 'gmail', { access_token: 'ya29.nobody' }, ['--label', 'two']);
  assert.equal((await execute(c.key, 'list_labels', {})).status, 200);
  await stack.must(['connections', 'default', c.id, second]);
  const isBlocked = async () => {
    const reply = await execute(c.key, 'list_labels', {});
    return reply.status !== 200 && reply;
  };
  const refused = await until('the new default is used', isBlocked);
  assert.equal(refused.status, 409, refused.text);
  assert.equal(refused.json.error_code, 'reauth_required');
  // once the connection is known to be dead, the hint names the live connection
  const known = await until('the hint names the other', async () => {
    const reply = await isBlocked();
    return reply.json.hint.includes(`one of ${first}.`) && reply;
  });
  assert.deepEqual([known.json.error_code, known.json.execution_id], ['reauth_required', null]);
  await stack.must(['connections', 'remove', c.id, second]);
  await until('the other is the default or the choice is ambiguous', async () => {
    const reply = await execute(c.key, 'list_labels', {});
    return reply.status === 200 || reply.json.error_code === 'policy_blocked';
  });
});

test('scopes of a key', async () => {
  const reader = await stack.key(a.id, ['--scopes', 'read']);
  const runner = await stack.key(a.id, ['--scopes', 'execute']);
  secrets.set('reader', reader);
  secrets.set('runner', runner);
  assert.equal((await call(reader, 'GET', '/api/integrations')).status, 200);
  const refused = await execute(reader, 'list_labels', {});
  assert.equal(refused.status, 403);
  assert.match(refused.json.error, /execute/);
  assert.equal((await execute(runner, 'list_labels', {})).status, 200);
  for (const path of ['/api/integrations', '/api/actions?integration_id=gmail', '/api/actions/gmail/list_labels']) {
    const reply = await call(runner, 'GET', path);
    assert.equal(reply.status, 403, path);
    assert.match(reply.json.error, /read/);
  }
});

// Every id of an object in any table that belongs to this account and not to the other: all of
// them, and one of each kind (of each column), if possible one of the known ones.
async function idsOf(account, other, known = []) {
  const columns = (await stack.cluster.sql(
    `select c.relname || ' ' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     and a.atttypid in ('uuid'::regtype, 'bigint'::regtype) and a.attnum > 0 and exists (select from pg_attribute k
     where k.attrelid = c.oid and k.attname = 'account_id')`,
  )).split('\n').map((line) => line.split(' '));
  const of = (id) => columns.map(([table, column]) =>
    `select '${table}.${column} ' || ${column} from sluice.${table} where account_id = '${id}' and length(${column}::text) > 9`).join(' union ');
  const pairs = async (id) => (await stack.cluster.sql(of(id))).split('\n').map((line) => line.split(' '));
  const others = new Set((await pairs(other)).map(([, value]) => value));
  const own = (await pairs(account)).filter(([, value]) => !others.has(value));
  own.sort(([, one], [, two]) => known.includes(one) - known.includes(two)); // of each column the last one stays
  return { all: [...new Set(own.map(([, value]) => value))], kinds: [...new Set([...known, ...new Map(own).values()])] };
}

// Each table has rows of this account or user, so that the ids of its rows are asked for, except those
// for which there is a reason.
async function assertRowsIn(owner, reasons) {
  const tables = new Set((await countsOf(stack, owner)).map((line) => line.split(' ')[0]));
  assert.deepEqual((await tablesOfAccounts(stack)).filter((table) => !tables.has(table)), Object.keys(reasons).sort());
}
const NO_ROWS = { oauth_begun: 'a person is at the vendor', rate_lease: 'limits are off', session_end: 'its ids are those of sessions' };
const delivered = (owner) => until('its events are delivered', async () =>
  (await stack.cluster.sql(`select bool_and(status = 'delivered') from sluice.delivery where account_id = '${owner}'`)) === 't');

// Stored rows, one per line. Last uses of keys and connections, and failures, are written some time
// later.
const rowsOf = async (account) =>
  (await stack.must(['accounts', 'export', account])).replace(/"(last_used_at|failed_at|failure)":("(\\\\.|[^"\\\\])*"|[^,}]*)/g, '').split('\n').sort();

// Asks every route for each of these names, as a caller that must not see them: no reply shows a marker,
// and an id gets the reply of an id that never existed.
async function showNothing(asker, names, markers) {
  const document = (await call(asker.key, 'GET', '/openapi.json')).json;
  const unknown = new Map();
  let count = 0;
  // Reads come first: the other requests create objects, which would then be in b's own lists.
  const requests = names.flatMap((id) => requestsWith(document, id).map((one) => ({ id, ...one })));
  for (const isRead of [true, false]) {
    for (const { id, method, route, path, body, isPathId } of requests.filter((one) => (one.method === 'GET') === isRead)) {
      count++;
      const reply = await call(asker.key, method, path, body, asker.headers);
      assert.ok(reply.status < 600 && reply.text !== undefined, `${method} ${path}`);
      // a reply may quote the request, but nothing else
      const text = (reply.text + [...reply.headers.values()].join()).replaceAll(id, '');
      for (const marker of markers) assert.ok(!text.includes(marker), `${method} ${path} shows ${marker}: ${reply.text}`);
      if (!isPathId || /[^0-9a-f-]/.test(id)) continue;
      assert.ok([400, 403, 404, 409].includes(reply.status), `${method} ${path}: ${reply.status} ${reply.text}`);
      // the same reply as for an id that never existed
      const key = `${method} ${route} ${path.split('?')[1]?.split('=')[0]} ${JSON.stringify(body)?.length}`;
      if (!/^[0-9a-f-]{36}$/.test(id) || path.includes('?')) continue;
      if (unknown.has(key)) assert.equal(reply.text, unknown.get(key), `${method} ${path}`);
      unknown.set(key, reply.text);
    }
  }
  return { count, unknown };
}

test('no route shows or changes another account’s objects', async () => {
  const LABEL = 'label-that-only-a-knows';
  const extra = await stack.connect(a.id, 'probe', { token: TOKEN_A }, ['--label', LABEL]);
  const written = await execute(a.key, 'send_message', mail('subject-that-only-a-knows'), { confirm: true, idempotency_key: 'key-that-only-a-knows' });
  assert.equal(written.status, 200, written.text);
  const failed = await execute(a.key, 'get_message', { id: 'id-that-only-a-knows' });
  assert.equal(failed.status, 500, failed.text);
  assert.equal((await execute(a.key, 'action-that-only-a-knows', {})).status, 409);
  const held = await execute(a.asker, 'send_message', mail('held-that-only-a-knows'));
  assert.ok(held.json.approval, held.text);
  for (const [method, path, body, headers] of [
    ['POST', '/api/connect/sessions', { integration_id: 'gmail' }],
    ['PUT', '/api/oauth-clients/notion', { client_id: 'client-that-only-a-knows' }],
    ['POST', '/api/connect/sessions', { integration_id: 'gmail' }, { 'sluice-user': 'user-that-only-a-knows' }],
  ]) assert.ok((await call(a.key, method, path, body, headers)).status < 300, path);
  // flows that wait for an approval, and some that have ended
  const flows = [];
  for (const [flowTemplate, input, status] of [
    ['mail_with_reminder', { ...mail('flow-that-only-a-knows') }, 'waiting'],
    ['unread_mail_summary', { maxResults: 1 }, 'completed'],
    ['probe_fan', { subjects: ['item-that-only-a-knows'], confirm: true }, 'completed'],
  ]) {
    const started = await call(a.key, 'POST', '/api/flows/start', { flowTemplate, input });
    assert.equal(started.status, 200, started.text);
    flows.push(started.json.flowId);
    await until(`the flow is ${status}`, async () =>
      (await call(a.key, 'GET', `/api/flows/${started.json.flowId}`)).json.flow.status === status);
  }
  await until('the blocked run is written', async () =>
    (await call(a.key, 'GET', '/api/audit')).text.includes('action-that-only-a-knows'));

  const { all, kinds: ids } = await idsOf(a.id, b.id, [a.gmail, written.json.execution_id, held.json.approval.flow_id, ...flows].map(String));
  for (const id of [a.id, a.gmail, extra, written.json.execution_id, failed.json.execution_id, ...flows]) assert.ok(all.includes(id), id);
  assert.ok(ids.length >= 10, ids.join());
  const markers = [...all, LABEL, 'that-only-a-knows', `reason-of-${a.id}`];
  await delivered(a.id);
  await server.stop(); // its counts are in rows, too, before any are compared
  server = await serve();
  await assertRowsIn(a.id, NO_ROWS);
  const before = await rowsOf(a.id);
  const named = ['key-that-only-a-knows', 'subject-that-only-a-knows', 'user-that-only-a-knows', 'asks', LABEL];
  const { count, unknown } = await showNothing(b, [...ids, ...named], markers);
  assert.ok(count > 300 && unknown.size > 0, `${count} requests`);
  assert.deepEqual(await rowsOf(a.id), before);
  // the account itself still reaches each object that can be reached
  for (const { execution_id } of (await call(a.key, 'GET', '/api/executions?limit=100')).json.executions)
    assert.equal((await call(a.key, 'GET', `/api/executions/${execution_id}`)).status, 200);
  for (const id of flows) assert.equal((await call(a.key, 'GET', `/api/flows/${id}`)).status, 200);
  assert.deepEqual((await call(b.key, 'GET', '/api/flows')).json.flows, []);
  assert.equal((await call(a.key, 'POST', `/api/flows/${flows[0]}/cancel`)).status, 200);
  assert.ok((await call(a.key, 'GET', '/api/audit?limit=100')).text.includes('action-that-only-a-knows'));
});

// The same over /mcp: every tool, with the name in every argument that could take it, and every way to
// read, follow or end a task or a resource.
async function showNothingToAgents(asker, names, markers) {
  const mcp = new Mcp(server.base, asker.key);
  const options = { headers: asker.headers, capabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } };
  const { tools } = (await mcp.ask('tools/list', {}, options)).result;
  let count = 0;
  const ask = async (method, params, id) => {
    const stream = await mcp.stream(method, params, options);
    const message = await stream.next();
    stream.close();
    count++;
    const text = JSON.stringify(message).replaceAll(String(id), '');
    for (const marker of markers) assert.ok(!text.includes(marker), `${method} ${JSON.stringify(params)} shows ${marker}: ${text}`);
    return message;
  };
  const rest = { integration_id: 'probe', action_id: 'echo', input: { value: 1 }, template: 'probe_wait', query: 'x' };
  const takesName = (schema) => [schema.type].flat().some((type) => ['string', 'integer', 'number', undefined].includes(type));
  const neededBy = ({ required = [] }) => Object.fromEntries(required.filter((one) => rest[one] !== undefined).map((one) => [one, rest[one]]));
  // the name in each argument; in a list, as an item and in each argument of one call of it
  const one = tools.find(({ name }) => name === 'run_action')?.inputSchema;
  const argumentsWith = (inputSchema, id) => Object.entries(inputSchema.properties ?? {}).flatMap(([member, schema]) => {
    const values = takesName(schema) ? [id] : [];
    if (schema.type === 'array') values.push([id], ...(one && schema.items?.type === 'object' ? argumentsWith(one, id).map((item) => [item]) : []));
    return values.map((value) => ({ ...neededBy(inputSchema), [member]: value }));
  });
  for (const id of names) {
    for (const { name, inputSchema } of tools)
      for (const given of argumentsWith(inputSchema, id)) await ask('tools/call', { name, arguments: given }, id);
    for (const kind of ['executions', 'flows']) {
      const uri = `sluice://${kind}/${id}`;
      assert.ok((await ask('resources/read', { uri }, id)).error, uri);
      const granted = (await ask('subscriptions/listen', { notifications: { resourceSubscriptions: [uri], taskIds: [id] } }, id)).params?.notifications;
      assert.deepEqual(granted ?? {}, {}, uri);
    }
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update'])
      assert.ok((await ask(method, { taskId: id, ...(method === 'tasks/update' && { inputResponses: {} }) }, id)).error, method);
  }
  return count;
}

// Every page of the dashboard, with the name wherever an address takes one, as the reader signed in
// would ask for it; then every form, with the token of the reader's session.
async function showNothingOnPages(reader, user, names, markers) {
  const source = await readFile(join(import.meta.dirname, '../../src/web/web.c'), 'utf8');
  const routes = [...source.matchAll(/HTTP_METHOD_(GET|POST), "(\/[^"]*)"/g)].map(([, method, path]) => ({ method, path }));
  assert.ok(routes.length > 50, String(routes.length));
  const token = formsOf((await reader.ask('/connections')).text).find(({ fields }) => fields.csrf).fields.csrf;
  const as = (path) => (user === undefined ? path : `${path}${path.includes('?') ? '&' : '?'}user=${encodeURIComponent(user)}`);
  let count = 0;
  for (const isRead of [true, false])
    for (const { method, path } of routes.filter((one) => (one.method === 'GET') === isRead)) {
      if (/^\/(sign-|assets|connect\/|keys|users)|\/events$/.test(path)) continue; // of no user, or streams
      for (const name of path.includes('{') || !isRead ? names : ['', ...names]) {
        const at = path.replace('/integrations/{id}', '/integrations/probe').replace('{action}', 'echo').replace(/\{\w+\}/, encodeURIComponent(name));
        const query = path.includes('{') || name === '' ? '' : `?q=${encodeURIComponent(name)}&before=${encodeURIComponent(name)}&by=${encodeURIComponent(name)}`;
        const reply = await reader.ask(as(at + query), isRead ? {} : { method, fields: { csrf: token, connection: name, id: name }, headers: { origin: reader.base } });
        count++;
        assert.ok(reply.status < 500 || (reply.status === 503 && !isRead), `${method} ${at}: ${reply.status}`);
        replies.push(reply.text);
        const text = (reply.text + (reply.location ?? '')).replaceAll(encodeURIComponent(name), '').replaceAll(name, '');
        for (const marker of markers) assert.ok(!text.includes(marker), `${method} ${as(at + query)} shows ${marker}: ${text.slice(Math.max(0, text.indexOf(marker) - 200)).slice(0, 400)}`);
      }
    }
  return count;
}

test('no route shows or changes another user’s objects', async () => {
  const as = (user, key = a.key) => ({ key, headers: user === undefined ? {} : { 'sluice-user': user } });
  const by = (caller, method, path, body) => call(caller.key, method, path, body, caller.headers);
  // Connects an app over a link, and runs a read, a write and a flow that waits.
  const live = async (caller, mark) => {
    const link = await by(caller, 'POST', '/api/connect/sessions', { integration_id: 'probe' });
    assert.equal(link.status, 201, link.text);
    const person = new Pages(server.base);
    const page = await person.press(await person.ask(new URL(link.json.url).pathname), 'Continue');
    assert.equal((await person.press(page, 'Connect Probe', { token: TOKEN_A })).status, 200);
    const run = async (action_id, input, more) => {
      const reply = await by(caller, 'POST', '/api/executions', { integration_id: 'probe', action_id, input, ...more });
      assert.equal(reply.status, 200, reply.text);
      return reply.json.execution_id;
    };
    const started = await by(caller, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: `flow-${mark}` } });
    assert.equal(started.status, 200, started.text);
    await until('the flow waits', async () => (await by(caller, 'GET', `/api/flows/${started.json.flowId}`)).json.flow.status === 'waiting');
    const held = await by({ ...caller, key: caller.key === a.key ? a.asker : b.asker }, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: `held-${mark}` } });
    assert.ok(held.json.approval, held.text);
    const fan = await by(caller, 'POST', '/api/flows/start', { flowTemplate: 'probe_fan', input: { subjects: [`item-${mark}`], confirm: true } });
    await until('the flow has ended', async () => (await by(caller, 'GET', `/api/flows/${fan.json.flowId}`)).json.flow.status === 'completed');
    return {
      held: held.json.approval.flow_id,
      link: link.json.id,
      connection: (await by(caller, 'GET', `/api/connect/sessions/${link.json.id}`)).json.connection_id,
      read: await run('echo', { value: `read-${mark}` }),
      write: await run('send', { subject: `write-${mark}` }, { confirm: true, idempotency_key: `key-${mark}` }),
      flow: started.json.flowId,
    };
  };
  const ada = as('ada');
  // what the account shares shows nothing of a user, and nothing to another account
  assert.equal((await call(a.key, 'PATCH', `/api/connections/${a.gmail}`, { shared: true })).status, 200);
  for (const caller of [as('nobody', b.key), as(undefined, b.key)]) assert.ok(!(await by(caller, 'GET', '/api/connections')).text.includes(a.gmail));
  assert.equal((await by(as('nobody', b.key), 'GET', `/api/connections/${a.gmail}`)).status, 404);
  const own = await live(ada, 'that-only-ada-has');
  const send = async (caller, subject) => {
    const reply = await by(caller, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: mail(subject), confirm: true });
    assert.equal(reply.status, 200, reply.text);
    return reply.json.execution_id;
  };
  const sent = await send(ada, 'mail-that-only-ada-has'); // through what the account shares
  // the operator's rows, which no user without rows may meet
  await stack.cluster.sql(`insert into sluice.flow select '00000000-0000-0000-0000-000000000000', id, template_key, template_version, trigger_type, 'cancelled', rev, op_token, null, step_index, attempt, is_begun, adoptions, null, wake_at, deadline, created_at, updated_at, null from sluice.flow where id = '${own.flow}'`);
  const bob = as('bob');
  await live(bob, 'of-bob');
  await send(bob, 'mail-of-bob');
  const twin = as('ada', b.key);
  await live(twin, 'of-the-twin');
  const userId = await stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${a.id}' and external_id = 'ada'`);
  const bobId = await stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${a.id}' and external_id = 'bob'`);
  const { all, kinds } = await idsOf(userId, bobId, Object.values(own).map(String));
  for (const id of Object.values(own)) assert.ok(all.includes(String(id)), `${id} of ${all}`);
  // every id for one asker, and one of each column for the others
  const words = ['key-that-only-ada-has', 'mail-that-only-ada-has', 'flow-that-only-ada-has'];
  const namesFor = (asker) => [...new Set([...kinds, ...(asker === bob ? all : []), ...words])];
  const ofAda = async () => (await rowsOf(a.id)).filter((row) => row.includes(`"account_id":"${userId}"`));
  await delivered(userId);
  await server.stop();
  server = await serve();
  const ofAccount = 'its rows are those of the account';
  await assertRowsIn(userId, { ...NO_ROWS, account: ofAccount, account_user: ofAccount, api_key: ofAccount, oauth_client: ofAccount, policy: ofAccount, tally: ofAccount, usage: ofAccount, webhook: ofAccount });
  const before = await ofAda();
  assert.ok(before.length >= 6, before.join('\n'));
  // another user, and the same external id of a third account, by keys that need no header
  const c = await stack.account('tenant c', { apps: [] });
  secrets.set('key of the third', c.key);
  const keyOf = async (key, user) => {
    const made = await server.call(key, 'POST', '/api/keys', { name: 'of a user', scopes: ['read', 'execute', 'approve', 'admin'], user });
    assert.equal(made.status, 201, made.text);
    secrets.set(`key of ${user} ${made.json.id}`, made.json.key);
    return { key: made.json.key };
  };
  const keyed = [await keyOf(a.key, 'carl'), await keyOf(c.key, 'ada')];
  // the dashboard: as another user, an unknown one, the account itself; and another account, for its own ada
  const readers = new Map();
  for (const { key } of [a, b]) {
    readers.set(key, new Pages(server.base));
    await readers.get(key).signIn(key);
  }
  for (const [{ key }, user] of [[a, 'bob'], [a, 'never-seen'], [a, undefined], [b, 'ada'], [b, undefined]]) {
    const markers = [...all.filter((id) => id !== a.id), 'that-only-ada-has'];
    assert.ok((await showNothingOnPages(readers.get(key), user, [own.write, own.flow, own.held, String(own.connection), own.link], markers)) > 80);
  }
  for (const asker of [bob, as('never-seen'), as(undefined), twin, as(undefined, b.key), ...keyed]) {
    // what the asker's account may know: its own id and key
    const markers = [...all.filter((id) => id !== a.id), 'that-only-ada-has'];
    const { count } = await showNothing(asker, namesFor(asker), markers);
    assert.ok(count > 200, `${count} requests`);
    assert.ok((await showNothingToAgents(asker, [own.read, own.flow, own.held, String(own.connection), own.link], markers)) > 60);
  }
  assert.deepEqual(await ofAda(), before);
  // her own pages do, and their links stay with her
  const page = (path) => readers.get(a.key).ask(path);
  for (const [path, shown] of [['/flows', own.flow], ['/executions', own.write], ['/connections', own.connection], ['/approvals', own.flow], ['/audit', 'An app was connected'], [`/flows/${own.flow}`, 'flow-that-only-ada-has'],
    [`/flows/${own.held}`, 'held-that-only-ada-has'], ['/executions?q=mail-that-only-ada-has', sent], [`/executions/${own.read}`, 'read-that-only-ada-has'], [`/connections/${own.connection}`, 'Probe'], ['/integrations/probe', `/connections/${own.connection}?user=ada`]]) {
    const { status, text } = await page(`${path}${path.includes('?') ? '&' : '?'}user=ada`);
    assert.equal(status, 200, path);
    assert.ok(text.includes(String(shown)), `${path}: ${text.slice(text.indexOf("<h1>"))}`);
    for (const [, target] of text.matchAll(/ (?:href|action|data-page|data-live)="(\/(?:approvals|audit|connections|events|executions|flows|integrations)[^"]*)"/g)) assert.match(target, /[?;]user=ada(#|$|&)/, `${path}: ${target}`);
    for (const [, target] of text.matchAll(/ (?:href|action)="(\/(?:docs|keys|users|sign-out)?(?:[?/][^"]*)?)"/g)) assert.ok(!target.includes('user='), `${path}: ${target}`);
  }
  // the user itself still reaches all of it
  assert.equal((await by(ada, 'GET', `/api/executions/${own.write}`)).status, 200);
  assert.equal((await by(ada, 'GET', `/api/connections/${own.connection}`)).status, 200);
  assert.equal((await by(ada, 'POST', `/api/flows/${own.flow}/cancel`)).status, 200);
});

const isRefused = (key) => async () => {
  const reply = await call(key, 'GET', '/api/integrations');
  if (reply.status === 401) assert.deepEqual(reply.json, { error: 'Missing or invalid API key' });
  else assert.equal(reply.status, 200);
  return reply.status === 401;
};

test('a key that has expired, was revoked, or whose account is disabled', async () => {
  const expiring = await stack.key(a.id, ['--expires', '2s']);
  const lasting = await stack.key(a.id, ['--expires', '1h']);
  const revoked = await stack.key(a.id, ['--name', 'to be revoked', '--json']);
  const { id, key } = JSON.parse(revoked);
  secrets.set('expiring', expiring);
  secrets.set('revoked', key);
  secrets.set('lasting', lasting);
  assert.equal((await call(lasting, 'GET', '/api/integrations')).status, 200);
  assert.equal((await call(key, 'GET', '/api/integrations')).status, 200);
  await until('the key has expired', isRefused(expiring));
  await stack.must(['keys', 'revoke', a.id, id]);
  await until('the revoked key is refused', isRefused(key));
  await stack.must(['accounts', 'disable', 'tenant b']);
  await until('the account is disabled', isRefused(b.key));
  await stack.must(['accounts', 'enable', 'tenant b']);
  await until('the account is enabled', async () => !(await isRefused(b.key)()));
  const listed = await stack.must(['keys', 'list', a.id]);
  assert.match(listed, /revoked/);
  assert.match(listed, /expired/);
  for (const [name, secret] of secrets) assert.ok(!listed.includes(secret), name);
});

test('a sealed credential opens only in its own row', async () => {
  const c = await stack.account('tenant of the thief', { apps: [] });
  secrets.set('key of e', c.key);
  const stolen = await stack.connect(c.id, 'gmail', { access_token: 'ya29.worthless' });
  // a user's row is another row, too
  assert.equal((await call(c.key, 'POST', '/api/connections', { integration_id: 'probe', credential: { token: TOKEN_A } }, { 'sluice-user': 'mole' })).status, 201);
  const row = await stack.cluster.sql(`select sealed, key_id from sluice.connection where id = ${a.gmail}`);
  const [sealed, key] = row.split('|');
  await stack.cluster.sql(
    `update sluice.connection set sealed = '${sealed}', key_id = '${key}', rev = rev + 1
     where (account_id = '${c.id}' and id = ${stolen}) or parent_id = '${c.id}'`,
  );
  const calls = [() => execute(c.key, 'list_labels', {}), () => call(c.key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, { 'sluice-user': 'mole' })];
  for (const ask of calls) {
    const reply = await until('the server has read the row', async () => {
      const one = await ask();
      return one.json.error_code === 'reauth_required' && one;
    });
    assert.equal(reply.status, 409);
    assert.equal(reply.json.execution_id, null);
    assert.equal(reply.json.recommended_next_action.input.force_reconnect, true);
  }
});

test('the master key is changed without losing a credential', async () => {
  const old = (await readFile(stack.masterKeyFile, 'utf8')).trim();
  const fresh = (await stack.must(['keys', 'master'])).trim();
  secrets.set('new master key', fresh);
  await writeFile(stack.masterKeyFile, `${fresh}\n${old}\n`);
  const both = await stack.serve();
  assert.equal((await both.execute(a.key, 'gmail', 'list_labels', {})).status, 200);
  // the stolen credential of the previous test cannot be re-sealed, and this is reported
  await stack.must(['accounts', 'disable', 'tenant of the thief']);
  const stuck = await stack.sluice(['keys', 'rotate']);
  assert.equal(stuck.code, 1);
  assert.match(stuck.stderr, /keep the old master keys/);
  const thief = await stack.cluster.sql(`select account_id from sluice.account where name = 'tenant of the thief'`);
  const [mole, ofMole] = (await stack.cluster.sql(`select account_id, id from sluice.connection where parent_id = '${thief}'`)).split('|');
  assert.match(stuck.stderr, new RegExp(`^connection \\d+ of account ${thief} \\(gmail\\): `, 'm'));
  assert.match(stuck.stderr, new RegExp(`^connection ${ofMole} of account ${thief}, user ${mole} \\(probe\\): `, 'm'));
  await stack.cluster.sql(`delete from sluice.connection where '${thief}' in (account_id, parent_id)`);
  await stack.must(['keys', 'rotate']);
  await writeFile(stack.masterKeyFile, `${fresh}\n`);
  const alone = await stack.serve();
  for (const { key } of [a, b]) assert.equal((await alone.execute(key, 'gmail', 'list_labels', {})).status, 200);
  // and a user's, which is sealed for the user
  assert.equal(await stack.cluster.sql('select count(distinct key_id) from sluice.connection'), '1');
  assert.ok(Number(await stack.cluster.sql('select count(*) from sluice.connection where parent_id is not null')) >= 3);
  const ofAda = await alone.call(a.key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, { 'sluice-user': 'ada' });
  assert.equal(ofAda.status, 200, ofAda.text);
  // The first server still has only the old key. It finds the new key in the row and says so.
  await writeFile(stack.masterKeyFile, `${old}\n`);
  const late = await stack.serve();
  const blocked = await late.execute(a.key, 'gmail', 'list_labels', {});
  assert.equal(blocked.status, 409, blocked.text);
  await writeFile(stack.masterKeyFile, `${fresh}\n`);
});

// The host of a connection, which a tenant may choose freely: one host is refused, and one does not
// answer.
test('the address of an internal name is not revealed', async () => {
  const host = (await readFile('/etc/hosts', 'utf8')).match(/^127[.0-9]*\s+(\S+)/m)[1];
  const inside = await stack.serve({ args: ['--allow-host', `${host}:2`] });
  for (const [port, code] of [[1, 'unsupported_operation'], [2, 'execution_failed']]) {
    const params = JSON.stringify({ base: `${host}:${port}` });
    await stack.connect(b.id, 'http', { api_key: 'x' }, ['--label', `port ${port}`, '--default', '--params', params]);
    let reply;
    // until the server is notified of the new default, it uses the previous one
    await until('it is in the log', async () => {
      reply = await inside.execute(b.key, 'http', 'list_resources', { resource: 'x' });
      return inside.log.includes(`"address":"127.0.0.1:${port}"`);
    });
    assert.equal(reply.json.error_code, code, reply.text);
    assert.match(reply.json.message, new RegExp(host));
    assert.doesNotMatch(reply.text, /127\.0|::1|loopback/);
  }
  await inside.stop();
});

test('no secret has leaked', async () => {
  // replies that quote what they refuse must not contain a secret
  await call(a.key, 'POST', '/api/executions', `{"x": "${TOKEN_A}`);
  await call(`${a.key}x`, 'GET', '/api/integrations');
  await call(a.key, 'GET', `/api/executions/${a.key}`);
  await call(a.key, 'GET', '/api/integrations', undefined, { 'x-request-id': 'a request' });
  await call(a.key, 'POST', '/api/executions/batch', { executions: [{ integration_id: 'gmail', action_id: TOKEN_A }] });
  for (const { key } of [a, b])
    for (const path of ['/api/executions', '/api/audit', '/api/integrations', '/openapi.json']) await call(key, 'GET', `${path}?limit=100`);
  const places = {
    replies: replies.join('\n').replaceAll(`/api/executions/${a.key}`, ''),
    metrics: await server.metrics(),
    dump: await stack.cluster.dump(),
    exports: (await Promise.all([a, b].map(({ id }) => stack.must(['accounts', 'export', id])))).join(),
    logs: stack.servers.map((one) => one.log).join('\n').replaceAll(`/api/executions/${a.key}`, ''),
  };
  for (const [place, text] of Object.entries(places)) {
    assert.ok(text.length > 1000, place);
    for (const [name, secret] of secrets) {
      assert.ok(!text.includes(secret), `${name} in ${place}`);
      const base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '');
      assert.ok(!text.includes(base64), `${name} in base64 in ${place}`);
      if (place === 'dump' || place === 'exports') assert.ok(!text.includes(Buffer.from(secret).toString('hex')), `${name} in hex in ${place}`);
    }
  }
});
