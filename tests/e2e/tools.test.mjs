// POST /api/tools/{tool_name}/execute (src/api/README.md "Tool endpoint"): envelopes and statuses
// of every way in which an execution can end, and connections, arguments and files.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ORIGIN = 'https://upload.example';

const action = (action_id, request, files, more = {}) => ({
  action_id,
  title: `Do ${action_id}`,
  description: 'Sends to the echo.',
  side_effect_level: 'read',
  input_schema: {
    type: 'object',
    additionalProperties: false,
    properties: { note: { type: 'string', description: 'Anything.' } },
  },
  request: { method: 'POST', path: '/echo', ...request },
  response: { output: 'body' },
  display: { title: 'Done', summary: 'Done' },
  ...(files && { files }),
  ...more,
});
const upload = {
  integration_id: 'upload',
  name: 'Upload',
  description: 'The echo of the emulated provider, without a credential.',
  category: 'test',
  base_url: ORIGIN,
  auth: { type: 'none' },
  actions: [
    action('parts', { body: { multipart: [{ name: 'note', value: '${input.note}' }] } }, {
      travel: 'multipart', field: 'attachment', count_max: 3,
    }),
    action('put', { method: 'PUT' }, { travel: 'raw', bytes_max: 1000 }),
    action('put_large', { method: 'PUT' }, { travel: 'raw' }, { response: { output: 'length(body.body_base64)' } }),
    action('many', { path: '/status/200' }, { travel: 'multipart' }, { response: { output: 'status' } }),
    action('inline', { body: { json: { name: '${files[0].name}', data: '${files[0].data}', type: '${files[0].content_type}' } } }, {
      travel: 'base64',
    }),
    action('none', { body: { json: { note: '${input.note}' } } }),
    action('too_large', { method: 'GET', path: '/bytes/300000' }),
    action('slow', { method: 'GET', path: '/sleep/20000' }, null, { deadline_ms: 400 }),
    action('slow_write', { path: '/sleep/20000' }, null, { deadline_ms: 400, side_effect_level: 'write' }),
    ...[400, 401, 403, 404, 418, 429, 500, 501].map((status) =>
      action(`status_${status}`, { method: 'GET', path: `/status/${status}` })),
    action('keyed', { body: { json: { note: '${input.note}' } } }, null, {
      side_effect_level: 'write', idempotency_header: 'X-Provider-Key',
    }),
    action('keyed_inside', { body: { json: { variables: { note: '${input.note}' } } } }, null, {
      side_effect_level: 'write', idempotency_member: 'variables.id',
    }),
    action('keyed_form', { body: { form: { note: '${input.note}' } } }, null, { side_effect_level: 'write', idempotency_member: 'key' }),
    action('write_500', { path: '/status/500' }, null, { side_effect_level: 'write' }),
  ],
};
// An integration whose name begins with another's: tool names must be split at the right position.
const longer = { ...upload, integration_id: 'upload_two', name: 'Upload two', actions: [action('none', {})] };
const away = { ...upload, integration_id: 'away', name: 'Away', base_url: 'https://away.invalid', actions: [action('none', {})] };

// The credential is sent in the query.
const queried = {
  ...upload,
  integration_id: 'queried',
  name: 'Queried',
  auth: { type: 'api_key', send: { in: 'query', name: 'key', value: '${credential.api_key}' }, test: { method: 'GET', path: '/echo' } },
  actions: [action('none', { method: 'GET', query: { first: '1' } })],
};

// Not every token answer names its type, but this manifest requires it.
const typed = {
  ...queried,
  integration_id: 'typed',
  name: 'Typed',
  auth: {
    type: 'oauth2', authorize_url: `${ORIGIN}/authorize`, token_url: `${ORIGIN}/token`,
    send: { in: 'header', name: 'Authorization', value: '${credential.token_type} ${credential.access_token}' },
  },
};

// Files go to another host, which is different for each customer.
const regional = {
  ...queried,
  integration_id: 'regional',
  name: 'Regional',
  connection_params: {
    type: 'object', required: ['region'], additionalProperties: false,
    properties: { region: { type: 'string', pattern: '^[a-z]+$', description: 'The region.' } },
  },
  auth: { type: 'bearer' },
  actions: [
    action('here', { method: 'GET' }),
    action('there', { method: 'GET', base_url: 'https://${connection.params.region}.files.example' }),
    action('nowhere', { method: 'GET', base_url: 'https://${connection.params.region}.files.example:444' }),
  ],
};

