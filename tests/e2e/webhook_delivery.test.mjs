// What endpoints are sent, and when: each change of a flow once for each endpoint that hears it, in
// order, whatever crashes; retries, and endpoints that fail. webhooks.test.mjs has the endpoints
// themselves. With SOAK_SECONDS a server is killed at every step, not only around each statement.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted } from './support/scripted.mjs';
import { assertSigned, verify } from './support/signed.mjs';
import { Stack, credentials } from './support/stack.mjs';

const IS_LONG = Number(process.env.SOAK_SECONDS ?? 0) > 0;
let stack, account, one, two, receiver;
const got = []; // {path, headers, body, at}: messages at the receiver
const answers = {}; // path -> (request, reply)
const args = ['--webhook-host', '127.0.0.1', '--webhook-timeout', '2s', '--public-url', 'https://sluice.example.com'];

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 150 } });
  account = await stack.account('hearing');
  receiver = await Scripted.start(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const path = request.url;
    got.push({ path, headers: request.headers, body: Buffer.concat(parts).toString(), json: JSON.parse(Buffer.concat(parts)) });
    (answers[path] ?? (() => reply.writeHead(204).end()))(request, reply);
  });
  [one, two] = await Promise.all([stack.serve({ args }), stack.serve({ args })]);
});
after(async () => {
  await receiver?.stop();
  await stack?.stopWell(assert);
});

const at = (path) => got.filter((message) => message.path === path);
const call = (method, path, body, { server = one, key = account.key, headers } = {}) => server.call(key, method, path, body, headers);
let endpoints = 0;
async function listen(body = {}, options) {
  const path = body.path ?? `/e${++endpoints}`;
  delete body.path;
  const reply = await call('POST', '/api/webhooks', { url: receiver.url + path, ...body }, options);
  assert.equal(reply.status, 201, reply.text);
  return { path, ...reply.json };
}
const unlisten = ({ id }, options) => call('DELETE', `/api/webhooks/${id}`, undefined, options);
async function start(flowTemplate, input, options) {
  const reply = await call('POST', '/api/flows/start', { flowTemplate, input }, options);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.flowId;
}
const post = (id, verb, options, body = {}) => call('POST', `/api/flows/${id}/${verb}`, body, options);
// The messages about this object at the endpoint, without repetitions, once there are as many.
const distinct = (path, object) => {
  const seen = new Map();
  for (const message of at(path)) {
    const { flow_id, execution_id, connection_id } = message.json.data;
    if ((flow_id ?? execution_id ?? connection_id) === object && !seen.has(message.headers['webhook-id'])) seen.set(message.headers['webhook-id'], message);
  }
  return [...seen.values()];
};
const hears = ({ path }, object, ...types) =>
  until(`${path} hears ${types}`, () => {
    const messages = distinct(path, object);
    return messages.length >= types.length && (assert.deepEqual(messages.map(({ json }) => json.type), types), messages);
  });
const sql = (text) => stack.cluster.sql(text);
const hasten = ({ id }) => sql(`update sluice.delivery set due_at = now() where webhook_id = '${id}' and status = 'pending'`);

test('a flow that is approved: its events in order, on whatever server', async () => {
  const hook = await listen();
  const id = await start('probe_approve', { subject: 'approved' });
  await hears(hook, id, 'flow.waiting');
  assert.equal((await post(id, 'approve', { server: two })).status, 200);
  const messages = await hears(hook, id, 'flow.waiting', 'flow.approved', 'flow.completed');
  for (const message of messages) verify(hook.secret, message);
  const rows = JSON.parse(await sql(`select json_agg(json_build_object('status', status, 'attempt', attempt, 'code', code) order by rev) from sluice.delivery where object = '${id}'`));
  assert.deepEqual(rows, rows.map(() => ({ status: 'delivered', attempt: 1, code: 204 })));
  const [waiting, approved, completed] = messages.map(({ json }) => json.data);
  const both = { flow_id: id, account_id: account.id, template_key: 'probe_approve' };
  const { step_key, rev, ...rest } = waiting;
  assert.deepEqual(rest, { ...both, status: 'waiting', approval_url: `https://sluice.example.com/flows/${id}` });
  assert.deepEqual(approved, { rev: approved.rev, ...both, status: 'running', step_key });
  assert.deepEqual(completed, { rev: completed.rev, ...both, status: 'completed' });
  assert.ok(rev < approved.rev && approved.rev < completed.rev);
  await unlisten(hook);
});

