// Several requests in one action (contrib/integrations/README.md "then"): what is sent and where,
// and the result of a run whose second request fails. Nothing is done twice, whether by a retry, by
// a key that is used again, by a process that dies in between, or by a flow.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const TOKEN = 'token-of-the-store-77';
const text = (description) => ({ type: 'string', description });
const input_schema = {
  type: 'object',
  additionalProperties: false,
  required: ['name'],
  properties: { name: text('Of the file.'), channel: text('Where to post it.'), size: { type: 'integer', description: 'In bytes.' } },
};
const upload = { request: { method: 'POST', path: '/files', body: { json: { name: '${input.name}' } } }, response: { required: ['body.id'] } };
const post = {
  request: { method: 'POST', path: '/posts', headers: { 'x-file': '${first.body.id}' }, body: { json: { file: '${first.body.id}', channel: '${input.channel}' } } },
  response: { required: ['body.ts'], output: '{file: first.body.id, ts: body.ts}' },
  done: '${input.name} was uploaded as ${first.body.id}',
  not_done: 'it was not posted',
};
const share = { side_effect_level: 'write', input_schema, ...upload, then: [post], display: { title: 'Shared', summary: '${first.body.id} at ${output.ts}' } };
const session = { method: 'POST', path: '/sessions', body: { json: { name: '${input.name}' } } };
const send = (more) => ({ request: { method: 'PUT', url: '${first.headers.location}', hosts: ['files.example.com', '*.parts.example.com'] }, response: { required: ['body.id'] }, done: false, ...more });
const put = { side_effect_level: 'write', input_schema, request: session, response: { body: 'any' }, then: [send()], files: { travel: 'raw', request: 2 } };
const integrations = {
  store: {
    auth: { type: 'bearer' },
    headers: { 'x-version': '7' },
    errors: [{ when: "body.ok == `false`", on_success: true, error_code: 'execution_failed', outcome: 'not_done', message: 'The store says ${body.error}', hint: 'Ask the keeper.' }],
    actions: {
      share,
      put,
      // all three: reserve, send, complete
      publish: {
        side_effect_level: 'write',
        input_schema,
        request: { ...session, query: { bytes: '${files[0].bytes}', name: '${files[0].name}' } },
        response: { body: 'any' },
        then: [
          send({ request: { method: 'POST', url: '${first.headers.location}', hosts: ['files.example.com'] }, response: { body: 'text' } }),
          { ...post, request: { ...post.request, headers: {}, body: { json: { file: '${first.headers."x-id"}', said: '${second.body}' } } }, response: { required: ['body.ts'] }, done: 'The file was uploaded' },
        ],
        files: { travel: 'raw', request: 2 },
      },
      // both requests may be repeated, so the whole action may
      sync: { ...share, idempotent: true },
      // only the second may
      again: { ...share, then: [{ ...post, idempotent: true }] },
      fetch: {
        input_schema,
        request: { method: 'GET', path: '/meta/${input.name}' },
        response: { required: ['body.url'] },
        then: [{ request: { method: 'GET', url: '${first.body.url}', hosts: ['files.example.com'], credential: true, query: { size: '${input.size}' } }, response: { body: 'bytes' } }],
      },
    },
  },
};
const TEMPLATE = {
  key: 'share_it',
  name: 'Share it',
  description: 'Shares one file, confirmed by whoever starts it.',
  input: {
    type: 'object',
    required: ['name', 'confirm'],
    additionalProperties: false,
    properties: { name: text('Of the file.'), confirm: { const: true, description: 'It is shared.' } },
  },
  steps: [{ key: 'share', type: 'tool_call', tool: 'store_share', input: { name: '${input.name}' }, confirmed_by: 'start' }],
};