let stack, server, a, b;
before(async () => {
  stack = await Stack.start();
  const dir = join(stack.dir, 'catalog');
  await mkdir(dir);
  for (const manifest of [upload, longer, away, queried, typed, regional])
    await writeFile(join(dir, `${manifest.integration_id}.json`), JSON.stringify(manifest));
  await copyFile(new URL('support/catalog/probe.json', import.meta.url).pathname, join(dir, 'probe.json'));
  const overrides = [ORIGIN, 'https://eu.files.example'].flatMap((origin) => ['--origin-override', `${origin}=${stack.provider.url}`]);
  stack.options = { env: { SLUICE_CATALOG: dir }, args: overrides };
  a = await stack.account('a', { apps: [] });
  b = await stack.account('b', { apps: [] });
  for (const account of [a, b]) {
    account.gmail = await stack.connect(account.id, 'gmail', { access_token: 'ya29.demo-gmail-full' }, ['--default']);
    account.notion = await stack.connect(account.id, 'notion', { access_token: 'ntn_demo_notion' });
  }
  a.readonly = await stack.connect(a.id, 'gmail', { access_token: 'ya29.demo-gmail-readonly' }, ['--label', 'second']);
  const args = [...stack.options.args, '--provider-response-bytes', '256k'];
  a.queried = await stack.connect(a.id, 'queried', { api_key: 's3cr3t key' }, [], stack.options);
  await stack.connect(a.id, 'typed', { access_token: 's3cr3t token' }, [], stack.options);
  await stack.connect(a.id, 'regional', { token: 's3cr3t' }, ['--params', '{"region":"eu"}'], stack.options);
  server = await stack.serve({ ...stack.options, args });
});
after(() => stack?.stopWell(assert));
beforeEach(() => stack.provider.faults([]));

const tool = (name, body, headers, account = a) =>
  server.call(account.key, 'POST', `/api/tools/${name}/execute`, body, headers);

function assertOk(reply, name) {
  assert.equal(reply.status, 200, reply.text);
  const { ok, toolName, integration, data, meta, canonical } = reply.json;
  assert.deepEqual(Object.keys(reply.json), ['ok', 'toolName', 'integration', 'data', 'meta', 'canonical']);
  assert.deepEqual([ok, toolName], [true, name]);
  assert.equal(canonical.integration_id, integration);
  assert.equal(`${integration}_${canonical.action_id}`, name);
  assert.deepEqual(canonical.output, data);
  assert.equal(canonical.status, 'succeeded');
  assert.match(meta.executionId, UUID);
  assert.equal(canonical.execution_id, meta.executionId);
  assert.ok(Number.isInteger(meta.durationMs) && meta.durationMs >= 0);
  return reply.json;
}

// wanted: [http status, type, code, retryable, canonical error_code]
function assertError(reply, wanted) {
  const { ok, toolName, error, canonical } = reply.json ?? {};
  assert.deepEqual([reply.status, error?.type, error?.code, error?.retryable, canonical?.error_code], wanted, reply.text);
  assert.deepEqual(Object.keys(reply.json), ['ok', 'toolName', 'integration', 'error', 'canonical']);
  assert.deepEqual(Object.keys(error), ['type', 'code', 'message', 'retryable']);
  assert.equal(ok, false);
  assert.equal(typeof toolName, 'string');
  assert.equal(canonical.status, wanted[0] === 500 ? 'failed' : 'blocked');
  assert.equal(canonical.message, error.message);
  assert.ok(error.message.length > 10);
  assert.equal(canonical.execution_id === null, wanted[0] !== 500);
  return reply.json;
}

const NOT_CONNECTION = [409, 'connection', 'connection_not_found', false, 'integration_not_connected'];
const INVALID = [409, 'validation', 'invalid_arguments', false, 'validation_error'];
const mail = (subject) => ({ to: 'x@example.com', subject, text: 'x' });

test('a read: data, meta and the canonical summary, which is stored', async () => {
  const reply = await tool('gmail_search_messages', { arguments: { query: 'is:unread', maxResults: 2 } });
  const json = assertOk(reply, 'gmail_search_messages');
  assert.equal(json.integration, 'gmail');
  assert.ok(json.data.messages.length > 0);
  assert.deepEqual([json.meta.attempts, json.meta.provider.status], [1, 200]);
  const stored = await server.call(a.key, 'GET', `/api/executions/${json.meta.executionId}`);
  assert.deepEqual(stored.json, json.canonical);
});

