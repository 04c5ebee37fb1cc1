// Limits (src/api/README.md "Executions"; contrib/integrations/README.md "limits"): a connection's
// own rate and cap, limits in providers' replies, circuits, and the account's request rate.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { startNginx } from './support/nginx.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const CIRCUIT_VOLUME = 20;
const OPEN_S_MAX = 75; // a minute, and up to a quarter more
// The forms in which vendors say "not before": each action's reply has one of them, with a time 30
// s in the future.
const AHEAD_S = 30;
const forms = {
  seconds: { headers: () => ({ 'retry-after': String(AHEAD_S) }) },
  http_date: { headers: (at) => ({ 'retry-after': new Date(at).toUTCString() }) },
  epoch_seconds: { status: 403, headers: (at) => ({ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(Math.floor(at / 1000)) }) },
  epoch_milliseconds: { headers: (at) => ({ 'ratelimit-reset': String(at) }) },
  rfc3339: { headers: (at) => ({ 'ratelimit-reset': new Date(at).toISOString() }) },
  body: { status: 400, headers: () => ({}), body: { slow_down: AHEAD_S } },
};

// `server` waits for a turn as long as needed, and probes a circuit soon; `strict` does neither.
let stack, provider, server, strict, a, b, c, answer;

function on(request, reply, url) {
  const form = forms[url.pathname.slice(1)];
  if (form) {
    reply.writeHead(form.status ?? 429, { 'content-type': 'application/json', ...form.headers(Date.now() + AHEAD_S * 1000) });
    reply.end(JSON.stringify(form.body ?? {}));
  } else answer(reply, url);
}
const ok = (reply, headers = {}) => reply.writeHead(200, { 'content-type': 'application/json', ...headers }).end('{"ok":true}');
const status = (code, headers = {}) => (reply) => reply.writeHead(code, headers).end('{}');

const rules = [
  { when: 'status == `403` && headers."x-ratelimit-remaining" == \'0\'', retry_after: 'headers."x-ratelimit-reset"' },
  { when: 'status == `429`', retry_after: 'headers."retry-after" || headers."ratelimit-reset"' },
  { when: 'body.slow_down', retry_after: 'body.slow_down' },
];
const integrations = {
  capped: { limits: { in_flight_max: 3 } },
  paced: { limits: { rate_per_s: 0.02, burst: 2 } },
  brisk: { limits: { rate_per_s: 10, burst: 5 } },
  keyed: { limits: { rate_per_s: 0.02, burst: 1 }, auth: { type: 'bearer' } },
  told: { limits: { per: 'action', rate_limited: rules }, actions: Object.fromEntries(Object.keys(forms).map((id) => [id, {}])) },
  patient: {},
  quota: { limits: { quota: { remaining: 'headers."x-left"', reset: 'headers."x-reset"' } } },
  leafed: {
    limits: { rate_per_s: 5, burst: 1 },
    actions: { read: { response: { output: '{items: [body.page]}', pagination: { input: 'q', next: 'body.next', max_pages: 10 } } } },
  },
  shaky: {},
  steady: { errors: [{ when: 'status == `500` && headers."x-input"', error_code: 'validation_error' }] },
  strict: {},
  walled: { limits: { rate_per_s: 9, burst: 3 } }, // slower than its vendor allows
  unaware: { actions: { read: { deadline_ms: 20000 } } },
};

before(async () => {
  stack = await Stack.start({ provider: false });
  provider = await Scripted.start(on);
  const catalog = await writeCatalog(stack.dir, integrations);
  stack.catalog = catalog;
  a = await stack.account('limits a', { apps: [] });
  b = await stack.account('limits b', { apps: [] });
  c = await stack.account('limits c', { apps: [] }); // its circuit opens for a minute on both servers
  [server, strict] = await Promise.all([serve(), serve(['--limit-wait', '2s', '--circuit-open', '1m'])]);
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});
beforeEach(() => {
  answer = ok;
  provider.seen = {};
  provider.most = 0;
});