test('flows that fail, are cancelled and are rejected; kinds that were not chosen', async () => {
  const hook = await listen({ events: ['flow.failed', 'flow.cancelled'] });
  const other = await listen({ events: ['flow.completed'] });
  const cancelled = await start('probe_approve', { subject: 'cancelled' });
  assert.equal((await post(cancelled, 'cancel')).status, 200);
  const [{ json }] = await hears(hook, cancelled, 'flow.cancelled');
  assert.deepEqual([json.data.status, json.data.template_key, json.data.rejected_by], ['cancelled', 'probe_approve', undefined]);
  const rejected = await start('probe_approve', { subject: 'rejected' });
  await until('it waits', async () => (await call('GET', `/api/flows/${rejected}`)).json.flow.status === 'waiting');
  assert.equal((await post(rejected, 'reject')).status, 200);
  const [{ json: second }] = await hears(hook, rejected, 'flow.cancelled');
  assert.match(second.data.rejected_by, /^key:/);
  await stack.provider.faults([{ match: { method: 'POST' }, count: 1, action: { status: 400 } }]);
  const failed = await start('probe_chain', { subject: 'failed', confirm: true });
  const [{ json: third }] = await hears(hook, failed, 'flow.failed');
  assert.ok(third.data.error_code && third.data.step_key, JSON.stringify(third));
  assert.equal(at(other.path).length, 0);
  await unlisten(hook);
  await unlisten(other);
});

test('a user\'s events go to the account, with the user\'s id; another account hears nothing', async () => {
  const stranger = await stack.account('another', { apps: [] });
  const hook = await listen();
  const elsewhere = await listen({}, { key: stranger.key });
  // the second one waits for a time first: the process that wakes it knows the user by its row alone
  const soon = new Date(Date.now() + 300).toISOString();
  for (const [template, input] of [['probe_approve', {}], ['probe_race', { until: soon }]]) {
    const id = await start(template, { subject: 'of a user', ...input }, { headers: { 'sluice-user': 'ana"1' } });
    const heard = await until('it asks', () => at(hook.path).find(({ json }) => json.data.flow_id === id && json.data.step_key === 'ask'));
    const { user, account_id, approval_url } = heard.json.data;
    assert.deepEqual([user, account_id, approval_url], ['ana"1', account.id, `https://sluice.example.com/flows/${id}?user=ana%221`]);
    // the list shows what was sent
    const { items } = (await call('GET', `/api/webhooks/${hook.id}/deliveries`)).json;
    const listed = items.find(({ event_id }) => event_id === heard.headers['webhook-id']);
    assert.deepEqual([{ rev: listed.rev, user: listed.user, ...listed.data }, listed.object], [heard.json.data, id]);
  }
  assert.equal(at(elsewhere.path).length, 0);
  await unlisten(hook);
});

// ---- holds ----

