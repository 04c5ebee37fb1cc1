// Idempotency keys (src/api/README.md "Executions") with two processes on one database: whichever
// process gets the request, the action runs once, and every client gets the same answer.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const SEND = '/gmail/v1/users/me/messages/send';
let stack, servers, account, other;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('a', { apps: ['probe'] });
  other = await stack.account('b', { apps: ['probe'] });
  servers = await Promise.all([stack.serve(), stack.serve()]);
});
after(() => stack?.stopWell(assert));
beforeEach(() => stack.provider.faults([]));

const send = (server, subject, key, who = account) =>
  server.execute(who.key, 'probe', 'send', { subject }, { confirm: true, idempotency_key: key });
const sendTool = (server, subject, key) =>
  server.call(account.key, 'POST', '/api/tools/probe_send/execute', { arguments: { subject }, confirmed: true }, { 'idempotency-key': key });
const writes = async (subject) => (await stack.provider.ledger()).filter((one) => one.marker === subject).length;
const fault = (action, count = -1, path_prefix = SEND) => stack.provider.faults([{ match: { path_prefix }, count, action }]);
const only = (list) => {
  const set = new Set(list);
  assert.equal(set.size, 1, [...set].join('\n'));
  return list[0];
};

test('50 parallel requests with one key over two processes: one write, 50 equal summaries', async () => {
  await fault({ latency_ms: 400 });
  const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => send(servers[i % 2], 'fifty', 'fifty')));
  assert.equal(only(replies.map((reply) => reply.status)), 200);
  const text = only(replies.map((reply) => reply.text));
  assert.equal(await writes('fifty'), 1);
  assert.equal(replies.filter((reply) => reply.headers.get('idempotent-replayed') === null).length, 1);
  assert.equal(replies.filter((reply) => reply.headers.get('idempotent-replayed') === 'true').length, 49);
  for (const server of servers) {
    const stored = await server.call(account.key, 'GET', `/api/executions/${JSON.parse(text).execution_id}`);
    assert.equal(stored.text, text);
  }
});

test('the same on both endpoints at once, if the provider fails', async () => {
  await fault({ status: 500, executed: true, latency_ms: 300 });
  const replies = await Promise.all(Array.from({ length: 20 }, (_, i) =>
    (i % 4 < 2 ? send : sendTool)(servers[i % 2], 'failed', 'failed')));
  assert.equal(only(replies.map((reply) => reply.status)), 500);
  only(replies.map((reply) => JSON.stringify(reply.json.canonical ?? reply.json)));
  for (const reply of replies)
    if (reply.json.error) assert.deepEqual([reply.json.error.code, reply.json.error.retryable], ['provider_error', false]);
  assert.equal(await writes('failed'), 1);
  await fault({ latency_ms: 0 });
  assert.equal((await send(servers[0], 'failed', 'failed')).status, 500, 'the key stays bound: it may have been done');
  assert.equal(await writes('failed'), 1);
});

test('another request with the key is refused, during and after the run, in each process', async () => {
  const held = await hold(stack.provider, { path_prefix: SEND });
  const first = send(servers[0], 'mine', 'taken');
  await held.reached(1);
  const refuse = async (server, subject) => {
    const reply = await send(server, subject, 'taken');
    assert.deepEqual([reply.status, reply.json.error_code, reply.json.execution_id], [409, 'validation_error', null]);
    assert.match(reply.json.message, /different request/);
  };
  await Promise.all(servers.map((server) => refuse(server, 'not mine')));
  await held.letGo();
  assert.equal((await first).status, 200);
  await Promise.all(servers.map((server) => refuse(server, 'not mine')));
  assert.equal(await writes('not mine'), 0);
});

test('a key belongs to its account', async () => {
  const replies = await Promise.all([send(servers[0], 'of a', 'shared'), send(servers[1], 'of b', 'shared', other)]);
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  assert.notEqual(replies[0].json.execution_id, replies[1].json.execution_id);
  assert.deepEqual([await writes('of a'), await writes('of b')], [1, 1]);
});