const serve = (args = [], urls = provider.url) =>
  stack.serve({
    env: { SLUICE_CATALOG: stack.catalog, SLUICE_CONNECTION_LIMITS: 'on' },
    args: [...overrides(urls, ...Object.keys(integrations)), '--limit-wait', '60s', '--circuit-open', '300ms',
      '--circuit-volume', String(CIRCUIT_VOLUME), ...args],
  });
const run = (account, app, action = 'read', on = server) => on.execute(account.key, app, action, {});
const times = (count, fn) => Promise.all(Array.from({ length: count }, fn));
const seen = (path = '/read') => provider.seen[path] ?? 0;
const metric = async (name, on = server) => {
  const line = (await on.metrics()).split('\n').find((one) => one.startsWith(name));
  return line ? Number(line.slice(line.lastIndexOf(' '))) : 0;
};

function assertBlocked(reply, code, seconds) {
  assert.equal(reply.status, 409, reply.text);
  assert.deepEqual([reply.json.status, reply.json.execution_id, reply.json.error_code], ['blocked', null, code]);
  assert.ok(reply.json.message && reply.json.hint && reply.json.display.title);
  const retry = Number(reply.headers.get('retry-after'));
  assert.ok(retry >= 1 && retry <= seconds, `Retry-After: ${retry}`);
  assert.equal(reply.json.retry_after, retry);
}

test('a cap holds, and all calls that wait get their turn', async () => {
  answer = (reply) => setTimeout(() => ok(reply), 30);
  const replies = await times(15, () => run(a, 'capped'));
  assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [200]);
  assert.equal(provider.most, 3);
  assert.equal(await metric('sluice_limits_waiting'), 0);
});

test('clients that disconnect leave the queue; a server that drains serves those that wait', async () => {
  const open = [];
  answer = (reply) => open.push(reply);
  const other = await serve();
  const first = times(3, () => run(a, 'capped', 'read', other));
  await until('three are under way', () => open.length === 3);
  const gone = new AbortController();
  const body = JSON.stringify({ integration_id: 'capped', action_id: 'read', input: {} });
  const headers = { authorization: `Bearer ${a.key}`, 'content-type': 'application/json' };
  const leaving = times(10, () =>
    fetch(`${other.base}/api/executions`, { method: 'POST', body, headers, signal: gone.signal }).catch((error) => error.name));
  await until('ten wait', async () => (await metric('sluice_limits_waiting', other)) === 10);
  gone.abort();
  assert.deepEqual(new Set(await leaving), new Set(['AbortError']));
  await until('no call waits', async () => (await metric('sluice_limits_waiting', other)) === 0);
  const last = times(2, () => run(a, 'capped', 'read', other));
  await until('two wait', async () => (await metric('sluice_limits_waiting', other)) === 2);
  const end = other.stop();
  await until('it drains', () => other.log.includes('draining'));
  answer = ok;
  for (const reply of open) ok(reply);
  for (const reply of [...(await first), ...(await last)]) assert.equal(reply.status, 200, reply.text);
  assert.deepEqual(await end, { code: 0, signal: null }, other.log);
  assert.equal(seen(), 5);
});

test('a rate lets a burst pass and the others one after the other', async () => {
  const waited = () => metric('sluice_limits_wait_seconds_count');
  const before = await waited();
  // on a slow machine few calls have to wait, so more are sent
  await until('ten have waited', async () => {
    const began = performance.now();
    const replies = await times(20, () => run(a, 'brisk'));
    assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [200]);
    assert.ok(performance.now() - began > 1400, 'fifteen beyond the burst were not paced');
    return (await waited()) - before >= 10;
  });
});

