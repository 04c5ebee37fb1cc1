// The emulated provider as a program and as a misbehaving peer: options, certificates, faults,
// ledger, HTTP.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import tls from 'node:tls';
import { Provider, GMAIL, NOTION, TASK_PAGE, exchange, mailId, root, taskId } from './support/provider.mjs';

let provider;
before(async () => {
  provider = await Provider.start();
});
after(async () => {
  const end = await provider.stop();
  assert.deepEqual(end, { code: 0, signal: null, stderr: '' });
});
beforeEach(() => provider.reset());

const program = process.env.SLUICE_PROVIDER_BIN ?? join(root, 'build/sluice-provider');
const page = (title) => ({ parent: { page_id: TASK_PAGE }, properties: { title: { title: [{ text: { content: title } }] } } });
const create = (title, more = {}) => provider.notion('POST', '/pages', { body: page(title), agent: false, ...more });
const counters = async () => (await provider.control('GET', '/counters')).json;
// Waits until a request has matched the rule.
const isMet = async (rule) => {
  while ((await provider.control('GET', '/faults')).json.rules[rule].hits === 0);
};
const failure = async (promise) => {
  const result = await promise.then((reply) => reply, (error) => error);
  assert.ok(result instanceof Error, `answered with ${result.status}`);
  return result.code;
};
const on = (action, more = {}) => ({ match: { path_prefix: '/v1/' }, action, ...more });

// Everything that a TLS connection returns for these bytes: {text, end: 'end' | 'error code'}.
function raw(bytes, { until = () => false } = {}) {
  return new Promise((done) => {
    const { hostname: host, port } = new URL(provider.url);
    let text = '';
    const socket = tls.connect({ host, port, ca: provider.ca, ALPNProtocols: ['http/1.1'] }, () => socket.write(bytes));
    const finish = (end) => {
      socket.destroy();
      done({ text, end });
    };
    socket.on('data', (part) => {
      text += part.toString('latin1');
      if (until(text)) finish('until');
    });
    socket.on('end', () => finish('end'));
    socket.on('error', (error) => finish(error.code));
  });
}

test('status: the app’s own shape, Retry-After, count, and nothing is done', async () => {
  await provider.faults(on({ status: 429, retry_after: 7 }, { count: 2 }));
  for (let i = 0; i < 2; i++) {
    const reply = await create('a');
    assert.equal(reply.status, 429);
    assert.equal(reply.headers['retry-after'], '7');
    assert.equal(reply.json.code, 'rate_limited');
  }
  assert.equal((await create('b')).status, 200);
  assert.equal((await counters()).writes_total, 1);
  for (const [status, notion, gmail] of [[401, 'unauthorized', 'authError'], [403, 'restricted_resource', 'rateLimitExceeded'], [429, 'rate_limited', 'rateLimitExceeded'], [500, 'internal_server_error', 'backendError'], [502, 'bad_gateway', 'backendError'], [503, 'service_unavailable', 'backendError'], [504, 'gateway_timeout', 'backendError']]) {
    await provider.faults({ action: { status } });
    const one = await provider.notion('GET', '/users/me');
    assert.deepEqual([one.status, one.json.code], [status, notion]);
    const two = await provider.gmail('GET', '/profile');
    assert.deepEqual([two.status, two.json.error.code, two.json.error.errors[0].reason], [status, status, gmail]);
  }
  await provider.faults(on({ status: 502, body: '<h1>bad gateway</h1>' }));
  const html = await provider.notion('GET', '/users/me');
  assert.deepEqual([html.status, html.text, html.headers['content-type']], [502, '<h1>bad gateway</h1>', 'text/html; charset=utf-8']);
  await provider.faults(on({ status: 418, body: { own: ['shape'] } }));
  assert.deepEqual((await provider.notion('GET', '/users/me')).json, { own: ['shape'] });
});

test('status with executed: the write is done, but the reply says otherwise', async () => {
  await provider.faults(on({ status: 502, executed: true }, { count: 1 }));
  assert.equal((await create('done')).status, 502);
  const { entries } = await provider.ledger();
  assert.deepEqual(entries.map((e) => e.marker), ['done']);
});

