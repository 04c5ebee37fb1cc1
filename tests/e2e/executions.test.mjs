// The main task from a user's view: POST /api/executions and GET /api/executions/{id}
// (src/api/README.md "Executions").
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { startDev, until } from './support/dev.mjs';

let dev;
before(async () => (dev = await startDev()));
after(async () => {
  const end = await dev.stop();
  assert.deepEqual([end.code, end.signal], [0, null], end.log);
});
beforeEach(() => dev.faults([]));

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const newPage = (title) => ({
  parent: dev.taskParent,
  properties: { title: { title: [{ text: { content: title } }] } },
});
const createPage = (title, more) => dev.execute('notion', 'create_page', newPage(title), more);
const writesOf = async (title) =>
  (await dev.ledger()).filter((write) => JSON.stringify(write).includes(title)).length;

test('a read succeeds with the mails of the demo inbox and is stored', async () => {
  const reply = await dev.execute('gmail', 'search_messages', { query: 'is:unread', maxResults: 5 });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.headers.get('content-type'), 'application/json; charset=utf-8');
  const summary = reply.json;
  assert.equal(summary.status, 'succeeded');
  assert.match(summary.execution_id, UUID7);
  assert.equal(summary.integration_id, 'gmail');
  assert.equal(summary.action_id, 'search_messages');
  assert.match(summary.started_at, ISO);
  assert.match(summary.finished_at, ISO);
  assert.ok(summary.finished_at >= summary.started_at);
  assert.ok(summary.output.messages.length > 0 && summary.output.messages.length <= 5);
  assert.equal(typeof summary.display.title, 'string');
  assert.equal(typeof summary.display.summary, 'string');
  assert.equal('error_code' in summary, false);
  const stored = await dev.call('GET', `/api/executions/${summary.execution_id}`);
  assert.equal(stored.status, 200);
  assert.equal(stored.text, reply.text);
});

test('Server-Timing says how the time of a run was spent', async () => {
  const phases = (reply) => Object.fromEntries(reply.headers.get('server-timing').split(', ').map((one) => {
    const [, name, ms] = /^(\w+);dur=(\d+\.\d)$/.exec(one);
    return [name, Number(ms)];
  }));
  await dev.faults([{ match: { path_prefix: '/gmail/v1/users/me/labels' }, count: 1, action: { latency_ms: 300 } }]);
  const slow = phases(await dev.execute('gmail', 'list_labels', {}));
  assert.deepEqual(Object.keys(slow), ['gate', 'limits', 'provider', 'record']);
  assert.ok(slow.provider >= 300, JSON.stringify(slow));
  assert.ok(slow.record > 0, JSON.stringify(slow));
  assert.deepEqual(phases(await dev.execute('gmail', 'nope', {})).provider, 0);
  const metrics = (await dev.call('GET', '/metrics')).text;
  for (const phase of Object.keys(slow)) assert.match(metrics, new RegExp(`^sluice_execution_phase_seconds_count\\{integration="gmail",phase="${phase}"\\} [1-9]`, 'm'));
});

test('the full tool name is an action id, too', async () => {
  const reply = await dev.execute('gmail', 'gmail_list_labels', {});
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.json.action_id, 'list_labels');
});

test('a write without confirm is blocked and nothing is done', async () => {
  const reply = await createPage('never confirmed');
  assert.equal(reply.status, 409);
  const { json } = reply;
  assert.equal(json.status, 'blocked');
  assert.equal(json.execution_id, null);
  assert.equal(json.error_code, 'policy_blocked');
  assert.ok(json.message && json.hint && json.display.title);
  assert.equal(await writesOf('never confirmed'), 0);
  for (const confirm of [false, null]) assert.equal((await createPage('never confirmed', { confirm })).status, 409);
});

test('a confirmed write succeeds, reaches the provider, and is stored', async () => {
  const reply = await createPage('a confirmed page', { confirm: true });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(await writesOf('a confirmed page'), 1);
  const page = await dev.execute('notion', 'get_page', { page_id: reply.json.output.id });
  assert.equal(page.status, 200, page.text);
  const stored = await dev.call('GET', `/api/executions/${reply.json.execution_id}`);
  assert.equal(stored.text, reply.text);
});

