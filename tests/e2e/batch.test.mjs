// POST /api/executions/batch: many executions in one request, each treated like a single execution.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { hold, startDev, until } from './support/dev.mjs';

let dev;
before(async () => (dev = await startDev({ args: ['--executions', '45', '--account-executions', '45'] })));
after(async () => {
  const end = await dev.stop();
  assert.deepEqual([end.code, end.signal], [0, null], end.log);
});
beforeEach(() => dev.faults([]));

const LABELS = { path_prefix: '/gmail/v1/users/me/labels' };
const read = { integration_id: 'gmail', action_id: 'list_labels', input: {} };
const page = (title, more = {}) => ({
  integration_id: 'notion',
  action_id: 'create_page',
  input: { parent: dev.taskParent, properties: { title: { title: [{ text: { content: title } }] } } },
  ...more,
});
const batch = (executions, headers) => dev.call('POST', '/api/executions/batch', { executions }, headers);
const writesOf = async (title) =>
  (await dev.ledger()).filter((write) => JSON.stringify(write).includes(title)).length;

test('each item ends as it would alone, in the order of the request', async () => {
  const { status, json, text } = await batch([
    read,
    page('never confirmed'),
    page('a page of a batch', { confirm: true, idempotency_key: 'batch-1' }),
    { integration_id: 'gmail', action_id: 'nope', input: {} },
    { integration_id: 'gmail', action_id: 'list_labels' },
    'not an object',
    { ...read, confirm: 'yes' },
    { ...read, idempotency_key: '' },
    page('a dry run', { confirm: true, dry_run: true }),
    { integration_id: 'gmail', action_id: 'get_message', input: { id: 'ffffffffffffffff' } },
  ]);
  assert.equal(status, 200, text);
  const { results } = json;
  assert.deepEqual(results.map((one) => one.status), [200, 409, 200, 409, 400, 400, 400, 400, 200, 500]);
  assert.deepEqual(
    results.map((one) => one.summary?.error_code),
    [undefined, 'policy_blocked', undefined, 'action_not_found', undefined, undefined, undefined, undefined, undefined,
      'execution_failed'],
  );
  assert.deepEqual(results[4], { status: 400, error: 'integration_id, action_id and an object input are required' });
  for (const [index, word] of [[5, /object/], [6, /confirm/], [7, /idempotency_key/]])
    assert.match(results[index].error, word);
  assert.equal(results[8].summary.dry_run, true);
  assert.deepEqual([await writesOf('a page of a batch'), await writesOf('never confirmed'), await writesOf('a dry run')],
    [1, 0, 0]);
  // each run is stored like any other execution
  for (const index of [0, 2, 9]) {
    const stored = await dev.call('GET', `/api/executions/${results[index].summary.execution_id}`);
    assert.deepEqual(stored.json, results[index].summary);
  }
});

test('items run at the same time', async () => {
  const held = await hold(dev, LABELS);
  const reply = batch(Array.from({ length: 20 }, () => read));
  await held.reached(20); // none is answered before the last has begun
  await held.letGo();
  const { json } = await reply;
  assert.deepEqual(json.results.map((one) => one.status), Array(20).fill(200));
  assert.equal(new Set(json.results.map((one) => one.summary.execution_id)).size, 20);
});

test('one key in several items is one run', async () => {
  const item = page('keyed in a batch', { confirm: true, idempotency_key: 'batch-same' });
  const { json } = await batch([item, item, item, page('another', { confirm: true, idempotency_key: 'batch-same' })]);
  assert.deepEqual(json.results.map((one) => one.status).sort(), [200, 200, 200, 409]);
  const done = json.results.filter((one) => one.status === 200);
  assert.equal(new Set(done.map((one) => one.summary.execution_id)).size, 1);
  assert.equal(done.filter((one) => one.idempotent_replayed === true).length, 2);
  assert.equal((await writesOf('keyed in a batch')) + (await writesOf('another')), 1);
});