// plan[path]: the answers to the next requests for that path, in order. The last answer is
// repeated.
let stack, provider, server, account, folder, plan, seen, held;
const reply = (status, body, headers = {}) => ({ status, body, headers });
const FILES = 'https://files.example.com';
const defaults = () => ({
  '/files': [reply(200, { id: 'F1' })],
  '/posts': [reply(200, { ts: '17.5' })],
  '/sessions': [reply(200, undefined, { location: `${FILES}/up/1?sig=abc`, 'x-id': 'F9' })],
  '/up/1': [reply(200, { id: 'D1' })],
  '/meta/a': [reply(200, { url: `${FILES}/raw/a` })],
  '/raw/a': [reply(200, 'bytes of a', { 'content-type': 'text/plain' })],
});

function on(request, answer, url) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const steps = plan[url.pathname] ?? [reply(404, { message: 'no such thing' })];
    const step = steps.length > 1 ? steps.shift() : steps[0];
    seen.push({ method: request.method, url: request.url, path: url.pathname, host: request.headers.host, headers: request.headers, body: Buffer.concat(parts) });
    if (step === 'hang') return;
    if (step === 'hold') return void (held = answer);
    if (step === 'reset') return void request.socket.destroy();
    const isText = typeof step.body === 'string';
    answer.writeHead(step.status, { ...(step.body !== undefined && { 'content-type': isText ? 'text/plain' : 'application/json' }), ...step.headers });
    answer.end(step.body === undefined || isText ? step.body : JSON.stringify(step.body));
  });
}

const serve = (options = {}) =>
  stack.serve({ ...options, args: [...overrides(provider.url, 'store', 'files', 'a.parts'), ...(options.args ?? [])], env: { SLUICE_CATALOG: folder, ...options.env } });