test('calls that are held: the events of their flows, also a user\'s', async () => {
  const { id: owner, key } = await stack.account('holding', { apps: ['probe'] });
  const hook = await listen({}, { key });
  const policy = { default: 'allow', rules: [{ tools: ['probe_send'], decision: 'hold' }] };
  assert.ok((await call('PUT', '/api/policies/agents', { policy }, { key })).status < 300);
  const agent = (await call('POST', '/api/keys', { name: 'agent', policy: 'agents', scopes: ['read', 'execute'] }, { key })).json.key;
  await sql(`update sluice.connection set is_shared = true where account_id = '${owner}'`);
  for (const user of [undefined, 'eve']) {
    const headers = user && { 'sluice-user': user };
    const decide = async (id, verb) => assert.equal((await post(id, verb, { key, headers, server: two })).status, 200);
    const ask = async (subject) => {
      const { json, text } = await call('POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject } }, { key: agent, headers });
      assert.equal(json.error_code, 'policy_blocked', text);
      const [{ json: message }] = await hears(hook, json.approval.flow_id, 'flow.waiting');
      const { flow_id, account_id, template_key, status, step_key, approval_url, user: of } = message.data;
      assert.deepEqual([account_id, template_key, status, step_key, of], [owner, 'held_call', 'waiting', 'approval', user]);
      assert.equal(approval_url, `https://sluice.example.com/flows/${flow_id}${user ? '?user=eve' : ''}`);
      assert.ok(!JSON.stringify(message).includes(subject));
      return flow_id;
    };
    const approved = await ask('a held mail');
    await decide(approved, 'approve');
    await hears(hook, approved, 'flow.waiting', 'flow.approved', 'flow.completed');
    const rejected = await ask('a rejected mail');
    await decide(rejected, 'reject');
    const [, { json: no }] = await hears(hook, rejected, 'flow.waiting', 'flow.cancelled');
    assert.match(no.data.rejected_by, /^key:/);
    const late = await ask('a late mail');
    await sql(`update sluice.flow set wake_at = now() - interval '1 second' where id = '${late}'`);
    await decide(late, 'resume');
    const [, { json: over }] = await hears(hook, late, 'flow.waiting', 'flow.failed');
    assert.deepEqual([over.data.error_code, over.data.step_key], ['timeout', 'approval']);
    // the call is an execution with an event of its own
    const lost = await ask('a lost mail');
    await stack.provider.faults([{ match: { method: 'POST' }, count: -1, action: { status: 500 } }]);
    await decide(lost, 'approve');
    await hears(hook, lost, 'flow.waiting', 'flow.approved', 'flow.failed');
    await stack.provider.faults([]);
    await until('its outcome is unknown', () => at(hook.path).some(({ json }) => json.type === 'execution.outcome_unknown' && json.data.user === user));
  }
  await unlisten(hook, { key });
});

// ---- what crashes lose ----

// The flow may have been made when its client hears nothing.
const idOf = (subject) => sql(`select flow_id from sluice.flow_doc where input::text like '%"${subject}"%'`);
// Its lease ends at once, so that nothing waits for that.
async function dies(server) {
  assert.equal((await server.process.gone).signal, 'SIGKILL', server.log.slice(-3000));
  stack.forget(server);
  await sql(`update sluice.node set lease_until = now() where name like '%:${server.process.pid}'`);
}
const statusOf = async (id) => (await call('GET', `/api/flows/${id}`)).json.flow.status;
// Each change of the flow has one event, and each has arrived.
async function delivered(hook, id, kinds, step) {
  const rows = () => sql(`select coalesce(string_agg(kind || ' ' || status, ',' order by rev), '') from sluice.delivery where object = '${id}' and webhook_id = '${hook.id}'`);
  const wanted = kinds.map((kind) => `${kind} delivered`).join(',');
  await hasten(hook);
  await until(`all is delivered after ${step}`, async () => {
    const now = await rows();
    assert.equal(now.replace(/ \w+/g, ''), kinds.join(','), step);
    return now === wanted;
  });
  const messages = distinct(hook.path, id);
  assert.deepEqual(messages.map(({ json }) => json.type), kinds, step);
  assert.equal(new Set(messages.map(({ json }) => json.data.rev)).size, kinds.length, step);
}

const steps = (op, ...names) => names.map((name) => `${op}/${name}`);
const DELIVERING = steps('delivery', 'claim', 'claimed', ...(IS_LONG ? ['send'] : []), 'sent', 'end', 'ended', 'mark');
const STARTING = IS_LONG
  ? [...steps('flow_command', 'begin', 'start', 'send', 'started'), ...steps('flow', 'begin', 'execute', 'transform', 'call', 'called', 'record', 'recorded')]
  : steps('flow', 'record', 'recorded');
test('servers that die around each statement: what has happened is delivered', async () => {
  for (const step of [...STARTING, 'event_news/send', ...DELIVERING]) {
    const hook = await listen();
    const subject = `dies at ${step}`;
    const dying = await stack.serve({ args, env: { SLUICE_CRASH_AT: step } });
    await call('POST', '/api/flows/start', { flowTemplate: 'probe_chain', input: { subject, confirm: true } }, { server: dying }).catch(() => null);
    await dies(dying);
    const id = await idOf(subject);
    const end = id && (await until('another server ends the flow', async () => /^(completed|failed)$/.exec(await statusOf(id))?.[0]));
    if (id) await delivered(hook, id, [`flow.${end}`], step);
    else assert.equal(await sql(`select count(*) from sluice.delivery where webhook_id = '${hook.id}'`), '0', step);
    await unlisten(hook);
  }
});

const DECIDING = IS_LONG
  ? [...steps('flow_command', 'begin', 'load', 'loaded', 'template', 'decide', 'take', 'changed', 'audited'), ...steps('flow', 'load', 'loaded', 'template', 'plan', 'execute')]
  : steps('flow_command', 'take', 'changed');
test('servers that die around an approval: it has one event, if it was given', async () => {
  for (const step of DECIDING) {
    const hook = await listen();
    const id = await start('probe_approve', { subject: `dies at ${step}` });
    await hears(hook, id, 'flow.waiting');
    const dying = await stack.serve({ args, env: { SLUICE_CRASH_AT: step } });
    await post(id, 'approve', { server: dying }).catch(() => null);
    await dies(dying);
    const end = await until('another server ends the flow', async () => {
      const status = await statusOf(id);
      if (status === 'waiting') await post(id, 'approve');
      return /^(completed|failed)$/.exec(status)?.[0];
    });
    await delivered(hook, id, ['flow.waiting', 'flow.approved', `flow.${end}`], step);
    await unlisten(hook);
  }
});

test('a write whose server dies: its outcome is unknown, also a user\'s', async () => {
  const hook = await listen();
  await sql(`update sluice.connection set is_shared = true where account_id = '${account.id}'`);
  for (const user of [undefined, 'ben']) {
    const headers = user && { 'sluice-user': user };
    const dying = await stack.serve({ args: args, env: { SLUICE_CRASH_AT: 'exec/check_reply' } });
    const body = { integration_id: 'gmail', action_id: 'send_message', input: { to: 'ben@example.org', subject: `unknown ${user}`, text: 'x' }, confirm: true };
    const reply = await call('POST', '/api/executions', body, { server: dying, headers }).catch(() => null);
    assert.equal(reply, null, reply?.text);
    await dies(dying);
    const message = await until('it is reported', () => at(hook.path).find(({ json }) => json.type === 'execution.outcome_unknown' && json.data.user === user));
    assert.deepEqual(Object.keys(message.json.data).sort(), ['account_id', 'action_id', 'execution_id', 'integration_id', 'rev', 'status', ...(user ? ['user'] : [])]);
    assert.equal((await call('GET', `/api/executions/${message.json.data.execution_id}`, undefined, { headers })).json.status, 'failed');
  }
  await unlisten(hook);
});

// A 500 of the app does not prove that nothing was done; a 404 does, and a read does nothing.
test('a write whose reply says nothing: its outcome is unknown', async () => {
  const hook = await listen({ events: ['execution.outcome_unknown'] });
  const run = async (action_id, input, status) => {
    await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status } }]);
    const { json } = await call('POST', '/api/executions', { integration_id: 'gmail', action_id, input, confirm: true });
    await stack.provider.faults([]);
    return json;
  };
  const mail = { to: 'ben@example.org', subject: 'no proof', text: 'x' };
  assert.equal((await run('list_labels', {}, 500)).outcome, 'not_done');
  assert.equal((await run('send_message', mail, 404)).outcome, 'not_done');
  const { execution_id, outcome } = await run('send_message', mail, 500);
  assert.equal(outcome, 'unknown');
  await hears(hook, execution_id, 'execution.outcome_unknown');
  assert.equal(at(hook.path).length, 1);
  await unlisten(hook);
});

