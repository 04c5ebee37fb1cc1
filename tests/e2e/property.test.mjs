// For any input, the answer is JSON in one of the forms of src/api/README.md, and never a 5xx
// without a reason. A failing run prints its seed and the smallest request. SLUICE_SEED repeats the
// run, and SLUICE_RUNS makes it longer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { Raw } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

const seed = Number(process.env.SLUICE_SEED ?? 20261121);
const numRuns = Number(process.env.SLUICE_RUNS ?? 400);
const settings = { seed, numRuns, endOnFailure: false };

let stack, server, account;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('property');
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

// Sends one raw request on a separate connection. Returns null if there is no readable reply.
async function ask(request) {
  const raw = await Raw.connect({ port: server.port });
  try {
    await raw.send(request);
    return await raw.reply();
  } finally {
    raw.close();
  }
}

const CODES = [
  'unauthorized', 'forbidden', 'integration_not_found', 'action_not_found', 'integration_not_connected',
  'reauth_required', 'validation_error', 'policy_blocked', 'rate_limited', 'timeout', 'unsupported_operation',
  'execution_failed',
];

function assertEnvelope(reply, what) {
  const told = `${what} -> ${reply.status} ${reply.body.slice(0, 500)}`;
  if (reply.status === 304 || reply.status === 204) return assert.equal(reply.body, '', told);
  assert.equal(reply.headers['content-type'], 'application/json; charset=utf-8', told);
  assert.ok(reply.headers['x-request-id'], told);
  let json;
  assert.doesNotThrow(() => (json = JSON.parse(Buffer.from(reply.body, 'latin1').toString('utf8'))), told);
  if ('execution_id' in json) return assertSummary(reply.status, json, told);
  if (reply.status === 200) return assert.ok(json.items ?? json.input_schema ?? json.status, told);
  assert.deepEqual(Object.keys(json), ['error'], told);
  assert.ok(typeof json.error === 'string' && json.error.length > 0, told);
  // 500 as a guard error is a bug of ours; 501 and 505 are for unknown methods and versions of HTTP
  assert.ok(reply.status < 500 || [501, 503, 505].includes(reply.status), told);
  if (reply.status === 503) assert.ok(Number(reply.headers['retry-after']) > 0, told);
  return undefined;
}

function assertSummary(status, json, told) {
  assert.equal(status, { succeeded: 200, blocked: 409, failed: 500 }[json.status], told);
  assert.equal(json.execution_id === null, json.status === 'blocked', told);
  for (const name of ['integration_id', 'action_id', 'started_at', 'finished_at'])
    assert.ok(json[name] === undefined || typeof json[name] === 'string', told);
  if (json.status === 'succeeded') return;
  assert.ok(CODES.includes(json.error_code), told);
  assert.ok(json.message.length > 0 && json.display.title.length > 0, told);
}

const run = (property) => fc.assert(property, settings);
const printable = (value) => (Buffer.isBuffer(value) ? value.toString('latin1') : JSON.stringify(value)).slice(0, 2000);

const json = fc.json({ maxDepth: 5 });
const input = fc.oneof(
  json.map((text) => JSON.parse(text)),
  fc.dictionary(fc.constantFrom('id', 'query', 'maxResults', 'to', 'subject', 'text', 'value', 'parent'), fc.jsonValue()),
);
const integration = fc.oneof(fc.constantFrom('gmail', 'notion', 'probe', ''), fc.string(), fc.jsonValue());
const action = fc.oneof(
  fc.constantFrom('list_labels', 'search_messages', 'send_message', 'gmail_get_message', 'create_page', 'echo', 'send'),
  fc.string({ unit: 'binary' }),
  fc.jsonValue(),
);
const execution = fc.record(
  {
    integration_id: integration,
    action_id: action,
    input,
    confirm: fc.oneof(fc.boolean(), fc.jsonValue()),
    idempotency_key: fc.oneof(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.jsonValue()),
  },
  { requiredKeys: [] },
);

function post(path, body, headers = '') {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
  return Buffer.concat([
    Buffer.from(
      `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${account.key}\r\n` +
        `Content-Type: application/json\r\n${headers}Content-Length: ${bytes.length}\r\n\r\n`,
    ),
    bytes,
  ]);
}

test(`any execution (seed ${seed}, ${numRuns} runs)`, () =>
  run(
    fc.asyncProperty(execution, async (body) => {
      assertEnvelope(await ask(post('/api/executions', JSON.stringify(body))), printable(body));
    }),
  ));