before(async () => {
  stack = await Stack.start({ provider: false });
  plan = {};
  seen = [];
  provider = await Scripted.start(on);
  folder = await writeCatalog(stack.dir, integrations);
  await mkdir(join(folder, 'templates'));
  await writeFile(join(folder, 'templates', 'share_it.json'), JSON.stringify(TEMPLATE));
  server = await serve();
  account = await stack.account('sequences', { apps: [] });
  await stack.connect(account.id, 'store', { token: TOKEN }, [], { env: { SLUICE_CATALOG: folder } });
});
beforeEach(() => {
  plan = defaults();
  seen = [];
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

let keys = 0;
const newKey = () => `key ${++keys}`;
const run = (action, input, more = {}, at = server) => at.execute(account.key, 'store', action, input, { confirm: true, ...more });
const bytes = Buffer.from([0, 1, 2, 255, 254, 10]);
const file = { name: 'a.bin', contentType: 'application/x-thing', data: bytes.toString('base64') };
const tool = (action, args, more = {}, query = '') => server.call(account.key, 'POST', `/api/tools/store_${action}/execute${query}`, { arguments: args, confirmed: true, files: [file], ...more });
const paths = () => seen.map((one) => `${one.method} ${one.path}`);

test('both succeed: the second is built from the reply to the first', async () => {
  const { status, json, text } = await run('share', { name: 'a', channel: 'C1' });
  assert.equal(status, 200, text);
  assert.deepEqual(json.output, { file: 'F1', ts: '17.5' });
  assert.equal(json.display.summary, 'F1 at 17.5');
  assert.deepEqual(paths(), ['POST /files', 'POST /posts']);
  assert.deepEqual(JSON.parse(seen[1].body), { file: 'F1', channel: 'C1' });
  assert.equal(seen[1].headers['x-file'], 'F1');
  for (const one of seen) assert.deepEqual([one.headers.authorization, one.headers['x-version']], [`Bearer ${TOKEN}`, '7']);
});

test('a URL from a reply is followed without the credential, with the file', async () => {
  const { status, json, text } = await tool('put', { name: 'a' });
  assert.equal(status, 200, text);
  assert.deepEqual(json.data, { id: 'D1' });
  assert.equal(json.meta.attempts, 2);
  assert.deepEqual(paths(), ['POST /sessions', 'PUT /up/1']);
  assert.deepEqual(JSON.parse(seen[0].body), { name: 'a' });
  const [, sent] = seen;
  assert.deepEqual([sent.url, sent.host, sent.headers['content-type']], ['/up/1?sig=abc', 'files.example.com', 'application/x-thing']);
  assert.deepEqual([sent.headers.authorization, sent.headers['x-version']], [undefined, undefined]);
  assert.deepEqual(sent.body, bytes);
});

test('a path in Location is on the same origin; a host may be any subdomain of a listed one', async () => {
  plan['/sessions'] = [reply(200, undefined, { location: '/up/1?sig=x' }), reply(200, undefined, { location: 'https://a.parts.example.com/up/1' })];
  assert.equal((await tool('put', { name: 'a' })).status, 200);
  assert.equal(seen[1].host, 'store.example.com');
  assert.equal((await tool('put', { name: 'a' })).status, 200);
  assert.equal(seen[3].host, 'a.parts.example.com');
});

test('if the manifest says so, the credential is sent with it', async () => {
  const { json, text } = await run('fetch', { name: 'a', size: 5 });
  assert.deepEqual(json.output, { content_type: 'text/plain', encoding: 'base64', data: Buffer.from('bytes of a').toString('base64'), bytes: 10 }, text);
  assert.deepEqual([seen[1].url, seen[1].host], ['/raw/a?size=5', 'files.example.com']);
  assert.deepEqual([seen[1].headers.authorization, seen[1].headers['x-version']], [`Bearer ${TOKEN}`, '7']);
});

test('three: reserve, send, complete', async () => {
  plan['/up/1'] = [reply(200, 'OK - 6')];
  const { status, json, text } = await tool('publish', { name: 'a' });
  assert.equal(status, 200, text);
  assert.deepEqual(paths(), ['POST /sessions', 'POST /up/1', 'POST /posts']);
  assert.equal(seen[0].url, '/sessions?bytes=6&name=a.bin');
  assert.deepEqual(JSON.parse(seen[2].body), { file: 'F9', said: 'OK - 6' });
  assert.deepEqual([seen[0], seen[1], seen[2]].map((one) => Boolean(one.headers.authorization)), [true, false, true]);
  assert.equal(json.meta.attempts, 3);
});

test('a host that the manifest does not name is not called', async () => {
  for (const location of ['https://evil.example.com/up', 'https://files.example.com.evil.example.com/up', 'https://files.example.com:8443/up', 'https://parts.example.com/up', 'https://user@files.example.com/up', 'http://files.example.com/up', '//evil.example.com/up', 'nonsense']) {
    plan['/sessions'] = [reply(200, undefined, { location })];
    seen = [];
    const key = newKey();
    const { status, json, text } = await run('put', { name: 'a' }, { idempotency_key: key, dry_run: true });
    assert.equal(status, 409, text); // the action needs a file
    const answer = await tool('put', { name: 'a' });
    const isUrl = !/user@|nonsense|^\/\//.test(location);
    assert.deepEqual([answer.status, answer.json.canonical.error_code], isUrl ? [409, 'unsupported_operation'] : [500, 'execution_failed'], answer.text);
    assert.match(answer.json.error.message, isUrl ? /named https?:\/\/[a-z.]+:\d+ in its reply, and this action may not call that host/ : /The next request cannot be made/);
    assert.doesNotMatch(answer.text, /sig=/);
    assert.deepEqual(paths(), ['POST /sessions']);
    assert.equal(json.status, 'blocked');
  }
});

test('a listed host that is internal is not called', async () => {
  const bare = await stack.serve({ args: overrides(provider.url, 'store'), env: { SLUICE_CATALOG: folder } });
  plan['/meta/a'] = [reply(200, { url: 'https://127.0.0.1:1/x' })];
  const { status, json, text } = await run('fetch', { name: 'a' }, {}, bare);
  assert.deepEqual([status, json.error_code], [409, 'unsupported_operation'], text);
});

test('the first fails: nothing more is sent, and the result is that of a single request', async () => {
  plan['/files'] = [reply(403, { message: 'no' })];
  const idempotency_key = newKey();
  const first = await run('share', { name: 'a' }, { idempotency_key });
  assert.deepEqual([first.status, first.json.error_code], [500, 'forbidden'], first.text);
  assert.match(first.json.hint, /^Nothing was done/);
  plan = defaults();
  assert.equal((await run('share', { name: 'a' }, { idempotency_key })).status, 200, 'its key was released');
  assert.deepEqual(paths(), ['POST /files', 'POST /files', 'POST /posts']);
});

test('the first reply lacks what the second needs', async () => {
  plan['/files'] = [reply(200, {})];
  const { json } = await run('share', { name: 'a' });
  assert.match(json.message, /without body\.id/);
  assert.match(json.hint, /outcome is unknown/);
  assert.deepEqual(paths(), ['POST /files']);
});

const KNOWN = [
  ['403', reply(403, { message: 'not yours' }), /HTTP 403.*not yours/],
  ['401', reply(401, { message: 'no more' }), /HTTP 401/, { revives: true }],
  ['429', reply(429, { message: 'slow' }, { 'retry-after': '1' }), /HTTP 429/],
  ['422', reply(422, { message: 'bad' }), /HTTP 422/],
  ['404', reply(404, { message: 'gone' }), /HTTP 404/],
  ['a rule of the manifest', reply(200, { ok: false, error: 'full' }), /The store says full/, { hint: /^Ask the keeper\. What was done/ }],
];
for (const [what, second, cause, more = {}] of KNOWN)
  test(`the second is refused (${what}): it says what was done, and the key stays bound`, async () => {
    plan['/posts'] = [second];
    const idempotency_key = newKey();
    const { status, json, text, headers } = await run('share', { name: 'my file' }, { idempotency_key });
    assert.deepEqual([status, json.status, json.error_code], [500, 'failed', 'execution_failed'], text);
    assert.match(json.message, /^my file was uploaded as F1, but it was not posted\. /);
    assert.match(json.message, cause);
    assert.match(json.hint, more.hint ?? /^What was done stays done/);
    assert.equal(headers.get('retry-after'), null);
    assert.equal(Boolean(json.recommended_next_action), Boolean(more.revives));
    assert.deepEqual(paths(), ['POST /files', 'POST /posts']);
    plan = defaults();
    const again = await run('share', { name: 'my file' }, { idempotency_key });
    assert.deepEqual([again.status, again.json, again.headers.get('idempotent-replayed')], [500, json, 'true']);
    assert.equal(seen.length, 2, 'nothing is sent again');
    const stored = await server.call(account.key, 'GET', `/api/executions/${json.execution_id}`);
    assert.deepEqual(stored.json, json);
    if (!more.revives) return;
    const refused = await run('share', { name: 'b' });
    assert.deepEqual([refused.status, refused.json.error_code], [409, 'reauth_required'], 'the connection is marked');
    await stack.connect(account.id, 'store', { token: TOKEN }, ['--default'], { env: { SLUICE_CATALOG: folder } });
    await until('the new connection is known', async () => (await run('share', { name: 'b' })).status === 200);
  });

test('the tool endpoint says so, too, and that it must not be retried', async () => {
  plan['/posts'] = [reply(429, {})];
  const { status, json } = await server.call(account.key, 'POST', '/api/tools/store_share/execute', { arguments: { name: 'a' }, confirmed: true });
  assert.equal(status, 500);
  assert.deepEqual(json.error, { type: 'provider', code: 'partly_done', message: json.canonical.message, retryable: false });
  assert.match(await server.metrics(), /sluice_executions_total\{integration="store",outcome="partly_done"\} [1-9]/);
});

const UNKNOWN = [
  ['500', reply(500, { message: 'oops' })],
  ['503', reply(503, {})],
  ['the connection ends', 'reset'],
  ['no JSON', reply(200, '<html>sign in</html>')],
  ['without its member', reply(200, { ok: true })],
];
for (const [what, second] of UNKNOWN)
  test(`it is not known whether the second was done (${what})`, async () => {
    plan['/posts'] = [second];
    const idempotency_key = newKey();
    const { status, json, text } = await run('share', { name: 'a' }, { idempotency_key });
    assert.deepEqual([status, json.error_code], [500, 'execution_failed'], text);
    assert.match(json.message, /^a was uploaded as F1\. It is not known whether the rest was done\. /);
    assert.match(json.hint, /outcome is unknown/);
    assert.deepEqual(paths(), ['POST /files', 'POST /posts'], 'nothing is repeated');
    const again = await run('share', { name: 'a' }, { idempotency_key });
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(seen.length, 2);
  });

test('the deadline applies to all together', async () => {
  const short = await serve({ env: { SLUICE_EXECUTION_TIMEOUT: '2s' } });
  plan['/posts'] = ['hang'];
  const { json, text } = await run('share', { name: 'a' }, {}, short);
  assert.equal(json.error_code, 'timeout', text);
  assert.match(json.message, /^a was uploaded as F1\. It is not known whether the rest was done\. /);
  await short.stop();
});

test('if the earlier requests only read, a failure is that of a single request', async () => {
  for (const [status, code, isBound] of [[403, 'forbidden', false], [401, 'execution_failed', false], [500, 'execution_failed', true]]) {
    plan = { ...defaults(), '/up/1': [reply(status, { message: 'x' })] };
    seen = [];
    const headers = { 'idempotency-key': newKey() };
    const send = () => server.call(account.key, 'POST', '/api/tools/store_put/execute', { arguments: { name: 'a' }, confirmed: true, files: [file] }, headers);
    const first = await send();
    assert.deepEqual([first.status, first.json.canonical.error_code], [500, code], first.text);
    assert.doesNotMatch(first.json.error.message, /was uploaded/);
    plan = defaults();
    const again = await send();
    assert.equal(again.status, isBound ? 500 : 200, again.text);
    assert.equal(seen.length, isBound ? 2 : 4);
  }
  assert.equal((await run('share', { name: 'a' })).status, 200, 'a refused request without a credential does not mark the connection');
});

test('a request that only reads is repeated, the one that sends the file is not', async () => {
  plan['/sessions'] = [reply(503, {}), ...defaults()['/sessions']];
  plan['/up/1'] = [reply(503, {})];
  const { status, json } = await tool('put', { name: 'a' });
  assert.equal(status, 500);
  assert.match(json.canonical.hint, /outcome is unknown/);
  assert.deepEqual(paths(), ['POST /sessions', 'POST /sessions', 'PUT /up/1']);
});

test('only the second is repeated if it may be, and the whole if all may be', async () => {
  plan['/posts'] = [reply(503, {}), reply(200, { ts: '1' })];
  assert.equal((await run('again', { name: 'a' })).status, 200);
  assert.deepEqual(paths(), ['POST /files', 'POST /posts', 'POST /posts']);
  seen = [];
  plan['/files'] = [reply(200, { id: 'F1' }), reply(200, { id: 'F2' })];
  plan['/posts'] = [reply(503, {}), reply(200, { ts: '1' })];
  const { json } = await run('sync', { name: 'a' });
  assert.deepEqual(json.output, { file: 'F2', ts: '1' });
  assert.deepEqual(paths(), ['POST /files', 'POST /posts', 'POST /files', 'POST /posts']);
  seen = [];
  plan['/posts'] = [reply(503, {})];
  const failed = await run('sync', { name: 'a' });
  assert.match(failed.json.message, /was uploaded as F2\. It is not known whether the rest was done/);
  assert.ok(seen.length <= 8, 'and this ends');
});

test('a dry run shows all of them, and sends none', async () => {
  const { json, text } = await run('share', { name: 'a', channel: 'C7' }, { dry_run: true });
  assert.deepEqual(json.request.method, 'POST', text);
  assert.deepEqual(json.then, [
    { method: 'POST', url: 'https://store.example.com/posts', headers: { 'x-file': '${first.body.id}' }, body: { json: { file: '${first.body.id}', channel: 'C7' } } },
  ]);
  const shown = await tool('publish', { name: 'a' }, {}, '?dry_run=true');
  assert.deepEqual(shown.json.then, [
    { method: 'POST', url: '${first.headers.location}', hosts: ['files.example.com'], files: ['<a.bin: 6 bytes>'] },
    { method: 'POST', url: 'https://store.example.com/posts', headers: {}, body: { json: { file: '${first.headers."x-id"}', said: '${second.body}' } } },
  ]);
  assert.deepEqual(seen, []);
});

// ---- a process that dies in between ----

test('killed in between, the outcome is unknown, and nothing is sent again', async () => {
  const doomed = await serve({ env: { SLUICE_CRASH_AT: 'exec/next' } });
  const idempotency_key = newKey();
  await assert.rejects(run('share', { name: 'a' }, { idempotency_key }, doomed));
  assert.equal((await doomed.process.gone).signal, 'SIGKILL');
  stack.forget(doomed);
  assert.deepEqual(paths(), ['POST /files']);
  const answer = await until('the key answers', async () => {
    const one = await run('share', { name: 'a' }, { idempotency_key });
    return one.status !== 503 && one;
  });
  assert.deepEqual([answer.status, answer.json.error_code, answer.headers.get('idempotent-replayed')], [500, 'execution_failed', 'true'], answer.text);
  assert.match(answer.json.hint, /outcome is unknown/);
  assert.deepEqual(paths(), ['POST /files']);
});

test('a client that disconnects in between does not stop it', async () => {
  plan['/files'] = ['hold'];
  const idempotency_key = newKey();
  const gone = new AbortController();
  const asked = fetch(`${server.base}/api/executions`, {
    method: 'POST',
    signal: gone.signal,
    headers: { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ integration_id: 'store', action_id: 'share', input: { name: 'a' }, confirm: true, idempotency_key }),
  });
  await until('the first has arrived', () => held);
  gone.abort();
  await assert.rejects(asked);
  held.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"F5"}');
  held = undefined;
  const answer = await run('share', { name: 'a' }, { idempotency_key });
  assert.deepEqual([answer.status, answer.json.output.file], [200, 'F5'], answer.text);
  assert.deepEqual(paths(), ['POST /files', 'POST /posts']);
});