test('match, skip, and the order of rules', async () => {
  await provider.faults(
    { match: { method: 'POST', path_prefix: '/v1/pages' }, skip: 1, count: 1, action: { status: 503 } },
    { match: { token: 'ntn_demo_notion_readonly' }, action: { status: 403 } },
  );
  assert.equal((await create('1')).status, 200);
  assert.equal((await create('2')).status, 503);
  assert.equal((await create('3')).status, 200);
  assert.equal((await provider.notion('GET', '/users/me')).status, 200);
  assert.equal((await provider.notion('GET', '/users/me', { token: 'ntn_demo_notion_readonly' })).status, 403);
  const { rules } = (await provider.control('GET', '/faults')).json;
  assert.deepEqual(rules.map((r) => [r.left, r.hits]), [[0, 1], [-1, 1]]);
  await provider.faults({ action: { status: 500 } });
  assert.equal((await provider.call('GET', '/status/200')).status, 500);
  assert.deepEqual((await provider.control('DELETE', '/faults')).json, { rules: [] });
  assert.equal((await provider.call('GET', '/status/200')).status, 200);
});

test('a rule with a mistake is refused and changes nothing', async () => {
  await provider.faults({ action: { status: 500 } });
  for (const rule of [{}, { action: {} }, { action: { statos: 500 } }, { action: { status: 99 } }, { action: { reset: 'never' } }, { action: { status: 500 }, counts: 1 }, { match: { host: 'x' }, action: { status: 500 } }, { action: { slow_body: { bytes: 0 } } }, { action: { latency_ms: -1 } }, { action: { hang: 'mid_body' } }]) {
    const reply = await provider.control('PUT', '/faults', { rules: [rule] });
    assert.equal(reply.status, 400, JSON.stringify(rule));
    assert.match(reply.json.error, /^rule 0: /);
  }
  assert.equal((await provider.control('PUT', '/faults', { rules: {} })).status, 400);
  assert.equal((await provider.call('GET', '/status/200')).status, 500);
});

test('latency delays only the reply on this connection; the write is done at once', async () => {
  await provider.faults(on({ latency_ms: 400 }, { count: 1 }));
  const started = Date.now();
  const late = create('late');
  let entries = [];
  while (!entries.length) entries = (await provider.ledger()).entries;
  assert.equal(entries[0].marker, 'late');
  assert.equal((await late).status, 200);
  assert.ok(Date.now() - started >= 390);
});

test('hold delays replies until the rules change; the write is done at once', async () => {
  const markers = async () => (await provider.ledger()).entries.map((e) => e.marker);
  let isOver;
  const begin = async (title, action) => {
    await provider.faults(on(action, { count: 1 }));
    isOver = false;
    const reply = create(title).finally(() => (isOver = true));
    await isMet(0);
    return { reply };
  };
  const changes = [() => provider.faults(), () => provider.control('DELETE', '/faults'), () => provider.faults(on({ hold: true })), () => provider.reset()];
  for (const [i, change] of changes.entries()) {
    const { reply } = await begin(`held ${i}`, { hold: true, latency_ms: 1 });
    assert.ok((await markers()).includes(`held ${i}`));
    const mistake = await provider.control('PUT', '/faults', { rules: [{}] });
    assert.deepEqual([mistake.status, isOver], [400, false], 'this changes nothing');
    await change();
    assert.equal((await reply).status, 200);
  }
  const { reply } = await begin('not done', { hold: true, status: 503 });
  assert.deepEqual([(await markers()).includes('not done'), isOver], [false, false]);
  await provider.faults();
  assert.equal((await reply).status, 503);
});

test('reset before and after: the difference is in the ledger', async () => {
  await provider.faults(on({ reset: 'before' }, { count: 1 }), on({ reset: 'after' }, { count: 1 }));
  assert.equal(await failure(create('before')), 'ECONNRESET');
  assert.equal((await counters()).writes_total, 0);
  assert.equal(await failure(create('after')), 'ECONNRESET');
  assert.deepEqual((await provider.ledger()).entries.map((e) => e.marker), ['after']);
});

test('reset in the middle of a body', async () => {
  await provider.faults(on({ reset: 'mid_body' }, { count: 1 }));
  const code = await failure(create('middle'));
  assert.ok(['ECONNRESET', 'ABORTED'].includes(code), code);
  await provider.faults({ match: { path_prefix: '/bytes' }, action: { reset: 'mid_body' }, count: 1 });
  const { text, end } = await raw('GET /bytes/1000 HTTP/1.1\r\nHost: x\r\n\r\n');
  // If data and reset arrive before this program reads, libuv reports an end (POLLHUP after a partial read).
  assert.ok(['ECONNRESET', 'end'].includes(end), end);
  assert.match(text, /Content-Length: 1000\r\n/);
  assert.equal(text.length - text.indexOf('\r\n\r\n') - 4, 500);
});

