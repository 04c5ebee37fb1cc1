// Traces: spans of executions, attempts, batches and flow steps at a receiver of OTLP, compared
// with OpenTelemetry's own package. A receiver that is slow, refuses, answers nonsense or dies
// affects no execution.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import https from 'node:https';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { makeBadCertificates } from './support/certificates.mjs';
import { until } from './support/client.mjs';
import { Receiver, check, tree } from './support/otlp.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const SECRET = 'receivers-secret-5d1f', INPUT = 'what-the-caller-wrote-77';
let stack, account, receiver, app, headersFile, catalog, server;
let asked = []; // the headers of the requests to the app
let failing = 0; // how many of the app's next replies fail

const hex = (bytes) => randomBytes(bytes).toString('hex');
// With the ratio FEW, no trace that begins here is recorded. Incoming traces with the ids below
// are: the last 56 bits decide.
const FEW = '0.000001';
// A parent in another program: {traceId, spanId, headers}
const parent = (flags = '01', bits = `000000${hex(4)}`) => {
  const [traceId, spanId] = [hex(9) + bits, hex(8)];
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: 'vendor=1' } };
};
const serve = (args = [], env = {}) =>
  stack.serve({ env: { SLUICE_CATALOG: catalog, ...env }, args: [...overrides(app.url, 'app'), ...args] });