test('guard errors are bare objects', async () => {
  const wanted = { error: 'integration_id, action_id and an object input are required' };
  for (const body of [
    {},
    { integration_id: 'gmail', action_id: 'list_labels' },
    { integration_id: 'gmail', input: {} },
    { action_id: 'list_labels', input: {} },
    { integration_id: 7, action_id: 'list_labels', input: {} },
    { integration_id: '', action_id: 'list_labels', input: {} },
  ]) {
    const reply = await dev.call('POST', '/api/executions', body);
    assert.equal(reply.status, 400, JSON.stringify(body));
    assert.deepEqual(reply.json, wanted);
  }
  for (const [input, type] of [[[], 'array'], ['x', 'text']]) {
    const reply = await dev.call('POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input });
    assert.deepEqual([reply.status, reply.json], [400, { error: `${wanted.error}: input must be an object, got ${type}` }]);
  }
  const good = { integration_id: 'gmail', action_id: 'list_labels', input: {} };
  for (const [more, word] of [
    [{ confirm: 'yes' }, 'confirm'],
    [{ confirm: 1 }, 'confirm'],
    [{ idempotency_key: 7 }, 'idempotency_key'],
    [{ idempotency_key: '' }, 'idempotency_key'],
    [{ idempotency_key: 'x'.repeat(256) }, 'idempotency_key'],
    [{ idempotency_key: 'a\nb' }, 'idempotency_key'],
  ]) {
    const reply = await dev.call('POST', '/api/executions', { ...good, ...more });
    assert.equal(reply.status, 400, JSON.stringify(more));
    assert.match(reply.json.error, new RegExp(word));
  }
  const two = await dev.call('POST', '/api/executions', { ...good, idempotency_key: 'a' }, { 'idempotency-key': 'b' });
  assert.equal(two.status, 400);
});

test('bodies that are not acceptable JSON are refused with the position', async () => {
  const bad = async (text, status = 400) => {
    const reply = await dev.call('POST', '/api/executions', text);
    assert.equal(reply.status, status, text.slice(0, 60));
    assert.equal(typeof reply.json.error, 'string');
    return reply.json.error;
  };
  assert.match(await bad('{"a": tru}'), /byte \d+/);
  await bad('');
  await bad('[]');
  await bad('"text"');
  await bad('{"input":{},"input":{}}');
  assert.match(await bad('{"input":{"confirm":1,"confirm":2}}'), /confirm/);
  await bad(`{"a":${'['.repeat(70)}${']'.repeat(70)}}`);
  const type = await dev.call('POST', '/api/executions', '{}', { 'content-type': 'text/plain' });
  assert.equal(type.status, 415);
  const packed = await dev.call('POST', '/api/executions', '{}', { 'content-encoding': 'gzip' });
  assert.equal(packed.status, 415);
  assert.match(packed.json.error, /Content-Encoding/);
  const utf8 = await fetch(dev.base + '/api/executions', {
    method: 'POST',
    headers: { authorization: `Bearer ${dev.key}` },
    body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
  });
  assert.equal(utf8.status, 400);
  await bad(JSON.stringify({ input: 'x'.repeat(9 * 1024 * 1024) }), 413);
});

test('the key comes first, then path and method', async () => {
  const bad = async (authorization) => dev.call('GET', '/api/nothing', undefined, { authorization });
  for (const value of [undefined, '', 'Bearer', 'Bearer x', `Basic ${dev.key}`, `Bearer ${dev.key}x`,
    `Bearer sk_${'A'.repeat(43)}`]) {
    const reply = await bad(value);
    assert.equal(reply.status, 401, String(value));
    assert.deepEqual(reply.json, { error: 'Missing or invalid API key' });
    assert.equal(reply.headers.get('www-authenticate'), 'Bearer');
  }
  const unknown = await dev.call('GET', '/api/nothing');
  assert.equal(unknown.status, 404);
  assert.deepEqual(unknown.json, { error: 'Not found' });
  const method = await dev.call('DELETE', '/api/executions');
  assert.equal(method.status, 405);
  assert.equal(method.headers.get('allow'), 'GET, HEAD, POST');
});

test('a run that stops before the call is blocked, in the order of the table', async () => {
  const cases = [
    ['nope', 'x', {}, 'integration_not_found'],
    ['gmail', 'nope', {}, 'action_not_found'],
    ['gmail', 'search_messages', { query: 'x', maxResults: 100000 }, 'validation_error'],
    ['gmail', 'search_messages', { qery: 'x' }, 'validation_error'],
    ['notion', 'create_page', { parent: 1 }, 'policy_blocked'],
    ['notion', 'create_page', { parent: 1 }, 'validation_error', { confirm: true }],
  ];
  for (const [integration, action, input, code, more] of cases) {
    const reply = await dev.execute(integration, action, input, more);
    assert.equal(reply.status, 409, reply.text);
    assert.equal(reply.json.status, 'blocked');
    assert.equal(reply.json.execution_id, null);
    assert.equal(reply.json.error_code, code);
    assert.equal(reply.json.integration_id, integration);
  }
  const near = await dev.execute('gmail', 'search_messages', { qery: 'x' });
  assert.match(near.json.message + near.json.hint, /query/);
});

test('an unknown execution is not found', async () => {
  for (const id of ['x', '00000000-0000-7000-8000-000000000000', '%00', 'a b']) {
    const reply = await dev.call('GET', `/api/executions/${id}`);
    assert.ok([404, 400].includes(reply.status), `${id}: ${reply.status}`);
  }
  const reply = await dev.call('GET', '/api/executions/01900000-0000-7000-8000-000000000000');
  assert.equal(reply.status, 404);
  assert.deepEqual(reply.json, { error: 'Execution not found' });
});

test('null for an optional member counts as absent, and is the same request for a key', async () => {
  const idle = { query: null, labelIds: null, pageToken: null, includeSpamTrash: null };
  const run = (input) => dev.execute('gmail', 'list_threads', input, { idempotency_key: 'nulls' });
  const first = await run({ maxResults: 2, ...idle });
  assert.equal(first.status, 200, first.text);
  const again = await run({ maxResults: 2 });
  assert.deepEqual([again.text, again.headers.get('idempotent-replayed')], [first.text, 'true']);
  const tool = await dev.call('POST', '/api/tools/gmail_list_threads/execute', { maxResults: 2, ...idle });
  assert.equal(tool.status, 200, tool.text);
  for (const [input, fault] of [[{ ...idle, nope: null }, '/input/nope'], [{ labelIds: [null] }, '/input/labelIds/0']]) {
    const refused = await dev.execute('gmail', 'list_threads', input);
    assert.deepEqual([refused.json.error_code, refused.json.message.split(':')[0]], ['validation_error', fault], refused.text);
  }
  const required = await dev.execute('gmail', 'get_thread', { id: null });
  assert.match(required.json.message, /^\/input\/id: must be string, not null/);
});

test('null is kept if the schema accepts it, and is sent', async () => {
  const page_id = '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10';
  const reply = await dev.execute('notion', 'update_page', { page_id, icon: null, title: null, in_trash: false }, { dry_run: true });
  assert.deepEqual(JSON.parse(reply.json.request.body), { icon: null, in_trash: false });
});

test('the longest mail that the schema accepts is sent, and no message shows an expression', async () => {
  const mail = (more) => dev.execute('gmail', 'send_message', { to: 'ada@example.com', subject: 'long', ...more }, { confirm: true });
  const sent = await mail({ text: 'ä😀'.repeat(250_000), html: 'x'.repeat(500_000) });
  assert.equal(sent.status, 200, sent.text.slice(0, 500));
  const refused = await mail({ text: 'x', from: 'nobody' });
  assert.match(refused.json.message, /^The request cannot be made from this input: from: nobody is not an email address/);
});

test('the same key and request return the stored summary, another request is refused', async () => {
  const key = `k-${Date.now()}`;
  const first = await createPage('keyed page', { confirm: true, idempotency_key: key });
  assert.equal(first.status, 200, first.text);
  assert.equal(first.headers.get('idempotent-replayed'), null);
  for (let i = 0; i < 3; i++) {
    const again = await createPage('keyed page', { confirm: true, idempotency_key: key });
    assert.equal(again.status, 200);
    assert.equal(again.text, first.text);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
  }
  const header = await dev.call(
    'POST',
    '/api/executions',
    { integration_id: 'notion', action_id: 'notion_create_page', input: newPage('keyed page'), confirm: true },
    { 'idempotency-key': key },
  );
  assert.equal(header.text, first.text);
  const other = await createPage('another page', { confirm: true, idempotency_key: key });
  assert.equal(other.status, 409);
  assert.equal(other.json.error_code, 'validation_error');
  assert.equal(await writesOf('keyed page'), 1);
  assert.equal(await writesOf('another page'), 0);
});

test('fifty concurrent requests with one key make one call', async () => {
  await dev.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, count: 1, action: { latency_ms: 300 } }]);
  const key = `race-${Date.now()}`;
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => createPage('raced page', { confirm: true, idempotency_key: key })),
  );
  assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [200]);
  assert.equal(new Set(replies.map((reply) => reply.json.execution_id)).size, 1);
  assert.equal(await writesOf('raced page'), 1);
});