test('without arguments all other keys are the arguments', async () => {
  const reply = await tool('gmail_search_messages', {
    query: 'is:unread', maxResults: 1, connectionId: a.gmail, confirmed: false, files: [],
  });
  assert.equal(assertOk(reply, 'gmail_search_messages').data.messages.length, 1);
  assertOk(await tool('gmail_list_labels', {}), 'gmail_list_labels');
  assertOk(await tool('gmail_list_labels', { arguments: null, files: null, confirmed: null, connectionId: null }), 'gmail_list_labels');
  assertOk(await tool('gmail_list_labels', { arguments: {}, query: 'not read' }), 'gmail_list_labels');
  assertError(await tool('gmail_search_messages', { qery: 'x' }), INVALID);
  assertError(await tool('gmail_list_labels', { idempotency_key: 'k' }), INVALID);
});

test('names are resolved by the longest registered prefix', async () => {
  assert.equal(assertOk(await tool('upload_two_none', {}), 'upload_two_none').integration, 'upload_two');
  assert.equal(assertOk(await tool('upload_none', {}), 'upload_none').integration, 'upload');
  const unknown = { integration: [409, 'not_found', 'integration_not_found', false, 'integration_not_found'],
    action: [409, 'not_found', 'action_not_found', false, 'action_not_found'] };
  assert.equal(assertError(await tool('upload_two_parts', {}), unknown.action).integration, 'upload_two');
  assert.equal(assertError(await tool('gmail_nothing', {}), unknown.action).integration, 'gmail');
  for (const name of ['gmail', 'gmail_']) assertError(await tool(name, {}), unknown.action);
  for (const name of ['nope', 'nope_x', '_', '_gmail_x', 'gmai_list_labels', '%C3%A4', 'a%20b', '%2F'])
    assertError(await tool(name, {}), unknown.integration);
});