const at = (url, ...more) => ['--trace-endpoint', url, ...more];
const run = (to, headers, more = {}) => to.call(account.key, 'POST', '/api/executions', { integration_id: 'app', action_id: 'read', input: { q: INPUT }, ...more }, headers);
const batch = (to, count, headers) => to.call(account.key, 'POST', '/api/executions/batch', { executions: Array.from({ length: count }, () => ({ integration_id: 'app', action_id: 'read', input: {} })) }, headers);
const flow = async (to, path, body = {}, headers = {}) => {
  const reply = await to.call(account.key, 'POST', `/api/flows/${path}`, body, headers);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const counts = async (to) => {
  const text = await to.metrics();
  const of = (as) => Number(text.match(new RegExp(`^sluice_trace_spans_total\\{as="${as}"\\} (\\d+)`, 'm'))?.[1]);
  return { exported: of('exported'), dropped: of('dropped'), failed: of('failed') };
};
const stopWell = async (to) => {
  const end = await to.stop();
  stack.forget(to);
  assert.deepEqual([end.code, end.signal], [0, null], to.log.slice(-5000));
};

before(async () => {
  stack = await Stack.start();
  receiver = await Receiver.start();
  app = await Scripted.start((request, reply) => {
    asked.push(request.headers);
    reply.setHeader('Content-Type', 'application/json').writeHead(failing-- > 0 ? 503 : 200).end('{"it": "works"}');
  });
  headersFile = join(stack.dir, 'receiver.headers');
  await writeFile(headersFile, `# of the receiver\nAuthorization: Bearer ${SECRET}\nX-Tenant: t1\n`, { mode: 0o600 });
  const schema = { type: 'object', additionalProperties: false, properties: { q: { type: 'string', description: 'Anything.' } } };
  const long = { input_schema: schema, request: { method: 'GET', path: '/read', headers: { 'x-one': '${input.q}', 'x-two': '${input.q}', 'x-three': '${input.q}' } } };
  catalog = await writeCatalog(stack.dir, { app: { actions: { read: {}, long } } });
  account = await stack.account('traces');
  server = await serve(at(receiver.url, '--trace-headers-file', headersFile, '--trace-sample', FEW, '--trace-propagate', 'on'));
});
beforeEach(() => {
  asked = [];
  failing = 0;
});
after(async () => {
  await stack?.stopWell(assert);
  await receiver?.stop();
  await app?.stop();
});

test('an execution and its attempts are spans under the caller, and the app gets the attempt', async () => {
  const from = parent();
  failing = 1;
  const reply = await run(server, from.headers);
  assert.equal(reply.status, 200, reply.text);
  const spans = await receiver.trace(from.traceId, 3);
  assert.equal(tree(spans, from.spanId), '(app_read(GET app GET app))');
  const [whole, ...attempts] = spans.sort((a, b) => a.kind - b.kind || a.startTimeUnixNano.localeCompare(b.startTimeUnixNano));
  assert.deepEqual([whole.kind, whole.is['sluice.outcome'], whole.is['sluice.attempts'], whole.is['sluice.execution_id'], whole.is['sluice.account_id']],
    [2, 'succeeded', 2, reply.json.execution_id, account.id]);
  assert.deepEqual(attempts.map((one) => [one.kind, one.is['http.response.status_code'], one.status?.code, one.is['server.address']]),
    [[3, 503, 2, 'app.example.com'], [3, 200, undefined, 'app.example.com']]);
  // the parent of the execution is in another program, the parent of an attempt is not
  assert.deepEqual(spans.map((one) => (one.flags & 0x200) !== 0), [true, false, false]);
  assert.deepEqual(spans.map((one) => one.traceState), Array(3).fill('vendor=1'));
  assert.deepEqual(asked.map((one) => [one.traceparent, one.tracestate]), attempts.map((one) => [`00-${from.traceId}-${one.spanId}-01`, 'vendor=1']));
  const { url, headers } = receiver.requests.at(-1);
  assert.deepEqual([url, headers['content-type'], headers.authorization, headers['x-tenant']], ['/v1/traces', 'application/json', `Bearer ${SECRET}`, 't1']);
});

test('an unsampled trace is passed on unchanged, without a span; a malformed one begins a new trace', async () => {
  const not = parent('00');
  const more = parent('01', 'ffffffffffffff'); // its flag asks for more than trace-sample allows
  assert.equal((await run(server, more.headers)).status, 200);
  assert.deepEqual(asked.map((one) => [one.traceparent, one.tracestate]), [[more.headers.traceparent, 'vendor=1']]);
  asked = [];
  assert.equal((await run(server, not.headers)).status, 200);
  assert.equal((await run(server, { traceparent: `${not.headers.traceparent.slice(0, -2)}0g` })).status, 200);
  assert.equal((await run(server, {})).status, 200);
  assert.deepEqual(asked.map((one) => one.traceparent), [not.headers.traceparent, undefined, undefined]);
  assert.deepEqual(asked.map((one) => one.tracestate), ['vendor=1', undefined, undefined]);
  // Later spans have arrived, so these would also have arrived.
  const last = parent();
  await run(server, last.headers);
  await receiver.trace(last.traceId, 2);
  assert.deepEqual(receiver.spans.filter((span) => [not.traceId, more.traceId].includes(span.traceId) || span.parentSpanId === undefined), []);
});

test('a blocked, a failed and an unknown execution say so with sluice’s own words, and never quote the input', async () => {
  const from = parent();
  await run(server, from.headers, { action_id: INPUT });
  await run(server, from.headers, { input: { [INPUT]: INPUT } });
  failing = 100;
  await run(server, from.headers);
  // the attempts of the third execution may be exported before it has ended
  const ended = () => receiver.spans.filter(({ traceId, parentSpanId }) => traceId === from.traceId && parentSpanId === from.spanId);
  const spans = await until('all three have ended', () => ended().length === 3 && ended());
  const wholes = spans.map((span) => [span.name, span.status.code, span.status.message, span.is['error.type']]);
  assert.deepEqual(wholes.slice(0, 2), [['(unknown)', 2, 'action_unknown', 'action_unknown'], ['app_read', 2, 'input_invalid', 'input_invalid']]);
  assert.deepEqual(wholes[2], ['app_read', 2, 'provider_error', 'provider_error']);
});

test('a batch is a span over its executions; MCP has its trace in _meta', async () => {
  const from = parent();
  assert.equal((await batch(server, 3, from.headers)).status, 200);
  const spans = await receiver.trace(from.traceId, 7);
  assert.equal(tree(spans, from.spanId), '(batch(app_read(GET app) app_read(GET app) app_read(GET app)))');
  assert.equal(spans.find((span) => span.name === 'batch').is['sluice.executions'], 3);

  // a malformed tracestate is left out, and the call is made
  for (const tracestate of ['a=\n1', ' a=1', 'a=1\t', 'a']) {
    const [meta, header] = [parent(), parent()];
    const params = { name: 'run_action', arguments: { integration_id: 'app', action_id: 'read', input: {} }, _meta: { traceparent: meta.headers.traceparent, tracestate } };
    const reply = await server.call(account.key, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25', ...header.headers });
    assert.equal(reply.status, 200, reply.text);
    assert.notEqual(reply.json.result.isError, true, reply.text);
    const mcp = await receiver.trace(meta.traceId, 2);
    assert.equal(tree(mcp, meta.spanId), '(app_read(GET app))');
    assert.deepEqual(mcp.map((span) => span.traceState), [undefined, undefined]);
    assert.equal(receiver.spans.some((span) => span.traceId === header.traceId), false);
  }
});

// If other headers fill the head, the trace headers are left out.
test('a trace never prevents a request from being sent', async () => {
  const from = parent();
  from.headers.tracestate = `a=${'x'.repeat(500)}`;
  for (let bytes = 10_400; bytes <= 10_900; bytes += 50) {
    const reply = await run(server, from.headers, { action_id: 'long', input: { q: 'x'.repeat(bytes) } });
    const plain = await run(server, {}, { action_id: 'long', input: { q: 'x'.repeat(bytes) } });
    assert.equal(reply.json.message, plain.json.message, `${bytes}: ${reply.text}`);
  }
});

test('the steps of a flow are in the trace of its start, also on another process, and in no trace if it had none', async () => {
  const from = parent();
  const first = await stack.serve({ args: at(receiver.url, '--trace-sample', FEW) });
  const { flowId } = await flow(first, 'start', { flowTemplate: 'probe_approve', input: { subject: INPUT } }, from.headers);
  const { flowId: untraced } = await flow(first, 'start', { flowTemplate: 'probe_approve', input: { subject: 'untraced' } });
  const status = async (to, id) => (await to.call(account.key, 'GET', `/api/flows/${id}`)).json.flow.status;
  for (const id of [flowId, untraced]) await until('it waits', async () => (await status(first, id)) === 'waiting');
  await stopWell(first);
  assert.equal(await stack.cluster.sql('select count(*) from sluice.flow_doc where trace is not null'), '1');

  const second = await stack.serve({ args: at(receiver.url, '--trace-sample', FEW) });
  for (const id of [flowId, untraced]) {
    await flow(second, `${id}/approve`);
    await until('it is completed', async () => (await status(second, id)) === 'completed');
  }
  await stopWell(second);
  const spans = receiver.spans.filter((span) => span.traceId === from.traceId);
  const [start] = spans.filter((span) => span.parentSpanId === from.spanId);
  assert.equal(start.name, 'start probe_approve');
  const steps = spans.filter((span) => span.parentSpanId === start.spanId);
  assert.ok(steps.length >= 2, tree(spans, from.spanId));
  assert.ok(steps.every((span) => span.is['sluice.flow_id'] === flowId && span.name.startsWith('probe_approve/')));
  assert.deepEqual([...new Set(steps.map((span) => span.is['sluice.step_type']))].sort(), ['approval', 'tool_call']);
  const call = steps.find((span) => span.is['sluice.step_type'] === 'tool_call');
  const runs = spans.filter((span) => span.parentSpanId === call.spanId);
  assert.equal(runs.length, 1, tree(spans, from.spanId));
  assert.equal(spans.filter((span) => span.parentSpanId === runs[0].spanId && span.kind === 3).length, 1);
  assert.equal(new Set(spans.map((span) => span.instance)).size, 2);
  // all spans are connected
  const ids = new Set([from.spanId, ...spans.map((span) => span.spanId)]);
  assert.deepEqual(spans.filter((span) => !ids.has(span.parentSpanId)), []);
  assert.equal(receiver.spans.some((span) => span.is['sluice.flow_id'] === untraced), false);
});

test('a ratio decides if the caller does not', async () => {
  const half = await serve(at(receiver.url, '--trace-sample', '0.5'));
  const known = receiver.spans.length;
  assert.equal((await Promise.all(Array.from({ length: 64 }, () => run(half, {})))).every((reply) => reply.status === 200), true);
  await stopWell(half); // the last spans are sent during the shutdown
  const roots = receiver.spans.slice(known).filter((span) => span.parentSpanId === undefined);
  assert.ok(roots.length > 0 && roots.length < 64, String(roots.length));
  assert.equal(new Set(roots.map((span) => span.traceId)).size, roots.length);
  assert.equal(receiver.spans.length - known, 2 * roots.length);
});

test('over TLS, to a path of its own', async () => {
  const certificates = await makeBadCertificates(stack.dir);
  const safe = await Receiver.start({ createServer: (on) => https.createServer(certificates.good, on) });
  const to = await stack.serve({ provider: { caFile: certificates.caFile, url: 'https://127.0.0.1:1' }, env: { SLUICE_CATALOG: catalog }, args: [...overrides(app.url, 'app'), ...at(`https://localhost:${safe.port}/otel/in`)] });
  try {
    assert.equal((await run(to, {})).status, 200);
    await until('its spans are there', () => safe.spans.length === 2);
    assert.equal(safe.requests[0].url, '/otel/in');
  } finally {
    await stopWell(to);
    await safe.stop();
  }
});

test('a receiver that refuses, sends nonsense, keeps a part or dies costs spans, and says so', async () => {
  const bad = await Receiver.start();
  const to = await serve(at(bad.url));
  const replies = {
    'refuses': [(request, reply) => reply.writeHead(400).end('{"message": "no"}'), { failed: 2 }],
    'forbids': [(request, reply) => reply.writeHead(401).end(), { failed: 2 }],
    'no HTTP': [(request, reply) => reply.socket.end('\x00\x01 what?\r\n\r\n'), { failed: 2 }],
    'cuts': [(request, reply) => reply.socket.destroy(), { failed: 2 }],
    'no JSON': [(request, reply) => reply.end('<html>welcome</html>'), { exported: 2 }],
    'a part': [(request, reply) => reply.end('{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "one"}}'), { exported: 1, failed: 1 }],
    'another kind': [(request, reply) => reply.end('{"partialSuccess": {"rejectedSpans": {"of": []}}}'), { exported: 2 }],
    'more than there were': [(request, reply) => reply.end('{"partialSuccess": {"rejectedSpans": 99}}'), { failed: 2 }],
    'later': [(request, reply) => (bad.later = !bad.later) ? reply.writeHead(503, { 'Retry-After': '0' }).end() : reply.end(), { exported: 2 }],
  };
  for (const [name, [on, more]] of Object.entries(replies)) {
    bad.on = on;
    const was = await counts(to);
    assert.equal((await run(to, {})).status, 200, name);
    const now = await until(`it is counted: ${name}`, async () => {
      const one = await counts(to);
      return one.exported + one.failed === was.exported + was.failed + 2 && one;
    });
    for (const as of ['exported', 'failed', 'dropped']) assert.equal(now[as] - was[as], more[as] ?? 0, `${name}: ${as}`);
  }
  await bad.stop();
  const was = await counts(to);
  assert.equal((await run(to, {})).status, 200);
  await until('undelivered spans have failed', async () => (await counts(to)).failed === was.failed + 2);
  // one line when exports begin to fail, not one for each export
  const lines = to.log.split('\n').filter((line) => line.includes('spans could not be exported'));
  assert.ok(lines.length > 0 && lines.length <= 4, lines.join('\n'));
  await stopWell(to);
});

test('a receiver that never answers fills a bounded queue, and delays nothing', async () => {
  const slow = await Receiver.start();
  const to = await serve(at(slow.url));
  const held = [];
  slow.on = (request, reply) => held.push(reply);
  const BATCH = 50, SPANS = 2 * BATCH + 1;
  let ended = 0;
  for (let round = 0; round < 8; round++) {
    const replies = await Promise.all(Array.from({ length: 10 }, () => batch(to, BATCH, {})));
    for (const reply of replies) assert.deepEqual([reply.status, reply.json.results.every((one) => one.status === 200)], [200, true], reply.text.slice(0, 500));
    ended += 10 * SPANS;
  }
  // each request that was made or that waits has at most one queue of spans; the rest is dropped
  const { dropped: lost } = await counts(to);
  assert.ok(lost >= ended - (slow.requests.length + 1) * 2048, `${lost} of ${ended}, ${slow.requests.length} requests`);
  for (const { text } of slow.requests) assert.ok(text.length < 2 * 1024 * 1024 + 4096, String(text.length));
  // the export recovers, and the queued spans arrive
  slow.on = (request, reply) => slow.take(reply, request.text);
  for (const reply of held.splice(0)) reply.end('{}');
  await until('all spans are accounted for', async () => {
    const { exported, dropped, failed } = await counts(to);
    return exported + dropped + failed === ended && exported > 0;
  });
  slow.on = () => {}; // the receiver is silent again: the shutdown waits for it, but not for long
  await run(to, {});
  await stopWell(to);
  await slow.stop();
});

test('a port that never answers causes no wait', async () => {
  const sockets = new Set();
  const silent = net.createServer((socket) => sockets.add(socket.on('error', () => {})));
  const port = await new Promise((resolve) => silent.listen(0, '127.0.0.1', () => resolve(silent.address().port)));
  const to = await serve(at(`http://127.0.0.1:${port}`));
  for (let i = 0; i < 20; i++) assert.equal((await run(to, {})).status, 200);
  await until('it gets a connection', () => sockets.size > 0);
  await stopWell(to);
  for (const socket of sockets) socket.destroy();
  silent.close();
});

test('settings that cannot work are refused at the start', async () => {
  const open = join(stack.dir, 'open.headers');
  await writeFile(open, 'Authorization: x\n', { mode: 0o644 });
  const wrong = join(stack.dir, 'wrong.headers');
  await writeFile(wrong, `${SECRET}\n`, { mode: 0o600 });
  for (const [args, message] of [
    [['--trace-endpoint', 'ftp://x'], /trace-endpoint/],
    [at(receiver.url, '--trace-sample', '1.5'), /trace-sample must be a number from 0 to 1/],
    [at(receiver.url, '--trace-sample', 'inf'), /trace-sample/],
    [at(receiver.url, '--trace-headers-file', open), /trace-headers-file: .*chmod o=/],
    [at(receiver.url, '--trace-headers-file', wrong), /trace-headers-file: each line must be/],
    [['--trace-propagate', 'maybe'], /trace-propagate must be on or off/],
  ]) {
    const end = await stack.sluice(['serve', '--listen', '127.0.0.1:0', ...args]);
    assert.notEqual(end.code, 0, args.join(' '));
    assert.match(end.stderr + end.stdout, message);
    assert.ok(!(end.stderr + end.stdout).includes(SECRET));
  }
});

test('everything that was sent is what OpenTelemetry would send, without a secret or an input', () => {
  assert.ok(receiver.requests.length > 5);
  for (const { text } of receiver.requests) {
    check(text);
    for (const never of [SECRET, INPUT, account.key, 'ya29.', 'ntn_demo']) assert.ok(!text.includes(never), never);
  }
});