// ---- connections ----

const KINDS = ['connected', 'reauth_required', 'recovered', 'deleted'].map((kind) => `connection.${kind}`);
const connect = (options, more = {}) => call('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe, ...more }, options);
// The app refuses the credential of the call that this server makes.
async function refused(options) {
  await stack.provider.faults([{ match: { path_prefix: '/echo' }, count: -1, action: { status: 401 } }]);
  const reply = await call('POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, options).catch(() => null);
  await stack.provider.faults([]);
  return reply;
}

test('connections: made, lost, connected again and deleted, also a user\'s and one that is shared', async () => {
  const { id: owner, key } = await stack.account('connecting', { apps: [] });
  const hook = await listen({}, { key });
  const chosen = await listen({ events: ['connection.deleted'] }, { key });
  for (const user of [undefined, 'cy']) {
    const options = { key, headers: user && { 'sluice-user': user } };
    const made = await connect(options);
    assert.equal(made.status, 201, made.text);
    const { id } = made.json;
    assert.equal((await refused(options)).json.error_code, 'unauthorized');
    assert.equal((await connect(options, { connection_id: id })).status, 201);
    assert.equal((await call('PATCH', `/api/connections/${id}`, { label: 'no event' }, options)).status, 200);
    assert.equal((await call('DELETE', `/api/connections/${id}`, undefined, options)).status, 200);
    const messages = await hears(hook, id, ...KINDS);
    const same = { account_id: owner, connection_id: id, integration_id: 'probe', ...(user ? { user } : {}) };
    const statuses = ['live', 'reauth_required', 'live', undefined];
    assert.deepEqual(messages.map(({ json }) => json.data), [1, 2, 3, 5].map((rev, at) => ({ rev, ...same, ...(statuses[at] ? { status: statuses[at] } : {}) })));
    await hears(chosen, id, 'connection.deleted');
    const { items } = (await call('GET', `/api/webhooks/${hook.id}/deliveries`, undefined, { key })).json;
    assert.equal(items[0].object, id);
    const audit = (await call('GET', '/api/audit?kind=connection.reauth_required', undefined, options)).json.events;
    assert.equal(audit[0].id, messages[1].headers['webhook-id']);
  }
  // a user's call with a connection of the account, which is the account's loss
  const shared = (await connect({ key })).json;
  assert.equal((await call('PATCH', `/api/connections/${shared.id}`, { shared: true }, { key })).status, 200);
  assert.equal((await refused({ key, headers: { 'sluice-user': 'cy' } })).json.error_code, 'integration_not_connected');
  const [, lost] = await hears(hook, shared.id, ...KINDS.slice(0, 2));
  assert.equal(lost.json.data.user, undefined);
  // an erased user had these events no more than the account
  const cys = (await connect({ key, headers: { 'sluice-user': 'cy' } })).json;
  await hears(hook, cys.id, 'connection.connected');
  assert.equal((await call('DELETE', '/api/users/cy', undefined, { key })).status, 202);
  for (const item of [hook, chosen]) await unlisten(item, { key });
});

// Each change that the rows show has its event, whatever answer the client gets.
test('servers that die around the change of a connection: its events are those of the rows', async () => {
  const { id: owner, key } = await stack.account('crashing', { apps: [] });
  const hook = await listen({}, { key });
  const options = { key };
  const dying = async (step, run) => {
    const server = await stack.serve({ args, env: { SLUICE_CRASH_AT: step } });
    assert.equal(await run({ key, server }).catch(() => null), null, step);
    await dies(server);
  };
  const events = () => sql(`select coalesce(string_agg(kind || ' ' || rev, ',' order by at, rev), '') from sluice.delivery where webhook_id = '${hook.id}'`);
  const row = async () => sql(`select string_agg(id || ' ' || status || ' ' || rev, ',') from sluice.connection where account_id = '${owner}'`);
  const change = (method, id) => (at) => call(method, `/api/connections/${id}`, undefined, at);
  await dying('connect_save/store', (at) => connect(at));
  assert.deepEqual([await row(), await events()], ['', '']);
  await dying('connect_save/stored', (at) => connect(at));
  const [id, ...made] = (await row()).split(' ');
  assert.deepEqual([made, await events()], [['live', '1'], 'connection.connected 1']);
  await dying('exec/mark_connection', refused);
  assert.deepEqual([await row(), await events()], [`${id} live 1`, 'connection.connected 1']);
  await dying('exec/notify_connection', refused);
  assert.deepEqual([await row(), await events()], [`${id} reauth_required 2`, 'connection.connected 1,connection.reauth_required 2']);
  await dying('connect_save/audit', (at) => connect(at, { connection_id: id }));
  assert.deepEqual([await row(), await events()], [`${id} live 3`, 'connection.connected 1,connection.reauth_required 2,connection.recovered 3']);
  await dying('connect_command/change', change('DELETE', id));
  assert.equal(await row(), `${id} live 3`);
  await dying('connect_command/changed', change('DELETE', id));
  assert.equal(await row(), '');
  await hears(hook, id, ...KINDS);
  assert.equal((await call('GET', `/api/connections/${id}`, undefined, options)).status, 404);
  const ids = new Map();
  for (const { json, headers } of at(hook.path)) ids.set(json.type, (ids.get(json.type) ?? new Set()).add(headers['webhook-id']));
  assert.deepEqual([...ids.values()].map(({ size }) => size), [1, 1, 1, 1]);
  await unlisten(hook, options);
});

// ---- signatures ----

// The kinds of the contract, each caused once. webhooks.test.mjs has webhook.test.
test('every kind of message is signed, by both secrets during a roll', async () => {
  const { key } = await stack.account('signing');
  const options = { key };
  const hook = await listen({}, options);
  const rolled = await call('POST', `/api/webhooks/${hook.id}/roll`, {}, options);
  assert.equal(rolled.status, 200, rolled.text);
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status: 500 } }]);
  const mail = { integration_id: 'gmail', action_id: 'send_message', input: { to: 'ben@example.org', subject: 'signed', text: 'x' }, confirm: true };
  assert.equal((await call('POST', '/api/executions', mail, options)).json.outcome, 'unknown');
  await stack.provider.faults([{ match: { method: 'POST' }, count: 1, action: { status: 400 } }]);
  const failed = await start('probe_chain', { subject: 'failed', confirm: true }, options);
  await until('it fails', () => distinct(hook.path, failed).length === 1);
  const waits = async (id) => until('it waits', async () => (await call('GET', `/api/flows/${id}`, undefined, options)).json.flow.status === 'waiting');
  for (const verb of ['approve', 'cancel']) {
    const id = await start('probe_approve', { subject: verb }, options);
    await waits(id);
    assert.equal((await post(id, verb, options)).status, 200);
  }
  const { id } = (await call('GET', '/api/connections?integration_id=probe', undefined, options)).json.connections[0];
  await refused(options);
  assert.equal((await connect(options, { connection_id: id })).status, 201);
  assert.equal((await connect(options)).status, 201);
  assert.equal((await call('DELETE', `/api/connections/${id}`, undefined, options)).status, 200);
  const gone = await listen({ events: ['connection.connected'], path: '/signed-gone' }, options);
  answers[gone.path] = (request, reply) => reply.writeHead(410).end();
  assert.equal((await connect(options)).status, 201);
  const kinds = JSON.parse(await readFile(join(import.meta.dirname, '../../src/api/openapi.json'), 'utf8')).components.schemas.WebhookRequest.properties.events.items.enum;
  await until('each kind has arrived', () => kinds.every((kind) => at(hook.path).some(({ json }) => json.type === kind)));
  for (const kind of kinds) {
    const message = at(hook.path).find(({ json }) => json.type === kind);
    for (const secret of [hook.secret, rolled.json.secret]) assertSigned(secret, message);
  }
  for (const item of [hook, gone]) await unlisten(item, options);
});