test('any input of actions that exist', () =>
  run(
    fc.asyncProperty(
      fc.constantFrom(
        ['gmail', 'search_messages'], ['gmail', 'get_message'], ['gmail', 'send_message'], ['gmail', 'create_label'],
        ['gmail', 'modify_labels'], ['notion', 'search'], ['notion', 'get_page'], ['notion', 'create_page'],
        ['notion', 'query_data_source'], ['notion', 'append_block_children'], ['probe', 'echo'],
      ),
      fc.dictionary(
        fc.constantFrom(
          'id', 'query', 'maxResults', 'to', 'subject', 'text', 'html', 'name', 'addLabelIds', 'value', 'page_id', 'parent',
          'title', 'properties', 'content', 'children', 'data_source_id', 'filter', 'sorts', 'page_size', 'block_id',
        ),
        fc.oneof(
          fc.jsonValue(),
          fc.string({ unit: 'binary' }),
          fc.constantFrom('19a4b6c7d8e90001', 'b3d5f7a9-1c2e-4a6b-8d0f-000000000001', '../..', '%2e%2e', '\u0000', '\r\nX: y'),
          fc.array(fc.string()),
          fc.integer({ min: 1, max: 100 }),
        ),
        { maxKeys: 5 },
      ),
      async ([integration_id, action_id], values) => {
        const body = { integration_id, action_id, input: values, confirm: true };
        assertEnvelope(await ask(post('/api/executions', JSON.stringify(body))), printable(body));
      },
    ),
  ));

test('any bytes as a body', () =>
  run(
    fc.asyncProperty(fc.uint8Array({ maxLength: 2000 }), async (bytes) => {
      const body = Buffer.from(bytes);
      const reply = await ask(post('/api/executions', body));
      assertEnvelope(reply, printable(body));
      assert.ok(reply.status < 500);
    }),
  ));

test('any cut or change of a good body', () => {
  const good = Buffer.from(
    JSON.stringify({ integration_id: 'gmail', action_id: 'search_messages', input: { query: 'is:unread ä', maxResults: 3 } }),
  );
  return run(
    fc.asyncProperty(
      fc.nat(good.length - 1),
      fc.nat(255),
      fc.constantFrom('change', 'cut', 'insert', 'double'),
      async (at, byte, kind) => {
        const body = {
          change: () => Buffer.concat([good.subarray(0, at), Buffer.from([byte]), good.subarray(at + 1)]),
          cut: () => good.subarray(0, at),
          insert: () => Buffer.concat([good.subarray(0, at), Buffer.from([byte]), good.subarray(at)]),
          double: () => Buffer.concat([good, good.subarray(at)]),
        }[kind]();
        const reply = await ask(post('/api/executions', body));
        assertEnvelope(reply, printable(body));
      },
    ),
  );
});

const visible = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 60 });
const paths = fc.oneof(
  visible.map((text) => `/${text}`),
  fc.tuple(fc.constantFrom('/api/executions/', '/api/actions/gmail/', '/api/integrations?', '/api/actions?', '/api/'), visible).map(
    ([path, more]) => path + more,
  ),
  fc.webUrl({ withQueryParameters: true }).map((url) => new URL(url).pathname + new URL(url).search),
  fc.tuple(fc.constantFrom('page', 'page_size', 'connected_only', 'query', 'supports_action', 'category'), fc.string({ unit: 'binary' })).map(
    ([name, value]) => `/api/integrations?${name}=${encodeURIComponent(value.toWellFormed())}`,
  ),
);
const methods = fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE', 'CONNECT', 'BREW');

test('any path and method', () =>
  run(
    fc.asyncProperty(methods, paths, async (method, path) => {
      if (method === 'HEAD' || path.startsWith('/metrics')) return;
      const request = `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${account.key}\r\nContent-Length: 0\r\n\r\n`;
      const reply = await ask(request);
      // paths outside /api belong to the dashboard: pages, and the redirect to the sign-in
      const isPage = !path.startsWith('/api') && (reply.status === 303 || reply.headers['content-type']?.startsWith('text/'));
      if (isPage) assert.ok(reply.status < 500, `${request} -> ${reply.status}`);
      else assertEnvelope(reply, request);
    }),
  ));

test('any header', () =>
  run(
    fc.asyncProperty(
      fc.oneof(
        visible,
        fc.constantFrom(
          'Content-Type', 'Authorization', 'X-Request-Id', 'Idempotency-Key', 'Expect', 'Connection', 'Accept', 'TE',
          'Upgrade', 'Content-Encoding', 'Range', 'If-None-Match', 'Transfer-Encoding', 'Cookie',
        ),
      ),
      fc.oneof(visible, fc.string({ unit: 'binary', maxLength: 200 })),
      async (name, value) => {
        const bytes = Buffer.from(`${name}: ${value}\r\n`).toString('latin1');
        const body = JSON.stringify({ integration_id: 'gmail', action_id: 'list_labels', input: {} });
        const request = Buffer.from(
          `POST /api/executions HTTP/1.1\r\nHost: a\r\n${name.toLowerCase() === 'authorization' ? '' : `Authorization: Bearer ${account.key}\r\n`}` +
            `${bytes}Content-Length: ${body.length}\r\n\r\n${body}`,
          'latin1',
        );
        let reply = await ask(request);
        if (reply.status === 100) return;
        assertEnvelope(reply, printable(request));
      },
    ),
  ));

test('after all of it the service works', async () => {
  const reply = await server.execute(account.key, 'gmail', 'list_labels', {});
  assert.equal(reply.status, 200, reply.text);
  assert.ok(!/"level":"error"/.test(server.log), server.log.split('\n').find((line) => line.includes('"level":"error"')));
});