test('a call that would wait longer than allowed is blocked at once, on both endpoints', async () => {
  const replies = await times(5, () => run(a, 'paced', 'read', strict));
  assert.equal(replies.filter((reply) => reply.status === 200).length, 2);
  for (const reply of replies.filter((one) => one.status !== 200)) assertBlocked(reply, 'rate_limited', 51);
  const tool = await strict.call(a.key, 'POST', '/api/tools/paced_read/execute', { arguments: {} });
  assert.equal(tool.status, 409, tool.text);
  assert.deepEqual(
    [tool.json.ok, tool.json.error.type, tool.json.error.code, tool.json.error.retryable, tool.json.canonical.error_code],
    [false, 'rate_limit', 'rate_limited', true, 'rate_limited'],
  );
  assert.ok(Number(tool.headers.get('retry-after')) >= 1);
  assert.equal(seen(), 2);
  assert.equal((await run(b, 'paced', 'read', strict)).status, 200); /* another account's connection */
  const audited = await until('blocked runs are audited', async () => {
    const count = await stack.cluster.sql("select count(*) from sluice.audit_event where reason = 'own_rate_limit'");
    return Number(count) === 4 && count;
  });
  assert.equal(Number(audited), 4);
});

test('connections of one account have limits of their own', async () => {
  const env = { env: { SLUICE_CATALOG: stack.catalog } };
  const first = await stack.connect(a.id, 'keyed', { token: 'one' }, ['--label', 'one', '--default'], env);
  const second = await stack.connect(a.id, 'keyed', { token: 'two' }, ['--label', 'two'], env);
  const use = (connectionId) => strict.call(a.key, 'POST', '/api/tools/keyed_read/execute', { arguments: {}, connectionId });
  assert.deepEqual([(await use(first)).status, (await use(first)).status, (await use(second)).status], [200, 409, 200]);
  assertBlocked(await run(a, 'keyed', 'read', strict), 'rate_limited', 51); /* the first is the default */
});

test('"not before" in every form: passed on, stored, and respected', async () => {
  for (const id of Object.keys(forms)) {
    const first = await run(a, 'told', id);
    assert.equal(first.status, 500, `${id}: ${first.text}`);
    assert.deepEqual([first.json.status, first.json.error_code], ['failed', 'rate_limited'], id);
    const retry = Number(first.headers.get('retry-after'));
    assert.ok(retry > AHEAD_S - 5 && retry <= AHEAD_S, `${id}: Retry-After ${retry}`);
    assert.equal(first.json.retry_after, retry, id);
    const stored = await server.call(a.key, 'GET', `/api/executions/${first.json.execution_id}`);
    assert.equal(stored.text, first.text);
    assert.equal(seen(`/${id}`), 1, `${id}: so long a wait is not tried again`);
    assertBlocked(await run(a, 'told', id), 'rate_limited', AHEAD_S);
    assert.equal(seen(`/${id}`), 1);
    const tool = await server.call(b.key, 'POST', `/api/tools/told_${id}/execute`, { arguments: {} });
    assert.equal(tool.status, 500, tool.text); /* b does not wait because of a's reply */
    assert.deepEqual([tool.json.error.type, tool.json.error.retryable], ['rate_limit', true]);
    assert.ok(Number(tool.headers.get('retry-after')) > AHEAD_S - 5);
  }
});

test('a short wait is waited for, within the deadline', async () => {
  answer = (reply) => (seen() === 1 ? status(429, { 'retry-after': '1' })(reply) : ok(reply));
  const tool = await server.call(a.key, 'POST', '/api/tools/patient_read/execute', { arguments: {} });
  assert.equal(tool.status, 200, tool.text);
  assert.equal(tool.json.meta.attempts, 2);
  assert.ok(tool.json.meta.durationMs >= 1000, `${tool.json.meta.durationMs} ms`);
});

test('an outage with its end is not tried again before it', async () => {
  answer = status(503, { 'retry-after': '40' });
  const reply = await run(a, 'patient');
  assert.deepEqual([reply.status, reply.json.error_code, reply.headers.get('retry-after')], [500, 'execution_failed', '40']);
  assert.equal(seen(), 1);
  answer = (reply) => (seen() === 2 ? status(503, { 'retry-after': '1' })(reply) : ok(reply));
  assert.equal((await run(a, 'patient')).status, 200); /* nor does it close the connection */
  assert.equal(seen(), 3);
});