// ---- endpoints that fail ----

const row = async ({ id }) => JSON.parse(await sql(`select row_to_json(d) from (select *, extract(epoch from due_at - now()) as due_s from sluice.delivery where webhook_id = '${id}' order by rev desc limit 1) d`) || 'null');

test('a receiver that fails, and then answers', async () => {
  const hook = await listen({ events: ['flow.waiting'], path: '/fails' });
  const does = [(reply) => reply.writeHead(503).end(), (reply) => reply.socket.resetAndDestroy(), () => {} /* it hangs */, (reply) => reply.writeHead(429, { 'retry-after': '4000' }).end(), (reply) => reply.writeHead(200).end('ok')];
  let now = 0;
  answers['/fails'] = (request, reply) => does[now](reply);
  const id = await start('probe_approve', { subject: 'fails' });
  const range = [[4, 6], [50, 66], [290, 330], [3990, 4200]];
  for (let attempt = 1; attempt <= 4; attempt++) {
    const seen = await until(`attempt ${attempt} has ended`, async () => {
      const one = await row(hook);
      return one?.problem && one.attempt === attempt && one;
    });
    assert.equal(seen.status, 'pending');
    assert.ok(seen.due_s > range[attempt - 1][0] - 3 && seen.due_s < range[attempt - 1][1], `${attempt}: ${seen.due_s}`);
    now = attempt;
    await sql(`update sluice.delivery set due_at = now(), problem = null where webhook_id = '${hook.id}'`);
    await sql(`update sluice.webhook set paused_until = null where id = '${hook.id}'`);
  }
  await hears(hook, id, 'flow.waiting');
  await until('it is delivered', async () => (await row(hook)).status === 'delivered');
  assert.equal(new Set(at(hook.path).map(({ headers }) => headers['webhook-id'])).size, 1);
  assert.equal(new Set(at(hook.path).map(({ body }) => body)).size, 1);
  await until('its failures are forgotten', async () => (await call('GET', `/api/webhooks/${hook.id}`)).json.failures === 0);
  await post(id, 'cancel');
  await unlisten(hook);
});