test('a slow body arrives completely, in pieces, and the connection stays open', async () => {
  await provider.faults({ match: { path_prefix: '/bytes' }, action: { slow_body: { bytes: 100, interval_ms: 5 } }, count: 1 });
  const reply = await provider.call('GET', '/bytes/1000');
  assert.deepEqual([...reply.bytes], Array.from({ length: 1000 }, (_, i) => i & 255));
  assert.equal((await provider.call('GET', '/bytes/3')).bytes.length, 3);
});

test('an endless body does not end, and others are served meanwhile', async () => {
  await provider.faults({ match: { path_prefix: '/bytes' }, action: { endless_body: true }, count: 1 });
  let other;
  const { text } = await raw('GET /bytes/1 HTTP/1.1\r\nHost: x\r\n\r\n', {
    until: (got) => {
      if (got.length > 1e6) other ??= provider.call('GET', '/bytes/5');
      return got.length > 30e6;
    },
  });
  assert.match(text.slice(0, 200), /Transfer-Encoding: chunked/);
  assert.equal((await other).bytes.length, 5);
});

test('close after headers, garbage, hang', async () => {
  await provider.faults(on({ close_after_headers: true }, { count: 1 }));
  const closed = await raw(`GET /v1/users/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${NOTION}\r\nNotion-Version: 2026-03-11\r\n\r\n`);
  assert.equal(closed.end, 'end');
  assert.match(closed.text, /^HTTP\/1\.1 200 OK\r\n[^]*Content-Length: [1-9]\d*\r\n\r\n$/);
  await provider.faults({ action: { garbage: true }, count: 1 });
  const garbage = await raw('GET /status/200 HTTP/1.1\r\nHost: x\r\n\r\n');
  assert.doesNotMatch(garbage.text, /^HTTP\/1\./);
  await provider.faults(on({ hang: 'before' }, { count: 1 }), on({ hang: 'after' }, { count: 1 }));
  for (const [rule, title] of ['never', 'silent'].entries()) {
    const gone = new AbortController();
    const code = failure(create(title, { signal: gone.signal })); // an answered request is not a failure
    await isMet(rule);
    await counters();
    gone.abort();
    assert.equal(await code, 'ABORT_ERR');
  }
  assert.deepEqual((await provider.ledger()).entries.map((e) => e.marker), ['silent']);
});

test('ledger; counters by kind and status', async () => {
  for (const title of ['a', 'a', 'b']) assert.equal((await create(title)).status, 200);
  await create('c', { token: 'wrong' });
  const { entries } = await provider.ledger();
  assert.deepEqual(entries.map((e) => [e.seq, e.app, e.method, e.marker]), [[1, 'notion', 'POST', 'a'], [2, 'notion', 'POST', 'a'], [3, 'notion', 'POST', 'b']]);
  assert.match(entries[0].time, /^\d{4}-.*Z$/);
  assert.deepEqual(await counters(), { requests: 4, writes_total: 3, writes: { 'notion.pages.create': 3 }, apps: { notion: { requests: 4, '2xx': 3, '4xx': 1 } } });
});

test('control: the header is required; reset restores the first state; mail can be delivered; the state can be read', async () => {
  assert.equal((await provider.call('GET', '/__control/counters')).status, 403);
  assert.equal((await provider.control('GET', '/nothing')).status, 404);
  const before = (await provider.control('GET', '/state/messages')).json.messages;
  assert.equal(before.length, 62);
  const mail = (await provider.control('POST', '/mail', { from: 'Zoë <zoe@example.net>', subject: 'Hallo', text: 'grüß dich', labels: ['INBOX', 'UNREAD', 'STARRED'] })).json;
  assert.deepEqual(mail.labelIds, ['INBOX', 'UNREAD', 'STARRED']);
  const shown = (await provider.control('GET', '/state/messages')).json.messages[0];
  assert.deepEqual([shown.id, shown.From, shown.Subject, shown.text], [mail.id, 'Zoë <zoe@example.net>', 'Hallo', 'grüß dich']);
  assert.equal((await provider.gmail('GET', '/messages', { query: { q: 'from:zoë is:starred' } })).json.messages[0].id, mail.id);
  const old = (await provider.control('POST', '/mail', { raw: 'From: a@b.org\r\nSubject: old\r\n\r\nx', date: '2020-01-01T00:00:00Z' })).json;
  assert.deepEqual((await provider.gmail('GET', '/messages', { query: { q: 'older_than:5y' } })).json.messages.map((m) => m.id), [old.id]);
  assert.equal((await provider.control('POST', '/mail', { labels: ['NOPE'] })).status, 400);
  await create('extra');
  const pages = async () => (await provider.notion('POST', '/search', { body: {} })).json.results.length;
  assert.equal(await pages(), 19);
  await provider.reset();
  assert.deepEqual((await provider.control('GET', '/state/messages')).json.messages.map((m) => [m.id, m.labels]), before.map((m) => [m.id, m.labels]));
  assert.equal(await pages(), 18);
  assert.equal((await counters()).writes_total, 0);
});

