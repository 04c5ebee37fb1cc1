// A view is the same on every server: the server that runs a flow returns the view from memory, and
// another reads it from the database. A change that one server makes to a flow is visible on all
// others without delay.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, account, other, one, two;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('views', { apps: ['gmail', 'probe'] });
  other = await stack.account('other', { apps: [] });
  [one, two] = [await stack.serve(), await stack.serve()];
});
after(() => stack?.stopWell(assert));

const SLEEP = { path_prefix: '/sleep/' };
const LABEL = { path_prefix: '/gmail/v1/users/me/labels' };
const get = (server, id, query = '', headers) => server.call(account.key, 'GET', `/api/flows/${id}${query}`, undefined, headers);
const post = (server, path, body) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
async function start(flowTemplate, input, server = one) {
  const reply = await post(server, 'start', { flowTemplate, input });
  assert.equal(reply.status, 200, reply.text);
  return reply.json.flowId;
}

// Reads each revision until the flow ends, from the server that runs it, together with the other
// server's view.
async function follow(id) {
  const told = new Map(), read = new Map();
  let etag;
  for (;;) {
    const reply = await get(one, id, '?wait=20', etag && { 'if-none-match': etag });
    assert.equal(reply.status, 200, reply.text);
    etag = reply.headers.get('etag');
    told.set(etag, reply.text);
    for (const server of [two, one]) {
      const beside = await get(server, id);
      const tag = beside.headers.get('etag');
      assert.ok(Number(tag.slice(1, -1)) >= Number(etag.slice(1, -1)), 'no server returns an older revision than was reported');
      assert.equal(read.get(tag) ?? beside.text, beside.text);
      read.set(tag, beside.text);
    }
    // a flow that pauses for a moment may continue before it is read
    if (reply.json.flow.status !== 'running' && read.has(etag)) break;
  }
  for (const [tag, text] of told) if (read.has(tag)) assert.equal(text, read.get(tag));
  return JSON.parse(told.get(etag));
}

test('calls and transforms', async () => {
  const seen = await follow(await start('probe_chain', { subject: 'seen "\u00fc\ud83d\ude00"', confirm: true }));
  assert.equal(seen.flow.status, 'completed');
  assert.equal(seen.flow.context.end.subject, 'seen "\u00fc\ud83d\ude00"');
});

// A reply of this size is sent in pieces, while the client reads it.
test('a view of more than a megabyte', async () => {
  const subject = 'x'.repeat(400_000);
  const id = await start('probe_chain', { subject, confirm: true });
  const seen = await follow(id);
  assert.equal(seen.flow.input.subject, subject);
  for (const server of [one, two]) {
    const replies = await Promise.all(Array.from({ length: 4 }, () => get(server, id)));
    for (const reply of replies) assert.deepEqual(reply.json, seen);
    assert.ok(replies[0].text.length > 700_000, `${replies[0].text.length} ${replies[0].text.slice(-300)}`);
  }
});

test('a fan-out', async () => {
  const seen = await follow(await start('probe_fan', { subjects: ['seen a', 'seen b', 'seen c'], confirm: true }));
  assert.equal(seen.flow.context.count, 3);
});

test('attempts that fail, and a failed flow that is resumed', async () => {
  await stack.provider.faults([{ match: LABEL, count: 3, action: { status: 400, body: '{"error":{"message":"no"}}' } }]);
  const id = await start('probe_retry', {});
  const failed = await follow(id);
  assert.equal(failed.flow.status, 'failed');
  await stack.provider.faults([{ match: LABEL, count: 2, action: { status: 503 } }]);
  assert.equal((await post(one, `${id}/resume`)).status, 200);
  const seen = await follow(id);
  assert.equal(seen.flow.status, 'completed', JSON.stringify(seen.steps));
  assert.ok(seen.steps[0].attemptCount > failed.steps[0].attemptCount);
  await stack.provider.faults([]);
});