// A 410 counts for the URL that answered it. While the answer is under way, the endpoint moves.
test('a late 410 of a former URL leaves the endpoint on', async () => {
  const hook = await listen({ events: ['flow.waiting'], path: '/old' });
  let answer;
  answers['/old'] = (request, reply) => (answer = () => reply.writeHead(410).end());
  const id = await start('probe_approve', { subject: 'moved' });
  await until('the old URL is asked', () => answer);
  assert.equal((await call('PATCH', `/api/webhooks/${hook.id}`, { url: `${receiver.url}/new` })).status, 200);
  answer();
  await until('the attempt has ended', async () => (await row(hook))?.code === 410);
  await hasten(hook);
  await hears({ path: '/new' }, id, 'flow.waiting');
  const { enabled, failures } = (await call('GET', `/api/webhooks/${hook.id}`)).json;
  assert.deepEqual([enabled, failures], [true, 0]);
  await post(id, 'cancel');
  await unlisten(hook);
});

// A server without the master key of a secret cannot sign: the endpoint did not fail. After a day
// such attempts count, so that the event ends.
test('a message that cannot be signed is tried again, and counts for nothing', async () => {
  const hook = await listen({ events: ['flow.waiting'] });
  const sealed = await sql(`select key_id from sluice.webhook where id = '${hook.id}'`);
  await sql(`update sluice.webhook set key_id = '00000000' where id = '${hook.id}'`);
  const id = await start('probe_approve', { subject: 'unsigned' });
  await until('the attempt has ended', async () => (await row(hook))?.problem === 'the message could not be signed');
  const { attempt, status, due_s } = await row(hook);
  assert.deepEqual([attempt, status], [0, 'pending']);
  assert.ok(due_s > 5 && due_s < 31, String(due_s));
  await sql(`update sluice.delivery set at = now() - interval '25 hours', due_at = now() where webhook_id = '${hook.id}'`);
  const old = await until('an attempt counts', async () => (await row(hook)).attempt === 1 && (await row(hook)).due_s < 6 && row(hook));
  assert.deepEqual([old.status, old.problem], ['pending', 'the message could not be signed']);
  await sql(`update sluice.delivery set attempt = 9, due_at = now() where webhook_id = '${hook.id}'`);
  await until('the event ends', async () => (await row(hook)).status === 'failed');
  assert.equal((await call('GET', `/api/webhooks/${hook.id}`)).json.failures, 0);
  await sql(`update sluice.webhook set key_id = '${sealed}' where id = '${hook.id}'`);
  assert.equal((await call('POST', `/api/webhooks/${hook.id}/replay`, { since: new Date(Date.now() - 3_600_000).toISOString() })).json.count, 1);
  await hears(hook, id, 'flow.waiting');
  await post(id, 'cancel');
  await unlisten(hook);
});