test('generic paths: echo, bytes, status, sleep', async () => {
  const echo = (await provider.call('PATCH', '/echo/a%20b?x=1&x=2&y=%C3%A9+z', { body: { n: 1 }, token: 'secret', headers: { 'X-Own': 'v' } })).json;
  assert.deepEqual([echo.method, echo.path, echo.query, echo.json], ['PATCH', '/echo/a%20b', [['x', '1'], ['x', '2'], ['y', 'é z']], { n: 1 }]);
  assert.ok(echo.headers.some(([n, v]) => n === 'X-Own' && v === 'v'));
  assert.ok(!JSON.stringify(echo).includes('secret'));
  const bytes = (await provider.call('POST', '/echo', { body: Buffer.from([0, 255, 254]), headers: { 'Content-Type': 'application/octet-stream' } })).json;
  assert.deepEqual([bytes.body, bytes.json, bytes.body_base64], [null, null, 'AP/+']);
  assert.equal((await provider.call('GET', '/bytes/100000')).bytes.length, 100000);
  assert.equal((await provider.call('GET', '/status/418')).status, 418);
  assert.equal((await provider.call('GET', '/status/99')).status, 404);
  const started = Date.now();
  assert.equal((await provider.call('GET', '/sleep/120')).status, 200);
  assert.ok(Date.now() - started >= 110);
  assert.equal((await provider.call('GET', '/echo?x=%zz')).status, 400);
});