test('a wait, an approval on another server, and the end', async () => {
  const id = await start('api_gate', { id: 'INBOX', seconds: 0.2 });
  assert.equal((await follow(id)).flow.status, 'waiting');
  const asks = (await get(one, id, '?wait=20&until=settled')).json;
  assert.equal(asks.flow.status, 'waiting');
  let now = asks;
  while (now.flow.currentStep !== 'ask' || now.flow.status !== 'waiting') now = await follow(id);
  assert.equal((await post(two, `${id}/approve`, { note: 'yes' })).status, 200);
  const done = await get(one, id, '?wait=20&until=settled');
  assert.equal(done.json.flow.status, 'completed');
  assert.equal((await get(two, id)).text, done.text);
});

const DOCUMENTS = { flow: ['input', 'context'], step: ['input', 'output'] };
const without = (object, names) => Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
const summaryOf = ({ flow, steps }) => ({ flow: without(flow, DOCUMENTS.flow), steps: steps.map((step) => without(step, DOCUMENTS.step)) });

test('a summary is the view without documents: read, waited for, as events, on any server', async () => {
  const id = await start('probe_approve', { subject: 'in brief' });
  const waiting = (await get(one, id, '?wait=20&until=settled')).json;
  const ended = get(two, id, '?wait=20&until=ended&fields=summary');
  for (const server of [one, two]) {
    const summary = await get(server, id, '?fields=summary');
    assert.deepEqual(summary.json, summaryOf(waiting));
    assert.equal(summary.headers.get('etag'), (await get(server, id)).headers.get('etag'));
  }
  const stream = await fetch(`${one.base}/api/flows/${id}/events?fields=summary`, { headers: { authorization: `Bearer ${account.key}` } });
  assert.equal((await post(one, `${id}/approve`)).status, 200);
  const events = (await stream.text()).split('\n').filter((line) => line.startsWith('data: ')).map((line) => JSON.parse(line.slice(6)));
  const done = (await get(one, id)).json;
  assert.equal(done.flow.status, 'completed');
  assert.deepEqual([events[0], events.at(-1), (await ended).json], [summaryOf(waiting), summaryOf(done), summaryOf(done)]);
  for (const path of [`${id}?fields=all`, `${id}/events?fields=all`, `${id}?until=end`]) assert.equal((await get(one, path)).status, 400, path);
});

test('a change by another server is visible at once: no cached view is shown again', async () => {
  const id = await start('probe_approve', { subject: 'seen and cancelled' });
  for (let i = 0; i < 3; i++) assert.equal((await get(one, id)).json.flow.status, 'waiting');
  assert.equal((await post(two, `${id}/cancel`)).status, 200);
  assert.equal((await get(one, id)).json.flow.status, 'cancelled');
  assert.equal((await get(one, id)).text, (await get(two, id)).text);
});

test('neither is a view of a flow that runs here, once it is cancelled there', async () => {
  const held = await hold(stack.provider, SLEEP);
  const id = await start('probe_reads', { ms: [1] });
  await held.reached(1);
  assert.equal((await get(one, id)).json.flow.status, 'running');
  const waits = get(one, id, '?wait=20&until=settled');
  assert.equal((await post(two, `${id}/cancel`)).status, 200);
  assert.equal((await get(one, id)).json.flow.status, 'cancelled');
  assert.equal((await waits).json.flow.status, 'cancelled');
  await held.letGo();
});

test("another account's flow is not found, whether it runs here, is cached here, or neither", async () => {
  const held = await hold(stack.provider, SLEEP);
  const runs = await start('probe_reads', { ms: [1] });
  const kept = await start('probe_approve', { subject: 'kept' });
  assert.equal((await get(one, kept)).status, 200);
  assert.equal((await get(one, runs)).status, 200);
  for (const id of [runs, kept])
    for (const server of [one, two])
      for (const query of ['', '?wait=20', '?wait=20&until=settled'])
        assert.equal((await server.call(other.key, 'GET', `/api/flows/${id}${query}`)).status, 404);
  assert.equal((await post(one, `${runs}/cancel`)).status, 200);
  await held.letGo();
});