test('an invalid request is a guard error', async () => {
  for (const [body, word] of [
    [{ confirmed: 'yes' }, 'confirmed'], [{ confirmed: 1 }, 'confirmed'],
    [{ arguments: [] }, 'arguments'], [{ arguments: 'x' }, 'arguments'],
    [{ connectionId: true }, 'connectionId'], [{ connectionId: {} }, 'connectionId'],
    [{ files: {} }, 'files'], [{ files: 'x' }, 'files'], [{ files: [1] }, '/files/0 must be'],
    [{ files: [{ name: 1 }] }, 'name'], [{ files: [{ name: 'x' }, { data: [] }] }, '/files/1/data must be'],
    ['[]', 'object'], ['', 'required'], ['{"a":', 'JSON'], ['{"confirmed":true,"confirmed":false}', 'confirmed'],
  ]) {
    const reply = await tool('gmail_list_labels', body);
    assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.text}`);
    assert.deepEqual(Object.keys(reply.json), ['error']);
    assert.match(reply.json.error, new RegExp(word));
  }
  assert.equal((await tool('gmail_list_labels', {}, { 'idempotency-key': 'x'.repeat(256) })).status, 400);
  assert.equal((await tool('gmail_list_labels', {}, { authorization: 'Bearer x' })).status, 401);
  assert.equal((await tool('gmail_list_labels', '{}', { 'content-type': 'text/plain' })).status, 415);
  assert.equal((await server.call(a.key, 'GET', '/api/tools/gmail_list_labels/execute')).status, 405);
  const reader = { key: await stack.key(a.id, ['--scopes', 'read']) };
  assert.equal((await tool('gmail_list_labels', {}, {}, reader)).status, 403);
});

test('an unconfirmed write is 412 and nothing is done', async () => {
  const wanted = [412, 'confirmation', 'confirmation_required', false, 'policy_blocked'];
  for (const more of [{}, { confirmed: false }, { confirmed: null }]) {
    const reply = await tool('gmail_send_message', { arguments: mail('unconfirmed'), ...more });
    assert.match(assertError(reply, wanted).canonical.hint, /confirmed: true/);
  }
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'unconfirmed').length, 0);
  assertOk(await tool('gmail_send_message', { ...mail('confirmed'), confirmed: true }), 'gmail_send_message');
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'confirmed').length, 1);
});

test('connectionId names one of the account\'s own connections', async () => {
  const send = { ...mail('by the second'), confirmed: true };
  for (const connectionId of [String(a.readonly), Number(a.readonly)]) {
    assertOk(await tool('gmail_list_labels', { connectionId }), 'gmail_list_labels');
    const refused = await tool('gmail_send_message', { ...send, connectionId });
    assertError(refused, [500, 'auth', 'provider_forbidden', false, 'forbidden']);
  }
  for (const connectionId of [String(a.gmail), Number(a.gmail)])
    assertOk(await tool('gmail_send_message', { ...send, connectionId }), 'gmail_send_message');
  const others = [b.gmail, Number(b.gmail), a.notion, 1, 0, -1, 1.5, 1e300, 2 ** 53, '', 'x', '1x', '-1', ' 1', '0'];
  for (const connectionId of others) {
    const json = assertError(await tool('gmail_list_labels', { connectionId }), NOT_CONNECTION);
    assert.ok(json.canonical.hint);
    assert.equal('recommended_next_action' in json.canonical, false); // connecting would not help
  }
  assertError(await tool('upload_none', { connectionId: a.gmail }), NOT_CONNECTION);
  const bare = await stack.account('bare', { apps: [] });
  assertError(await tool('gmail_list_labels', {}, {}, bare), [409, 'connection', 'not_connected', false, 'integration_not_connected']);
  for (const label of ['one', 'two'])
    bare[label] = await stack.connect(bare.id, 'probe', { token: 'ya29.demo-gmail-full' }, ['--label', label]);
  assertOk(await tool('probe_read_label', { id: 'INBOX', connectionId: bare.two }, {}, bare), 'probe_read_label');
});

test('every reply of a provider has its own error', async () => {
  for (const [name, wanted] of [
    ['status_400', [500, 'validation', 'provider_refused_arguments', false, 'validation_error']],
    ['status_401', [409, 'auth', 'credential_refused', false, 'unauthorized']],
    ['status_403', [500, 'auth', 'provider_forbidden', false, 'forbidden']],
    ['status_404', [500, 'provider', 'provider_error', false, 'execution_failed']],
    ['status_418', [500, 'provider', 'provider_error', false, 'execution_failed']],
    ['status_429', [500, 'rate_limit', 'rate_limited', true, 'rate_limited']],
    ['status_500', [500, 'provider', 'provider_error', true, 'execution_failed']],
    ['status_501', [500, 'unsupported', 'unsupported_operation', false, 'unsupported_operation']],
    ['too_large', [500, 'provider', 'reply_too_large', false, 'execution_failed']],
    ['slow', [500, 'timeout', 'timeout', true, 'timeout']],
  ])
    assertError(await tool(`upload_${name}`, {}), wanted);
  const write = { confirmed: true };
  assertError(await tool('upload_write_500', write), [500, 'provider', 'provider_error', false, 'execution_failed']);
  const asked = async () => (await stack.provider.control('GET', '/counters')).requests;
  const slow = await until('the write is sent before its deadline', async () => {
    const before = await asked();
    const reply = await tool('upload_slow_write', write);
    return (await asked()) > before && reply;
  });
  assertError(slow, [500, 'timeout', 'timeout', false, 'timeout']);
  assertError(await tool('away_none', {}), [500, 'network', 'unreachable', true, 'execution_failed']);
});

test('every fault of a provider has its own error, with Retry-After if it is known', async () => {
  const fault = (act, path_prefix = '/gmail/') => stack.provider.faults([{ match: { path_prefix }, count: -1, action: act }]);
  const lost = [500, 'network', 'connection_lost', true, 'execution_failed'];
  await fault({ status: 429, retry_after: 40 });
  const limited = await tool('gmail_list_labels', {});
  assertError(limited, [500, 'rate_limit', 'rate_limited', true, 'rate_limited']);
  assert.equal(limited.headers.get('retry-after'), '40');
  await fault({ reset: 'mid_body' });
  assertError(await tool('gmail_list_labels', {}), lost);
  await fault({ garbage: true });
  assertError(await tool('gmail_list_labels', {}), lost);
  await fault({ reset: 'after' });
  const write = await tool('gmail_send_message', { ...mail('lost'), confirmed: true });
  assertError(write, [500, 'network', 'connection_lost', false, 'execution_failed']);
  assert.match(write.json.canonical.hint, /unknown/);
  await fault({ status: 401 }, '/v1/');
  const first = assertError(await tool('notion_get_self', {}, {}, b), [409, 'auth', 'reauth_required', false, 'reauth_required']);
  assert.equal(first.canonical.recommended_next_action.input.force_reconnect, true);
});

test('a replay returns the stored summary', async () => {
  const key = { 'idempotency-key': 'replayed' }, body = { arguments: mail('replayed'), confirmed: true };
  const first = await tool('gmail_send_message', body, key);
  const wanted = assertOk(first, 'gmail_send_message');
  assert.equal(first.headers.get('idempotent-replayed'), null);
  const again = await tool('gmail_send_message', { ...mail('replayed'), confirmed: true }, key);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  const json = assertOk(again, 'gmail_send_message');
  assert.deepEqual(json.canonical, wanted.canonical);
  assert.deepEqual([json.meta.attempts, json.meta.provider], [null, null]);
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'replayed').length, 1);
  const canonical = { integration_id: 'gmail', action_id: 'send_message', input: mail('replayed'), confirm: true };
  const same = await server.call(a.key, 'POST', '/api/executions', canonical, key);
  assert.deepEqual(same.json, wanted.canonical);
  assertError(await tool('gmail_send_message', { ...body, connectionId: a.gmail }, key),
    [409, 'validation', 'idempotency_key_reused', false, 'validation_error']);
});

test('a failed write is replayed and not retryable; a failed read frees its key', async () => {
  const key = { 'idempotency-key': 'failed' };
  await stack.provider.faults([{ match: { method: 'POST', path_prefix: '/gmail/' }, count: 1, action: { status: 503 } }]);
  const body = { ...mail('failed'), confirmed: true };
  const wanted = [500, 'provider', 'provider_error', false, 'execution_failed'];
  const first = assertError(await tool('gmail_send_message', body, key), wanted);
  const again = await tool('gmail_send_message', body, key);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.deepEqual(assertError(again, wanted), first);
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: 4, action: { status: 500 } }]);
  const read = { 'idempotency-key': 'read' };
  assertError(await tool('gmail_list_labels', {}, read), [500, 'provider', 'provider_error', true, 'execution_failed']);
  await stack.provider.faults([]);
  assertOk(await tool('gmail_list_labels', {}, read), 'gmail_list_labels');
});

test('a dry run stops before the provider and shows the request without its secrets', async () => {
  const since = (await stack.provider.ledger()).length;
  const body = { ...mail('a dry run'), confirmed: true };
  const key = { 'idempotency-key': 'a dry run' };
  assertOk(await tool('gmail_send_message', body, key), 'gmail_send_message');
  const dry = await server.call(a.key, 'POST', '/api/tools/gmail_send_message/execute?dry_run=true', body, key);
  assert.equal(dry.status, 200, dry.text);
  assert.deepEqual(Object.keys(dry.json), ['dry_run', 'request']);
  const { request } = dry.json;
  assert.deepEqual(Object.keys(request), ['method', 'url', 'headers', 'body']);
  assert.equal(request.method, 'POST');
  assert.match(request.url, /^https:\/\/gmail\.googleapis\.com\/gmail\/v1\/users\/me\/messages\/send/);
  assert.equal(request.headers.Authorization, '***');
  const raw = Buffer.from(JSON.parse(request.body).raw, 'base64url').toString();
  assert.match(raw, /^Subject: a dry run\r$/m);
  assert.ok(!dry.text.includes('ya29'));
  assert.equal((await stack.provider.ledger()).length, since + 1);
  const canonical = (more) =>
    server.execute(a.key, 'gmail', 'send_message', mail('a dry run'), { confirm: true, dry_run: true, ...more });
  const same = await canonical();
  assert.deepEqual([same.status, same.json.request.url, same.json.request.headers], [200, request.url, request.headers]);
  assert.deepEqual((await canonical({ confirm: false })).json, same.json);
  assert.equal((await canonical({ dry_run: 'yes' })).status, 400);
  const run = (name, more, query = 'dry_run=true') =>
    server.call(a.key, 'POST', `/api/tools/${name}/execute?${query}`, more);
  assert.equal((await run('gmail_send_message', mail('x'))).status, 200);
  assertError(await run('gmail_send_message', { ...body, nope: 1 }), INVALID);
  assertError(await run('gmail_list_labels', { connectionId: 7 }), NOT_CONNECTION);
  assert.equal((await run('gmail_list_labels', {}, 'dry_run=perhaps')).status, 400);
  assertOk(await run('gmail_list_labels', {}, 'dry_run=false'), 'gmail_list_labels');
  const get = (await run('gmail_list_labels', {})).json.request;
  assert.deepEqual([get.method, get.body], ['GET', null]);
  const query = (await run('queried_none', { connectionId: a.queried })).json.request;
  assert.equal(query.url, `${ORIGIN}/echo?first=1&key=***`);
  assert.ok(!JSON.stringify(query).includes('s3cr3t'));
  const parts = (await run('upload_parts', { note: 'n', files: [file('a.bin', [0, 255])] })).json.request;
  assert.match(parts.body, /\r\n\r\n<a\.bin: 2 bytes>\r\n--/);
  const put = (await run('upload_put', { files: [file('a.txt', 'text')] })).json.request;
  assert.deepEqual([put.method, put.body], ['PUT', '<a.txt: 4 bytes>']);
  const long = await run('upload_none', { note: '\u00e4'.repeat(50_000) });
  assert.match(long.json.request.body, /\u00e4<1000\d\d bytes in all>$/);
});

// ---- files ----

const file = (name, bytes, more = {}) => ({ name, data: Buffer.from(bytes).toString('base64'), ...more });
const header = (data, name) => data.headers.find(([one]) => one.toLowerCase() === name)?.[1];

test('files are sent as parts of a form, with unchanged bytes', async () => {
  const name = 'a "quoted" ünï.pdf';
  const reply = await tool('upload_parts', {
    note: 'beside them',
    files: [file(name, 'first\r\n--x', { contentType: 'application/pdf' }), file('b.txt', 'second', { field: 'other' })],
  });
  const { data } = assertOk(reply, 'upload_parts');
  const boundary = /boundary=(.*)/.exec(header(data, 'content-type'))[1];
  assert.equal(data.body, [
    `--${boundary}`, 'Content-Disposition: form-data; name="note"', '', 'beside them',
    `--${boundary}`, 'Content-Disposition: form-data; name="attachment"; filename="a %22quoted%22 ünï.pdf"',
    'Content-Type: application/pdf', '', 'first\r\n--x',
    `--${boundary}`, 'Content-Disposition: form-data; name="other"; filename="b.txt"',
    'Content-Type: application/octet-stream', '', 'second',
    `--${boundary}--`, '',
  ].join('\r\n'));
  const none = assertOk(await tool('upload_parts', { note: 'alone' }), 'upload_parts');
  assert.match(none.data.body, /alone/);
});

test('a file is sent as the body, or in base64 inside it', async () => {
  const bytes = Buffer.from([...Array(256).keys()]);
  const put = assertOk(await tool('upload_put', { files: [file('x', bytes, { contentType: 'image/png' })] }), 'upload_put');
  assert.equal(put.data.body_base64, bytes.toString('base64'));
  assert.equal(header(put.data, 'content-type'), 'image/png');
  const inline = assertOk(await tool('upload_inline', { arguments: {}, files: [file('x.bin', bytes)] }), 'upload_inline');
  assert.deepEqual(inline.data.json, { name: 'x.bin', data: bytes.toString('base64'), type: 'application/octet-stream' });
});

test('a missing or broken file gets advice on how to upload it', async () => {
  const good = file('x', 'abc');
  const bad = async (name, files, word, hint = /base64.*send the same request again/) => {
    const json = assertError(await tool(name, { files }), INVALID);
    assert.match(json.error.message, word);
    assert.match(json.canonical.hint, hint);
  };
  await bad('upload_put', [], /the request has none/);
  await bad('upload_put', [{ name: 'x', path: 'reports/x.pdf' }], /\/files\/0: data is missing/);
  await bad('upload_put', [{ name: 'x', data: null }], /data is missing/);
  for (const data of ['not base64!', 'QUI', 'QUJD\n', 'QU_D', '====', `QUJD${' '.repeat(4)}`])
    await bad('upload_put', [{ name: 'x', data }], /\/files\/0\/data: .*base64/);
  await bad('upload_parts', [good, { name: 'y', data: '!' }], /\/files\/1\//);
  await bad('upload_parts', [{ data: good.data }], /name is missing/, /^Correct the files, then send the same request again/);
  await bad('upload_parts', [{ ...good, name: 'a\r\nX-Evil: 1' }], /control characters/, /^Correct the files, then send the same request again/);
  await bad('upload_parts', [{ ...good, field: 'a\r\nX-Evil: 1' }], /control characters/, /^Correct the files, then send the same request again/);
  await bad('upload_parts', [{ ...good, contentType: 'text/plain\r\nX-Evil: 1' }], /media type/, /^Correct the files, then send the same request again/);
  await bad('upload_parts', [good, good, good, good], /at most 3 files/, /^Correct the files, then send the same request again/);
  await bad('upload_put', [good, good], /at most 1 file,/, /^Correct the files, then send the same request again/);
  await bad('upload_put', [file('x', 'a'.repeat(1001))], /1001 bytes, but at most 1000 are allowed/, /^Correct the files, then send the same request again/);
  await bad('upload_none', [good], /takes no files/, /without files/);
  await bad('gmail_list_labels', Array(50).fill(good), /takes no files/, /without files/);
});

test('files are part of the request of an idempotency key', async () => {
  const key = { 'idempotency-key': 'with files' };
  const body = (text, more) => ({ files: [file('x', text, more)] });
  const first = assertOk(await tool('upload_put', body('one'), key), 'upload_put');
  const again = await tool('upload_put', body('one'), key);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.deepEqual(again.json.canonical, first.canonical);
  for (const other of [body('two'), body('one', { name: 'y' }), body('one', { contentType: 'text/plain' }), body('one', { field: 'f' })])
    assertError(await tool('upload_put', other, key), [409, 'validation', 'idempotency_key_reused', false, 'validation_error']);
});

test('a missing member of the credential is named, to the caller and in the log', async () => {
  const missing = 'the connection has no "token_type", which "send" in the app\'s manifest needs';
  const reply = assertError(await tool('typed_none', {}), [409, 'auth', 'reauth_required', false, 'reauth_required']);
  assert.equal(reply.error.message, `The connection to Typed no longer works (${missing}). Nothing was done.`);
  await until('the log has it', () => server.log.includes('a stored credential cannot be sent'));
  const line = JSON.parse(server.log.split('\n').find((one) => one.includes('a stored credential cannot be sent')));
  assert.deepEqual([line.integration_id, line.cause], ['typed', missing]);
  assert.ok(!server.log.includes('s3cr3t'));
});

test("a provider's own idempotency key is sent, and allows a write to be retried", async () => {
  const send = async (headers, account) => {
    const reply = await tool('upload_keyed', { arguments: { note: 'n' }, confirmed: true }, headers, account);
    return header(assertOk(reply, 'upload_keyed').data, 'x-provider-key');
  };
  const once = [{ match: { path_prefix: '/echo' }, count: 1, action: { status: 503 } }];
  await stack.provider.faults(once);
  const key = { 'idempotency-key': 'for the provider, too' };
  const first = await send(key);
  assert.match(first, /^[0-9a-f-]{36}$/);
  assert.notEqual(await send(key, b), first);
  const [one, two] = [await send(), await send()];
  assert.match(one, UUID);
  assert.notEqual(one, two);
});

test('it may be a member of the body', async () => {
  const text = (reply) => reply.data.body ?? Buffer.from(reply.data.body_base64, 'base64').toString();
  const send = async (name, headers, account) => {
    const reply = await tool(name, { arguments: { note: 'n' }, confirmed: true }, headers, account);
    return text(assertOk(reply, name));
  };
  const inside = async (...more) => {
    const { variables } = JSON.parse(await send('upload_keyed_inside', ...more));
    assert.deepEqual(Object.keys(variables), ['note', 'id']);
    return variables.id;
  };
  await stack.provider.faults([{ match: { path_prefix: '/echo' }, count: 1, action: { status: 503 } }]);
  const key = { 'idempotency-key': 'in the body of the provider' };
  const first = await inside(key);
  assert.match(first, /^[0-9a-f-]{36}$/);
  assert.notEqual(await inside(key, b), first);
  assert.notEqual(await inside(), await inside());
  assert.match(await send('upload_keyed_form'), /^note=n&key=[0-9a-f-]{36}$/);
  const dry = await server.call(a.key, 'POST', '/api/tools/upload_keyed_inside/execute?dry_run=true', { arguments: { note: 'n' } }, key);
  assert.match(dry.json.request.body, /^\{"variables":\{"note":"n","id":"[0-9a-f-]{36}"\}\}$/);
});

test('an action may have a base URL of its own, with values of the connection', async () => {
  for (const [name, origin] of [['regional_here', ORIGIN], ['regional_there', 'https://eu.files.example']]) {
    assertOk(await tool(name, {}), name);
    const dry = await server.call(a.key, 'POST', `/api/tools/${name}/execute?dry_run=true`, {});
    assert.equal(dry.json.request.url, `${origin}/echo`);
    assert.equal(dry.json.request.headers.Authorization, '***');
  }
  const nowhere = await tool('regional_nowhere', {});
  assert.equal(nowhere.json.canonical.status, 'blocked', nowhere.text); // blocked like a base_url that the tenant chooses
});

test('a manifest whose rules can never work is refused with a correction, and no server starts with it', async () => {
  const dir = join(stack.dir, 'faulty');
  await mkdir(dir);
  const lint = async (errors) => {
    await writeFile(join(dir, 'faulty.json'), JSON.stringify({ ...upload, integration_id: 'faulty', actions: [action('none', {})], errors }));
    const end = await stack.sluice(['catalog', 'lint', join(dir, 'faulty.json')]);
    return [end.code, end.stdout + end.stderr];
  };
  for (const [when, advice] of [["status == '401'", 'write `401`'], ['status == 401', 'backticks: `401`'], ['body.items[?done == true]', 'write `true`']]) {
    const [code, said] = await lint([{ when }]);
    assert.notEqual(code, 0);
    assert.ok(said.includes('/errors/0/when') && said.includes(advice), said);
  }
  const end = await stack.sluice(['serve', '--listen', '127.0.0.1:0', '--catalog', dir]);
  assert.notEqual(end.code, 0);
  assert.match(end.stderr, /write `true`/);
  const [code, said] = await lint([{ when: 'status>=`400`' }, { when: 'body.code', hint: 'h' }]);
  assert.equal(code, 0, said);
  assert.match(said, /\/errors\/1.*never reached: rule 0/);
});

test('the largest files fit; larger ones are refused', async () => {
  // the sanitizers make a copy of 49 MB many times slower, so turns are limited only in the release
  // binary
  const large = await stack.serve({ ...stack.options, bin: process.env.SLUICE_RELEASE_BIN });
  const run = (name, body, path = `/api/tools/${name}/execute`, headers = {}) =>
    large.call(a.key, 'POST', path, body, headers);
  const size = 5 * 1024 * 1024;
  const bytes = randomBytes(size);
  const put = assertOk(await run('upload_put_large', { files: [file('x', bytes)] }), 'upload_put_large');
  assert.equal(put.data, bytes.toString('base64').length);
  const over = await run('upload_put_large', { files: [file('x', Buffer.alloc(size + 1))] });
  assert.match(assertError(over, INVALID).error.message, /5242881 bytes, but at most 5242880 are allowed/);
  // files attached to a mail are encoded in base64 twice, and are returned unchanged
  const withFiles = (...sizes) => ({ ...mail('with files'), confirmed: true, files: sizes.map((n) => file(`${n}.bin`, bytes.subarray(0, n))) });
  const half = 512 * 1024;
  const sent = assertOk(await run('gmail_send_message', withFiles(half, half - 1)), 'gmail_send_message');
  const { data } = assertOk(await run('gmail_get_message', { id: sent.data.id }), 'gmail_get_message');
  assert.deepEqual(data.attachments.map((one) => [one.filename, one.size]), [half, half - 1].map((n) => [`${n}.bin`, n]));
  assert.match(assertError(await run('gmail_send_message', withFiles(half + 1)), INVALID).error.message, /at most 524288/);
  // as many files as the provider accepts, each hashed separately for the key
  const many = { files: Array(7).fill(file('x', bytes)) };
  for (const replayed of [null, 'true']) {
    const reply = await run('upload_many', many, undefined, { 'idempotency-key': 'many' });
    assert.equal(assertOk(reply, 'upload_many').data, 200);
    assert.equal(reply.headers.get('idempotent-replayed'), replayed);
  }
  // a body larger than other routes accept is read and then refused by the checks
  const two = await run('upload_put_large', { files: Array(2).fill(file('x', bytes)) });
  assert.match(assertError(two, INVALID).error.message, /at most 1 file,/, /^Correct the files, then send the same request again/);
  const other = await run('', { input: 'x'.repeat(9 << 20) }, '/api/executions');
  assert.equal(other.status, 413);
});