test('a provider’s refusals are classified', async () => {
  const path_prefix = '/gmail/v1/users/me/labels';
  const run = async (action) => {
    await dev.faults([{ match: { path_prefix }, count: -1, action }]);
    return dev.execute('gmail', 'list_labels', {});
  };
  const slow = await run({ status: 403 }); // Gmail says "too fast" with 403 rateLimitExceeded
  assert.equal(slow.json.error_code, 'rate_limited', slow.text);
  await dev.faults([{ match: { path_prefix: '/v1/users' }, count: -1, action: { status: 403 } }]);
  const forbidden = await dev.execute('notion', 'list_users', {});
  assert.equal(forbidden.status, 500, forbidden.text);
  assert.deepEqual([forbidden.json.status, forbidden.json.error_code], ['failed', 'forbidden']);
  assert.match(forbidden.json.execution_id, UUID7);
  const limited = await run({ status: 429, retry_after: 40 });
  assert.equal(limited.json.error_code, 'rate_limited', limited.text);
  assert.equal(limited.headers.get('retry-after'), '40');
  const broken = await run({ status: 500 });
  assert.equal(broken.json.error_code, 'execution_failed', broken.text);
  const reset = await run({ reset: 'mid_body' });
  assert.equal(reset.json.error_code, 'execution_failed', reset.text);
});