test('no call is sent into a used-up quota', async () => {
  let left = 3;
  answer = (reply) => ok(reply, { 'x-left': String(--left), 'x-reset': String(AHEAD_S) });
  for (let i = 0; i < 3; i++) assert.equal((await run(a, 'quota')).status, 200);
  assertBlocked(await run(a, 'quota'), 'rate_limited', AHEAD_S);
  assert.equal(seen(), 3);
  left = 1;
  answer = (reply) => ok(reply, { 'x-left': String(--left), 'x-reset': '1' });
  assert.equal((await run(b, 'quota')).status, 200);
  assert.equal((await run(b, 'quota')).status, 200); /* waits until the second is over */
});

test('pages count towards the rate', async () => {
  answer = (reply, url) => {
    const page = Number(url.searchParams.get('q') ?? 1);
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ page, next: page < 4 ? String(page + 1) : null }));
  };
  const path = '/api/tools/leafed_read/execute?max_pages=10';
  const reply = await server.call(a.key, 'POST', path, { arguments: {} });
  assert.equal(reply.status, 200, reply.text);
  assert.deepEqual(reply.json.data.items, [1, 2, 3, 4]);
  assert.ok(reply.json.meta.durationMs >= 590, `${reply.json.meta.durationMs} ms for four at five a second`);
});

const shakyGauge = 'sluice_circuit_open{origin="https://shaky.example.com"}';

test('an account stops calling an origin that keeps failing', async () => {
  answer = status(500);
  const failed = await times(CIRCUIT_VOLUME, () => run(c, 'shaky', 'read', strict));
  assert.deepEqual([...new Set(failed.map((reply) => reply.status))], [500]);
  const before = seen();
  const refused = await run(c, 'shaky', 'read', strict);
  assertBlocked(refused, 'execution_failed', OPEN_S_MAX);
  assert.match(refused.json.message, /of this account to https:\/\/shaky\.example\.com/);
  const tool = await strict.call(c.key, 'POST', '/api/tools/shaky_read/execute', { arguments: {} });
  assert.deepEqual([tool.status, tool.json.error.type, tool.json.error.code, tool.json.error.retryable],
    [409, 'provider', 'circuit_open', true]);
  assert.ok(Number(tool.headers.get('retry-after')) >= 1);
  assert.equal(seen(), before);
  assert.equal(await metric(shakyGauge, strict), 0); /* other accounts call apps here, and a single
                                                      * account raises no alarm */
  assert.equal((await run(c, 'steady', 'read', strict)).status, 500); /* the same provider with
                                                                       * another name has its own
                                                                       * circuit */
  answer = ok;
  assert.equal((await run(b, 'shaky', 'read', strict)).status, 200); /* only its own calls decide
                                                                      * about it */
  assert.equal(await metric(shakyGauge, strict), 0);
});

test('after a while a few probe it, then it is used again', async () => {
  const PROBES_MAX = 3;
  answer = status(500);
  await times(CIRCUIT_VOLUME, () => run(a, 'shaky'));
  const open = [];
  answer = (reply) => open.push(reply);
  const calls = await until('probes are let through', async () => {
    let ended = 0;
    const eight = Array.from({ length: 8 }, () => run(a, 'shaky').finally(() => ended++));
    await until('each is refused or a probe', () => ended + open.length === 8);
    return open.length > 0 && eight;
  });
  assert.ok(open.length <= PROBES_MAX, `${open.length} probes`);
  answer = status(500);
  for (const reply of open) answer(reply);
  const statuses = (await Promise.all(calls)).map((reply) => reply.status);
  assert.deepEqual(statuses.sort(), [...Array(8 - open.length).fill(409), ...Array(open.length).fill(500)]);
  answer = ok;
  await until('the circuit closes', async () => (await run(a, 'shaky')).status === 200);
  const replies = await times(30, () => run(a, 'shaky'));
  assert.deepEqual([...new Set(replies.map((reply) => reply.status))], [200]);
  assert.equal(await metric(shakyGauge), 0);
  await until('the log says so', () => server.log.includes('circuit opened') && server.log.includes('circuit closed'));
});