test('invalid batches are refused', async () => {
  for (const executions of [undefined, null, {}, [], 'x', Array.from({ length: 51 }, () => read)]) {
    const reply = await dev.call('POST', '/api/executions/batch', { executions });
    assert.equal(reply.status, 400, JSON.stringify(executions));
    assert.match(reply.json.error, /executions|50/);
  }
  const header = await batch([read], { 'idempotency-key': 'x' });
  assert.equal(header.status, 400);
  assert.match(header.json.error, /Idempotency-Key/);
  const large = await batch([{ ...read, input: { x: 'x'.repeat(9 * 1024 * 1024) } }]);
  assert.equal(large.status, 413);
  assert.equal((await dev.call('DELETE', '/api/executions/batch')).status, 405);
});

test('items over the limit of executions in flight are refused one by one', async () => {
  const held = await hold(dev, LABELS);
  const reply = batch(Array.from({ length: 50 }, () => read)); // the server accepts 45
  await held.reached(45);
  await held.letGo();
  const { status, json } = await reply;
  assert.equal(status, 200);
  const statuses = json.results.map((one) => one.status);
  assert.deepEqual(statuses, [...Array(45).fill(200), ...Array(5).fill(503)]);
  assert.equal(typeof json.results[49].error, 'string');
  assert.equal(json.results[49].retry_after, 1);
});

test('each execution counts towards an account’s rate limit', async () => {
  const slow = await startDev({ args: ['--account-rate', '1', '--account-burst', '5'] });
  try {
    const began = Date.now();
    const { status, json } = await slow.call('POST', '/api/executions/batch', { executions: Array(50).fill(read) });
    assert.equal(status, 200);
    const statuses = json.results.map((one) => one.status);
    const taken = statuses.filter((one) => one === 200).length;
    const most = 5 + Math.ceil((Date.now() - began) / 1000); // a burst of five, then one per second
    assert.ok(taken >= 5 && taken <= most, `${statuses}`);
    assert.deepEqual(statuses, [...Array(taken).fill(200), ...Array(50 - taken).fill(429)]);
    for (const { error, retry_after } of json.results.slice(taken)) {
      assert.equal(error, 'Too many requests');
      assert.ok(retry_after >= 1);
    }
  } finally {
    await slow.stop();
  }
});

test('a rate limit says when to try again', async () => {
  const limit = { match: { path_prefix: '/gmail/v1/users/me/labels' }, count: -1, action: { status: 429, retry_after: 40 } };
  await dev.faults([limit]);
  const { json } = await batch([read, page('not limited')]);
  assert.deepEqual(json.results.map((one) => one.retry_after), [40, undefined]);
});

test('summaries that would make the reply too large are replaced by their ids', async () => {
  // replies of a provider, over 4 MiB in total
  const mail = { from: 'ada@example.com', subject: 'large', text: 'x'.repeat(350_000) };
  const { id } = await dev.control('POST', '/mail', mail);
  const get = { integration_id: 'gmail', action_id: 'get_message', input: { id } };
  const alone = await dev.call('POST', '/api/executions', get);
  const { status, json, text } = await batch(Array.from({ length: 12 }, () => get));
  assert.equal(status, 200);
  const fit = Math.floor((4 * 1024 * 1024) / Buffer.byteLength(alone.text));
  assert.ok(fit < 12, `${alone.text.length} bytes each are not enough`);
  assert.ok(text.length < 5 * 1024 * 1024);
  assert.deepEqual(json.results.map((one) => one.truncated === true), Array.from({ length: 12 }, (_, i) => i >= fit));
  const { summary } = json.results[11];
  assert.deepEqual([summary.status, summary.action_id], ['succeeded', 'get_message']);
  const stored = await dev.call('GET', `/api/executions/${summary.execution_id}`);
  assert.deepEqual(stored.json.output, alone.json.output);
});

test('no record of a write is lost if the client disconnects', async () => {
  const items = Array.from({ length: 10 }, (_, i) => page(`left behind ${i}`, { confirm: true, idempotency_key: `left-${i}` })); // words: ok
  await dev.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, count: -1, action: { latency_ms: 300 } }]);
  const body = JSON.stringify({ executions: [...items, read] });
  const socket = net.connect(dev.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST /api/executions/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${dev.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  await until('the provider has made all writes', async () => (await writesOf('left behind')) === 10); // words: ok
  socket.destroy();
  const { json } = await batch(items);
  assert.deepEqual(json.results.map((one) => one.status), Array(10).fill(200));
  assert.deepEqual(json.results.map((one) => one.idempotent_replayed), Array(10).fill(true));
  assert.equal(await writesOf('left behind'), 10); // words: ok
});