test('HTTP: pipelining in order, chunked bodies, 100-continue, HEAD, close, 1.0, bad heads', async () => {
  const pipelined = await raw(Array.from({ length: 20 }, (_, i) => `GET /bytes/${i} HTTP/1.1\r\nHost: x\r\n${i === 19 ? 'Connection: close\r\n' : ''}\r\n`).join(''));
  assert.equal(pipelined.end, 'end');
  assert.deepEqual([...pipelined.text.matchAll(/Content-Length: (\d+)/g)].map((m) => Number(m[1])), Array.from({ length: 20 }, (_, i) => i));
  const late = await raw('GET /sleep/50 HTTP/1.1\r\nHost: x\r\n\r\nGET /status/201 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  assert.deepEqual([...late.text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((m) => m[1]), ['200', '201']);
  const chunked = await raw('POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\n\r\n');
  assert.match(chunked.text, /"body":"abc0123456789"/);
  const expecting = await raw('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n', { until: (t) => t.includes('100 Continue\r\n\r\n') });
  assert.equal(expecting.end, 'until');
  const head = await raw('HEAD /bytes/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  assert.match(head.text, /Content-Length: 5\r\n(?:[^\r\n]+\r\n)*\r\n$/);
  const old = await raw('GET /bytes/5 HTTP/1.0\r\nHost: x\r\n\r\n');
  assert.deepEqual([old.end, old.text.slice(-5)], ['end', '\x00\x01\x02\x03\x04']);
  for (const bad of ['GET / HTTP/1.1\r\n\r\n', 'GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n', 'nonsense\r\n\r\n', 'POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n'])
    assert.match((await raw(bad)).text, /^HTTP\/1\.1 400 /, bad);
  assert.match((await raw('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n')).text, /^HTTP\/1\.1 413 /);
  const big = 'x'.repeat(5e6);
  assert.equal((await provider.call('POST', '/echo', { body: big })).json.body.length, 5e6);
});

test('byte by byte gives the same as at once', async () => {
  const { hostname: host, port } = new URL(provider.url);
  const text = await new Promise((done, fail) => {
    let got = '';
    const bytes = 'POST /echo?a=b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n';
    const socket = tls.connect({ host, port, ca: provider.ca }, async () => {
      for (const byte of bytes) await new Promise((sent) => socket.write(byte, sent));
    });
    socket.on('data', (part) => (got += part));
    socket.on('end', () => done(got));
    socket.on('error', fail);
  });
  assert.match(text, /"query":\[\["a","b"\]\][^]*"body":"hi"/);
});

test('certificates: trusted through the CA file only, right names, key private', async () => {
  await assert.rejects(exchange(`${provider.url}/status/200`, { agent: false }), { code: /SELF_SIGNED|UNABLE_TO/ });
  const data = join(provider.folder, 'data');
  const leaf = new X509Certificate(readFileSync(join(data, 'cert.pem')));
  const ca = new X509Certificate(readFileSync(join(data, 'ca.pem')));
  assert.deepEqual(leaf.subjectAltName.split(', ').sort(), ['DNS:localhost', 'IP Address:0:0:0:0:0:0:0:1', 'IP Address:127.0.0.1']);
  assert.ok(leaf.verify(ca.publicKey) && ca.ca && !leaf.ca);
  const days = (certificate) => Math.round((Date.parse(certificate.validTo) - Date.now()) / 86400000);
  assert.deepEqual([days(leaf), days(ca)], [365, 3650]);
  assert.equal(statSync(join(data, 'cert.key')).mode & 0o777, 0o600);
  assert.ok(!existsSync(join(data, 'ca.key')));
  assert.equal(provider.ready.ca_file, join(data, 'ca.pem'));
  const local = provider.url.replace('127.0.0.1', 'localhost');
  assert.equal((await exchange(`${local}/status/200`, { ca: provider.ca, agent: false })).status, 200);
});

test('TLS 1.2 and 1.3, resumption', async () => {
  const { hostname: host, port } = new URL(provider.url);
  const connect = (options) =>
    new Promise((done, fail) => {
      const socket = tls.connect({ host, port, ca: provider.ca, ...options }, () => socket.write('GET /status/200 HTTP/1.1\r\nHost: x\r\n\r\n'));
      let session;
      socket.on('session', (ticket) => (session = ticket));
      socket.on('data', () => {
        done({ protocol: socket.getProtocol(), reused: socket.isSessionReused(), session });
        socket.destroy();
      });
      socket.on('error', fail);
    });
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const options = { minVersion: version, maxVersion: version };
    const first = await connect(options);
    assert.deepEqual([first.protocol, first.reused], [version, false]);
    assert.equal((await connect({ ...options, session: first.session })).reused, true);
  }
});

test('options: plain, tokens, seed, help, mistakes', async () => {
  const plain = await Provider.start('--plain', '--token', 'gmail=own-token,readonly', '--token=notion=n2', '--seed', '7');
  try {
    assert.match(plain.url, /^http:/);
    assert.equal(plain.ready.ca_file, null);
    assert.equal((await plain.gmail('GET', '/profile', { token: 'own-token' })).status, 200);
    assert.equal((await plain.gmail('POST', '/messages/send', { token: 'own-token', body: {} })).status, 403);
    assert.equal((await plain.notion('GET', '/users/me', { token: 'n2' })).status, 200);
    assert.equal((await plain.gmail('GET', `/messages/${mailId(1)}`, { token: GMAIL })).json.id, mailId(1), 'ids do not depend on the seed');
    assert.equal((await plain.notion('GET', `/pages/${taskId(1)}`)).status, 200);
  } finally {
    assert.deepEqual(await plain.stop(), { code: 0, signal: null, stderr: '' });
  }
  const run = (...options) => spawnSync(program, options, { encoding: 'utf8' });
  assert.match(run('--help').stdout, /--die-with-parent/);
  for (const [options, message] of [[[], /--data DIR is needed/], [['--port', '70000', '--plain'], /--port must be a number up to 65535/], [['--nope', 'x'], /no option --nope/], [['--data'], /needs a value/], [['--plain', '--token', 'slack=x'], /gmail=TOKEN or notion=TOKEN/], [['--plain', '--token', 'gmail=x,fly'], /no scope is called fly/], [['--plain', '--listen', '203.0.113.1'], /203\.0\.113\.1/]]) {
    const { status, stderr } = run(...options);
    assert.equal(status, 1, options.join(' '));
    assert.match(stderr, message);
  }
});

test('--die-with-parent', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-parent-'));
  const ready = join(folder, 'ready.json');
  const parent = spawn('/bin/sh', ['-c', `"$0" --plain --die-with-parent --ready-file "$1" & wait`, program, ready], { stdio: 'ignore' });
  while (!existsSync(ready)) await new Promise((go) => setImmediate(go));
  const { url } = JSON.parse(readFileSync(ready, 'utf8'));
  const { hostname: host, port } = new URL(url);
  parent.kill('SIGKILL');
  for (;;) {
    const code = await new Promise((done) => {
      const socket = net.connect({ host, port }, () => done('open') ?? socket.destroy());
      socket.on('error', (error) => done(error.code));
    });
    if (code === 'ECONNREFUSED') break;
  }
  rmSync(folder, { recursive: true });
});