test('a read is retried if that can help, a write is not', async () => {
  const once = [{ match: { path_prefix: '/gmail/v1/users/me/labels' }, count: 1, action: { status: 503 } }];
  await dev.faults(once);
  const read = await dev.execute('gmail', 'list_labels', {});
  assert.equal(read.status, 200, read.text);
  await dev.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, count: 1, action: { status: 503 } }]);
  const write = await createPage('not repeated', { confirm: true });
  assert.equal(write.status, 500, write.text);
  assert.equal(write.json.error_code, 'execution_failed');
  assert.equal(await writesOf('not repeated'), 0);
});

test('a refused credential marks the connection and says how to repair it', async () => {
  const other = await startDev();
  try {
    await other.faults([{ match: { path_prefix: '/v1/' }, count: -1, action: { status: 401 } }]);
    const first = await other.execute('notion', 'get_self', {});
    assert.equal(first.status, 409, first.text);
    assert.equal(first.json.execution_id, null);
    assert.ok(['unauthorized', 'reauth_required'].includes(first.json.error_code));
    await other.faults([]);
    const second = await until('the connection is marked', async () => {
      const reply = await other.execute('notion', 'get_self', {});
      return reply.status === 409 && reply;
    });
    assert.equal(second.json.error_code, 'reauth_required');
    assert.deepEqual(second.json.recommended_next_action, {
      tool: 'sluice.connect_app',
      input: { integration_id: 'notion', force_reconnect: true },
    });
    const list = await other.call('GET', '/api/integrations');
    const notion = list.json.items.find((item) => item.integration_id === 'notion');
    assert.deepEqual([notion.connected, notion.connection_state], [false, 'reauth_required']);
  } finally {
    await other.stop();
  }
});

test('values survive byte for byte', async () => {
  const title = 'nul \u0000 and 9007199254740993 \u{1F600}';
  const reply = await createPage(title, { confirm: true });
  assert.equal(reply.status, 200, reply.text);
  const stored = await dev.call('GET', `/api/executions/${reply.json.execution_id}`);
  assert.equal(stored.text, reply.text);
  assert.ok(reply.text.includes('\\u0000'));
});