test('a key is free again once it is certain that nothing was done, and not before', async () => {
  const cases = [
    // [fault, released]
    ...[307, 400, 403, 404, 409, 410, 412, 413, 422, 501].map((status) => [{ status }, true]),
    [{ status: 429, retry_after: 90 }, true],
    ...[302, 303, 304, 402, 408, 460, 499, 500, 503].map((status) => [{ status }, false]),
    [{ reset: 'after' }, false],
    [{ garbage: true }, false],
  ];
  for (const [i, [action, isReleased]] of cases.entries()) {
    const name = `case ${i}`;
    await fault(action);
    const first = await send(servers[0], name, name);
    assert.deepEqual([first.status, first.json.outcome], [500, isReleased ? 'not_done' : 'unknown'], `${JSON.stringify(action)} ${first.text}`);
    assert.equal(first.headers.has('retry-after'), action.status === 429);
    await fault({ latency_ms: 0 });
    const again = await send(servers[1], name, name);
    assert.deepEqual([again.status, again.json.outcome], isReleased ? [200, 'done'] : [500, 'unknown'], `${JSON.stringify(action)} ${again.text}`);
    assert.equal(again.headers.get('idempotent-replayed'), isReleased ? null : 'true');
    if (!isReleased) assert.equal(again.text, first.text);
  }
});

test('a blocked run binds no key', async () => {
  const blocked = await servers[0].execute(account.key, 'probe', 'send', { subject: 'later' }, { idempotency_key: 'later' });
  assert.deepEqual([blocked.status, blocked.json.error_code], [409, 'policy_blocked']);
  const sent = await send(servers[1], 'later', 'later');
  assert.equal(sent.status, 200, sent.text);
  assert.equal(await writes('later'), 1);
});

test('confirm is not part of the request of a key', async () => {
  const read = (more) => servers[0].execute(account.key, 'probe', 'read_label', { id: 'INBOX' }, { idempotency_key: 'confirm-or-not', ...more });
  const first = await read({ confirm: true });
  for (const more of [{}, { confirm: false }]) {
    const again = await read(more);
    assert.deepEqual([again.headers.get('idempotent-replayed'), again.text], ['true', first.text]);
  }
});

test('a key is forgotten after its time, by the server’s housekeeping', async () => {
  const brief = await stack.serve({ args: ['--idempotency-ttl', '1s'] });
  assert.equal((await send(brief, 'brief', 'brief')).status, 200);
  await until('the key has expired', async () => {
    const reply = await send(brief, 'brief', 'brief');
    return reply.headers.get('idempotent-replayed') === null;
  });
  assert.equal(await writes('brief'), 2);
});

const startFlow = (server, subject, more, headers, who = account) =>
  server.call(who.key, 'POST', '/api/flows/start', { flowTemplate: 'probe_chain', input: { subject, confirm: true }, ...more }, headers);
const isDone = async (id) =>
  until(`${id} is completed`, async () => {
    const { json } = await servers[0].call(account.key, 'GET', `/api/flows/${id}`);
    assert.notEqual(json.flow.status, 'failed', JSON.stringify(json.steps));
    return json.flow.status === 'completed';
  });

test('30 parallel starts of a flow with one key over two processes: one flow', async () => {
  const quoted = { 'idempotency-key': '"flow one"' };
  const replies = await Promise.all(Array.from({ length: 30 }, (_, i) =>
    i % 3 ? startFlow(servers[i % 2], 'chain', { idempotency_key: 'flow one' }) : startFlow(servers[i % 2], 'chain', {}, quoted)));
  assert.equal(only(replies.map((reply) => reply.status)), 200, replies.map((reply) => reply.text).join('\n'));
  const id = only(replies.map((reply) => reply.json.flowId));
  only(replies.map((reply) => reply.json.flow.flow.id));
  assert.equal(replies.filter((reply) => reply.headers.get('idempotent-replayed') === null).length, 1);
  assert.equal(replies.filter((reply) => reply.headers.get('idempotent-replayed') === 'true').length, 29);
  await isDone(id);
  for (const server of servers) {
    const later = await startFlow(server, 'chain', { idempotency_key: 'flow one' }, quoted);
    assert.deepEqual([later.status, later.json.flow.flow.status, later.headers.get('idempotent-replayed')], [200, 'completed', 'true']);
    assert.equal(later.headers.get('etag'), `"${later.json.flow.flow.rev}"`);
  }
  const once = await writes('chain');
  assert.equal((await startFlow(servers[0], 'chain', {})).headers.get('idempotent-replayed'), null);
  await until('a start without a key is another flow', async () => await writes('chain') === 2 * once);
  const theirs = await startFlow(servers[1], 'chain', { idempotency_key: 'flow one' }, {}, other);
  assert.notEqual(theirs.json.flowId, id);
});