// So is one of the same URL that was asked before the endpoint was switched on again.
test('a late 410 from before an endpoint was switched on leaves it on', async () => {
  const hook = await listen({ events: ['flow.waiting'], path: '/back' });
  let answer;
  answers['/back'] = (request, reply) => (answer = () => reply.writeHead(410).end());
  const id = await start('probe_approve', { subject: 'back' });
  await until('it is asked', () => answer);
  for (const enabled of [false, true]) assert.equal((await call('PATCH', `/api/webhooks/${hook.id}`, { enabled })).status, 200);
  answers['/back'] = undefined;
  answer();
  await until('the 410 has counted', async () => (await call('GET', `/api/webhooks/${hook.id}`)).json.failures === 1);
  assert.equal((await call('GET', `/api/webhooks/${hook.id}`)).json.enabled, true);
  await hasten(hook);
  await until('it is delivered', async () => (await row(hook)).status === 'delivered');
  await post(id, 'cancel');
  await unlisten(hook);
});

test('order: a later event waits until the one before is delivered', async () => {
  const hook = await listen({ path: '/order' });
  let isUp = false;
  answers['/order'] = (request, reply) => reply.writeHead(isUp ? 204 : 500).end();
  const id = await start('probe_approve', { subject: 'order' });
  await until('the first has failed', async () => (await row(hook))?.problem);
  assert.equal((await post(id, 'approve')).status, 200);
  await until('it ends', async () => (await call('GET', `/api/flows/${id}`)).json.flow.status === 'completed');
  assert.deepEqual(distinct(hook.path, id).map(({ json }) => json.type), ['flow.waiting']);
  isUp = true;
  await sql(`update sluice.delivery set due_at = now() where webhook_id = '${hook.id}' and kind = 'flow.waiting'`);
  const messages = await hears(hook, id, 'flow.waiting', 'flow.approved', 'flow.completed');
  const revs = messages.map(({ json }) => json.data.rev);
  assert.deepEqual(revs, [...revs].sort((a, b) => a - b));
  await unlisten(hook);
});

// The later event has attempts of its own to come; a replay of the earlier one does not use them up.
test('an event that is sent again leaves the time of a later one alone', async () => {
  const hook = await listen({ path: '/later', events: ['flow.waiting', 'flow.cancelled'] });
  const id = await start('probe_approve', { subject: 'later' });
  const [{ headers }] = await hears(hook, id, 'flow.waiting');
  const first = () => sql(`select status || attempt from sluice.delivery where webhook_id = '${hook.id}' and kind = 'flow.waiting'`);
  await until('the first is delivered', async () => (await first()) === 'delivered1');
  answers['/later'] = (request, reply) => (got.at(-1).json.type === 'flow.waiting' ? reply.writeHead(204).end() : reply.writeHead(429, { 'retry-after': '4000' }).end());
  assert.equal((await post(id, 'cancel')).status, 200);
  await until('the later one has failed', async () => (await row(hook))?.code === 429);
  assert.equal((await call('POST', `/api/webhooks/${hook.id}/deliveries/${headers['webhook-id']}/replay`)).json.count, 1);
  await until('the first is delivered again', async () => (await first()) === 'delivered2');
  const { kind, attempt, due_s } = await row(hook);
  assert.deepEqual([kind, attempt], ['flow.cancelled', 1]);
  assert.ok(due_s > 3000, String(due_s));
  await unlisten(hook);
});

