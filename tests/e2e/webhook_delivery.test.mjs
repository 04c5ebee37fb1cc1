// What endpoints are sent, and when: each change of a flow once for each endpoint that hears it, in
// order, whatever crashes; retries, and endpoints that fail. webhooks.test.mjs has the endpoints
// themselves.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { until } from './support/client.mjs';
import { Scripted } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

let stack, account, one, two, receiver;
const got = []; // {path, headers, body, at}: messages at the receiver
const answers = {}; // path -> (request, reply, count of messages at that path)
const args = ['--webhook-host', '127.0.0.1', '--webhook-timeout', '2s', '--public-url', 'https://sluice.example.com'];

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 150 } });
  account = await stack.account('hearing');
  receiver = await Scripted.start(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const path = request.url;
    got.push({ path, headers: request.headers, body: Buffer.concat(parts).toString(), json: JSON.parse(Buffer.concat(parts)) });
    (answers[path] ?? (() => reply.writeHead(204).end()))(request, reply, at(path).length);
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
    const { flow_id, execution_id } = message.json.data;
    if ((flow_id ?? execution_id) === object && !seen.has(message.headers['webhook-id'])) seen.set(message.headers['webhook-id'], message);
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
  for (const message of messages) new Webhook(hook.secret).verify(message.body, message.headers);
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
  const id = await start('probe_approve', { subject: 'of a user' }, { headers: { 'sluice-user': 'ana"1' } });
  const [{ json }] = await hears(hook, id, 'flow.waiting');
  assert.deepEqual([json.data.user, json.data.account_id], ['ana"1', account.id]);
  assert.equal(at(elsewhere.path).length, 0);
  await unlisten(hook);
});