// ---- in a flow ----

const start = (at = server) => at.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'share_it', input: { name: 'a', confirm: true } });
const reaches = (id, status) =>
  until(`the flow is ${status}`, async () => {
    const { json } = await server.call(account.key, 'GET', `/api/flows/${id}`);
    return json.flow.status === status && json;
  });

test('a step of a flow makes both, and its failure says what was done', async () => {
  const good = (await start()).json.flowId;
  assert.deepEqual((await reaches(good, 'completed')).flow.context.share, { file: 'F1', ts: '17.5' });
  plan['/posts'] = [reply(429, {}, { 'retry-after': '1' })];
  seen = [];
  const bad = (await start()).json.flowId;
  const { steps } = await reaches(bad, 'failed');
  assert.deepEqual([steps[0].error.code, steps[0].error.retryable], ['execution_failed', false]);
  assert.match(steps[0].error.message, /^a was uploaded as F1, but it was not posted\. /);
  assert.deepEqual(paths(), ['POST /files', 'POST /posts']);
  plan = defaults();
  await server.call(account.key, 'POST', `/api/flows/${bad}/resume`);
  await reaches(bad, 'completed'); // a person's decision
});

test('a flow that is cancelled in between sends nothing more', async () => {
  plan['/files'] = ['hold'];
  const id = (await start()).json.flowId;
  await until('the first has arrived', () => held);
  await server.call(account.key, 'POST', `/api/flows/${id}/cancel`);
  await reaches(id, 'cancelled');
  const open = held;
  held = undefined;
  await until('its connection is closed', () => open.destroyed || open.socket?.destroyed);
  assert.deepEqual(paths(), ['POST /files']);
});

test('a flow whose process dies in between fails with an unknown outcome', async () => {
  const doomed = await serve({ env: { SLUICE_CRASH_AT: 'exec/next' } });
  const started = await start(doomed).catch(() => undefined);
  await doomed.process.gone;
  stack.forget(doomed);
  const id = started?.json.flowId ?? (await server.call(account.key, 'GET', '/api/flows?limit=1')).json.flows[0].flowId;
  const { steps } = await reaches(id, 'failed');
  assert.match(steps[0].error.hint, /outcome is unknown/);
  assert.deepEqual(paths(), ['POST /files']);
});