test('410, and five days of failures: the endpoint goes off, and the others hear of it', async () => {
  const other = await listen({ events: ['webhook.disabled'] });
  for (const [path, reason] of [['/gone', 'answered_410'], ['/failing', 'failing']]) {
    const hook = await listen({ path });
    answers[path] = (request, reply) => reply.writeHead(path === '/gone' ? 410 : 500).end();
    if (reason === 'failing') await sql(`update sluice.webhook set failing_since = now() - interval '5 days 1 second', failures = 9 where id = '${hook.id}'`);
    const id = await start('probe_approve', { subject: path });
    await until('it is off', async () => (await call('GET', `/api/webhooks/${hook.id}`)).json.off_reason === reason);
    const message = await until('the other hears of it', () => at(other.path).find(({ json }) => json.data.webhook_id === hook.id));
    assert.deepEqual([message.json.type, message.json.data.reason], ['webhook.disabled', reason]);
    assert.equal((await post(id, 'cancel')).status, 200);
    await hasten(hook);
    await until('nothing is pending', async () => (await sql(`select count(*) from sluice.delivery where webhook_id = '${hook.id}' and status = 'pending'`)) === '0');
    assert.equal(await sql(`select count(*) from sluice.delivery where webhook_id = '${hook.id}' and kind = 'flow.cancelled'`), '0');
    const { events } = (await call('GET', '/api/audit?kind=webhook.disabled')).json;
    assert.deepEqual([events[0].actor, events[0].details.webhook_id], ['system', hook.id]);
    await unlisten(hook);
  }
  await unlisten(other);
});

test('events are sent again on request, also one that has others after it', async () => {
  const hook = await listen({ path: '/again', events: ['flow.waiting', 'flow.cancelled'] });
  const ids = [await start('probe_approve', { subject: 'again 1' }), await start('probe_approve', { subject: 'again 2' })];
  const again = (path, body) => call('POST', `/api/webhooks/${hook.id}/${path}`, body, { server: two });
  for (const id of ids) await hears(hook, id, 'flow.waiting');
  const [event] = at(hook.path).map(({ headers }) => headers['webhook-id']);
  const times = () => at(hook.path).filter(({ headers }) => headers['webhook-id'] === event).length;
  const first = await again(`deliveries/${event}/replay`);
  assert.deepEqual([first.status, first.json], [202, { count: 1 }]);
  await until('it is sent again', () => times() === 2);
  assert.equal(new Set(at(hook.path).filter(({ headers }) => headers['webhook-id'] === event).map(({ body }) => body)).size, 1);
  await until('both are delivered', async () => (await sql(`select count(*) from sluice.delivery where webhook_id = '${hook.id}' and status = 'delivered'`)) === '2');
  await sql(`update sluice.delivery set status = 'failed' where webhook_id = '${hook.id}'`);
  assert.equal((await again('replay', { since: new Date(Date.now() + 3_600_000).toISOString() })).json.count, 0);
  answers['/again'] = (request, reply) => reply.writeHead(500).end();
  const all = await again('replay', { since: new Date(Date.now() - 3_600_000).toISOString() });
  assert.deepEqual([all.status, all.json], [202, { count: 2 }]);
  await until('both have failed again', async () => (await sql(`select count(*) from sluice.delivery where webhook_id = '${hook.id}' and attempt > replayed_after and code = 500`)) === '2');
  const delays = (await sql(`select string_agg(extract(epoch from due_at - now())::integer::text, ' ') from sluice.delivery where webhook_id = '${hook.id}' and status = 'pending'`)).split(' ');
  for (const delay of delays) assert.ok(Number(delay) <= 6, `a new series of attempts: ${delays}`);
  assert.deepEqual((await again(`deliveries/${event}/replay`)).json, { count: 0 });
  answers['/again'] = undefined;
  for (const id of ids) assert.equal((await post(id, 'cancel')).status, 200);
  for (const id of ids) await until('a replay holds up nothing', () => distinct(hook.path, id).some(({ json }) => json.type === 'flow.cancelled'));
  assert.equal((await again('deliveries/none/replay')).status, 404);
  assert.equal((await again(`deliveries/${hook.id}/replay`)).status, 404);
  await call('PATCH', `/api/webhooks/${hook.id}`, { enabled: false });
  assert.equal((await again('replay', { since: '2031-01-31T00:00:00Z' })).status, 409);
  await unlisten(hook);
});

// Rows of one request take all places of the process; the other request waits for them.
test('two requests of many events at once: both send all of theirs again', async () => {
  const hooks = [await listen(), await listen()];
  await sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, ended_at)
    select '${account.id}', overlay(gen_random_uuid()::text placing '0199' from 1)::uuid, w.id, 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'failed', 1, now()
    from unnest(array['${hooks[0].id}', '${hooks[1].id}']::uuid[]) w (id), generate_series(1, 600) n`);
  const replies = await Promise.all(hooks.map(({ id }) => call('POST', `/api/webhooks/${id}/replay`, { since: '2025-01-01T00:00:00Z' })));
  assert.deepEqual(replies.map(({ status, json }) => [status, json.count]), [[202, 600], [202, 600]]);
  await sql(`delete from sluice.delivery where webhook_id in ('${hooks[0].id}', '${hooks[1].id}')`);
  for (const hook of hooks) await unlisten(hook);
});