test('a write that may have happened does not cause another: blocked before its claim', async () => {
  answer = status(500);
  const idempotency_key = 'kept for later';
  const keyed = (on) => on.call(a.key, 'POST', '/api/executions', { integration_id: 'strict', action_id: 'read', input: {}, idempotency_key });
  await times(CIRCUIT_VOLUME, () => run(a, 'strict', 'read', strict));
  assertBlocked(await keyed(strict), 'execution_failed', OPEN_S_MAX);
  answer = ok;
  const later = await serve(); /* the circuit was closed then: the key is free */
  const reply = await keyed(later);
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.headers.get('idempotent-replayed'), null);
});

test('requests that a provider refuses open no circuit, nor do one account’s faults', async () => {
  for (const code of [400, 401, 403, 404, 409, 422, 501]) {
    answer = status(code);
    await times(CIRCUIT_VOLUME, () => run(a, 'steady'));
  }
  answer = status(500, { 'x-input': 'bad' }); /* the manifest knows whose fault that is */
  await times(CIRCUIT_VOLUME, () => run(a, 'steady'));
  answer = ok;
  assert.equal((await run(a, 'steady')).status, 200);
  assert.equal((await run(b, 'steady')).status, 200);
  answer = status(500);
  await times(CIRCUIT_VOLUME * 3, () => run(a, 'steady'));
  answer = ok;
  assert.equal((await run(b, 'steady')).status, 200);
  assert.equal(await metric('sluice_circuit_open{origin="https://steady.example.com"}'), 0);
});

// The burst is more than the manifest's rate sends in two seconds, during which nginx may have been
// paused, and less than is sent in total.
test('behind nginx with limit_req: a limit in the manifest avoids refusals there', async () => {
  const nginx = await startNginx(
    stack.dir,
    (port) => `
  limit_req_zone $http_host zone=vendor:1m rate=10r/s;
  limit_req_status 429;
  log_format statuses "$http_host $status";
  server {
    listen 127.0.0.1:${port};
    access_log ${stack.dir}/vendor.log statuses;
    location / { limit_req zone=vendor burst=20 nodelay; proxy_pass ${provider.url}; }
  }`,
  );
  const other = await serve([], `http://127.0.0.1:${nginx.port}`);
  try {
    const paced = await times(30, () => run(a, 'walled', 'read', other));
    assert.deepEqual([...new Set(paced.map((reply) => reply.status))], [200]);
    const rash = await times(80, () => run(a, 'unaware', 'read', other));
    for (const reply of rash)
      assert.ok(reply.status === 200 || reply.json.error_code === 'rate_limited', reply.text);
    assert.ok(rash.filter((reply) => reply.status === 200).length > 21); /* the others waited and tried again */
  } finally {
    await other.stop();
    await nginx.stop();
  }
  const log = (await readFile(join(stack.dir, 'vendor.log'), 'utf8')).split('\n');
  assert.equal(log.filter((line) => line.startsWith('walled') && line.endsWith(' 429')).length, 0);
  assert.ok(log.some((line) => line.startsWith('unaware') && line.endsWith(' 429')));
});

test('an account\'s own request rate, if the operator sets one', async () => {
  const other = await serve(['--account-rate', '1', '--account-burst', '5']);
  const list = (account) => other.call(account.key, 'GET', '/api/integrations');
  const began = Date.now();
  const replies = await times(60, () => list(a));
  const refused = replies.filter((reply) => reply.status !== 200);
  const most = 5 + Math.ceil((Date.now() - began) / 1000); // a burst of five, then one per second
  assert.ok(refused.length >= 60 - most && refused.length <= 55, `${refused.length} refused`);
  for (const reply of refused) {
    assert.equal(reply.status, 429);
    assert.deepEqual(reply.json, { error: 'Too many requests' });
    assert.match(reply.headers.get('retry-after'), /^[12]$/);
  }
  assert.equal((await list(b)).status, 200);
  const none = await other.call('sk_wrong', 'GET', '/api/integrations');
  assert.equal(none.status, 401);
  await until('a second is over', async () => (await list(a)).status === 200);
  const free = await times(50, () => server.call(a.key, 'GET', '/api/integrations'));
  assert.ok(free.every((reply) => reply.status === 200)); /* off by default */
});