test('a start with another request’s key, and one that is refused', async () => {
  const key = { idempotency_key: 'flow two' };
  for (const [more, status] of [[{ input: { subject: 1 } }, 400], [{ flowTemplate: 'nope' }, 404]])
    assert.equal((await startFlow(servers[0], 'x', { ...key, ...more })).status, status);
  const first = await startFlow(servers[0], 'two', key);
  assert.deepEqual([first.status, first.headers.get('idempotent-replayed')], [200, null]);
  for (const [subject, more] of [['three', {}], ['two', { triggerType: 'agent' }], ['two', { flowTemplate: 'probe_approve', input: { subject: 'two' } }]]) {
    const reply = await startFlow(servers[1], subject, { ...key, ...more });
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /idempotency_key was used for a different request\. Nothing was started/);
  }
  const execution = await send(servers[1], 'two', 'flow two');
  assert.deepEqual([execution.status, execution.json.error_code], [409, 'validation_error']);
  assert.equal((await send(servers[0], 'of an execution', 'flow three')).status, 200);
  assert.equal((await startFlow(servers[1], 'of an execution', { idempotency_key: 'flow three' })).status, 400);
  for (const [more, headers, error] of [
    [{ idempotencyKey: 'k' }, {}, /idempotencyKey.*idempotency_key/],
    [{ idempotency_key: 1 }, {}, /idempotency_key must be a string/],
    [{ idempotency_key: '' }, {}, /1 to 255 printable/],
    [{}, { 'idempotency-key': 'x'.repeat(256) }, /1 to 255 printable/],
    [{ idempotency_key: 'a' }, { 'idempotency-key': 'b' }, /differ/],
  ]) {
    const reply = await startFlow(servers[0], 'bad', more, headers);
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, error);
  }
});

test('the same in MCP: an argument, or a member of _meta', async () => {
  const mcp = servers.map((server) => new Mcp(server.base, account.key));
  const args = { template: 'probe_chain', input: { subject: 'of an agent', confirm: true } };
  const begun = [];
  for (const [i, more, options] of [
    [0, { idempotency_key: 'agent' }, {}],
    [1, {}, { meta: { 'sluice/idempotency_key': 'agent' } }],
    [0, { idempotency_key: 'agent' }, { meta: { 'sluice/idempotency_key': 'agent' } }],
  ]) {
    const result = await mcp[i].call('start_flow', { ...args, ...more }, options);
    assert.equal(result.isError, undefined, JSON.stringify(result));
    begun.push(contentOf(result).flowId);
  }
  only(begun);
  const differ = await mcp[0].call('start_flow', { ...args, idempotency_key: 'agent' }, { meta: { 'sluice/idempotency_key': 'another' } });
  assert.deepEqual([differ.isError, /differ/.test(JSON.stringify(contentOf(differ)))], [true, true]);
  const wrong = await mcp[0].call('start_flow', { ...args, idempotencyKey: 'agent' });
  assert.deepEqual([wrong.isError, /idempotency_key/.test(JSON.stringify(contentOf(wrong)))], [true, true]);
});

test('a client that disconnects does not stop a run that others wait for', async () => {
  const held = await hold(stack.provider, { path_prefix: SEND });
  const gone = new AbortController();
  const first = fetch(`${servers[0].base}/api/executions`, {
    method: 'POST',
    signal: gone.signal,
    headers: { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ integration_id: 'probe', action_id: 'send', input: { subject: 'gone' }, confirm: true, idempotency_key: 'gone' }),
  }).catch((error) => error.name);
  await held.reached(1);
  gone.abort();
  assert.equal(await first, 'AbortError');
  const waiting = servers.map((server) => send(server, 'gone', 'gone'));
  await held.letGo();
  const replies = await Promise.all(waiting);
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  only(replies.map((reply) => reply.text));
  assert.equal(await writes('gone'), 1);
});
