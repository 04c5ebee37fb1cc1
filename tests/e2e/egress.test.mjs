// Calls to apps through the operator's proxy (https-proxy): a real CONNECT proxy, and one that
// fails in each possible way. Whatever the failure, no part of the call has reached the app, and no
// secret is in the log.
import assert from 'node:assert/strict';
import https from 'node:https';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { makeBadCertificates } from './support/certificates.mjs';
import { Scripted, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const PASSWORD = 'p@ss:w0rd', AUTHORIZATION = `Basic ${Buffer.from(`agent:${PASSWORD}`).toString('base64')}`;
let stack, server, account, provider, proxy, port;
const asked = []; // requests to the proxy: {target, authorization}
const failing = []; // what the proxy does instead of connecting, once each
const sockets = new Set();

const instead = {
  refuses: (socket) => socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n'),
  cannot: (socket) => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'),
  later: (socket) => socket.end('HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n'),
  garbage: (socket) => socket.end('\x00\x01 what?\r\n\r\n'),
  closes: (socket) => socket.destroy(),
  silent: () => {},
  // waits for the TLS handshake to begin: bytes that came with the head would not be an answer to
  // CONNECT
  blind: (socket) => socket.once('data', () => socket.end('not TLS')).write('HTTP/1.1 200 OK\r\n\r\n'),
};

function serve(socket) {
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  let head = '';
  socket.on('data', function read(part) {
    head += part.toString('latin1');
    if (!head.includes('\r\n\r\n')) return;
    socket.off('data', read);
    const [, target] = /^CONNECT (\S+) HTTP\/1\.1\r\n/.exec(head) ?? [];
    const authorization = /\r\nProxy-Authorization: (.*)\r\n/.exec(head)?.[1];
    asked.push({ target, authorization });
    const fails = instead[failing.shift()];
    if (fails) return void fails(socket);
    const at = target.lastIndexOf(':');
    const far = net.connect(Number(target.slice(at + 1)), target.slice(0, at).replace(/^\[|\]$/g, ''), () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(far).pipe(socket);
    });
    far.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    socket.on('close', () => far.destroy());
  });
}

before(async () => {
  stack = await Stack.start({ provider: false });
  const certificates = await makeBadCertificates(stack.dir);
  const createServer = (on) => https.createServer(certificates.good, on);
  provider = await Scripted.start((request, reply) => reply.setHeader('Content-Type', 'application/json').end('{"it": "works"}'), { createServer });
  proxy = net.createServer(serve);
  port = await new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy.address().port)));
  const write = { side_effect_level: 'write', requires_confirmation: true, idempotent: false, request: { method: 'POST', path: '/write', body: { json: {} } } };
  const actions = { read: {}, write, hurried: { deadline_ms: 1000 } };
  const integrations = Object.fromEntries(Object.keys(instead).map((name) => [name, { base_url: `https://localhost:${provider.port}`, actions }]));
  integrations.inside = { base_url: 'https://10.0.0.1', actions };
  integrations.works = { base_url: `https://localhost:${provider.port}`, actions };
  account = await stack.account('egress', { apps: [] });
  server = await stack.serve({
    env: { SLUICE_CATALOG: await writeCatalog(stack.dir, integrations), SLUICE_HTTPS_PROXY: `http://agent:${encodeURIComponent(PASSWORD)}@localhost:${port}`, SLUICE_LOG_LEVEL: 'debug' },
    args: ['--ca-file', certificates.caFile, '--allow-host', '127.0.0.0/8', '--allow-host', '::1/128'],
  });
});
after(async () => {
  for (const one of sockets) one.destroy();
  proxy?.close();
  await provider?.stop();
  await stack?.stopWell(assert);
});

const run = (app, action = 'read', more = {}) => server.execute(account.key, app, action, {}, more);

test('a call goes through a tunnel to an address, which is kept for the next', async () => {
  for (let i = 0; i < 3; i++) {
    const reply = await run('works');
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual(reply.json.output, { it: 'works' });
  }
  // if localhost is also ::1, the proxy may have failed to reach it there
  assert.ok(asked.length >= 1 && asked.length <= 2, JSON.stringify(asked));
  for (const one of asked) {
    assert.match(one.target, new RegExp(`^(127\\.0\\.0\\.1|\\[::1\\]):${provider.port}$`));
    assert.equal(one.authorization, AUTHORIZATION);
  }
  assert.equal(sockets.size, 1);
});

test('an address inside is refused before the proxy is asked', async () => {
  const before = asked.length;
  const reply = await run('inside');
  assert.equal(reply.json.status, 'blocked', reply.text);
  assert.match(reply.json.message, /no public address/);
  assert.equal(asked.length, before);
});

test('a single failure of the proxy costs a read and a write only time', async () => {
  for (const name of ['cannot', 'later', 'garbage', 'closes', 'refuses']) {
    for (const one of sockets) one.destroy(); // no tunnel is kept
    const before = provider.seen['/write'] ?? 0;
    failing.splice(0, Infinity, name);
    const reply = await run(name, 'write', { confirm: true });
    assert.equal(reply.status, 200, `${name}: ${reply.text}`);
    assert.equal(provider.seen['/write'], before + 1, name);
  }
});

test('a lasting failure has its own outcome, and is never taken for a reply of the app', async () => {
  const words = {
    refuses: /the proxy refused the operator's credentials \(HTTP 407\)/,
    cannot: /the proxy did not connect to localhost \(HTTP 502\)/,
    later: /the proxy did not connect to localhost \(HTTP 503\)/,
    garbage: /the proxy did not answer CONNECT with HTTP/,
    closes: /the proxy closed the connection before it answered/,
    silent: /waiting for the proxy to connect to localhost/,
    blind: /TLS|handshake|localhost/,
  };
  const seen = JSON.stringify(provider.seen);
  for (const [name, message] of Object.entries(words)) {
    for (const one of sockets) one.destroy();
    failing.splice(0, Infinity, ...Array(20).fill(name));
    const reply = await run(name, name === 'silent' ? 'hurried' : 'read');
    assert.equal(reply.status, 500, `${name}: ${reply.text}`);
    assert.deepEqual([reply.json.status, reply.json.error_code], ['failed', 'execution_failed'], `${name}: ${reply.text}`);
    assert.match(reply.json.message, message);
    assert.ok(!reply.text.includes(String(port)), reply.text);
  }
  assert.equal(JSON.stringify(provider.seen), seen);
  failing.length = 0;
  assert.equal((await run('works')).status, 200); // no circuit has opened
});

// The proxy alone knows why it did not connect: the attempts count, and the event ends, but the
// endpoint is neither paused nor switched off. The address is public; only the proxy is asked.
test('an event whose endpoint the proxy does not reach ends like others', async () => {
  const hook = (await server.call(account.key, 'POST', '/api/webhooks', { url: 'https://8.8.8.8/hook' })).json;
  failing.splice(0, Infinity, ...Array(20).fill('cannot'));
  await stack.cluster.sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at)
    values ('${account.id}', gen_random_uuid(), '${hook.id}', 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 0, now())`);
  const row = async () => JSON.parse(await stack.cluster.sql(`select row_to_json(d) from (select *, extract(epoch from due_at - now()) as due_s from sluice.delivery where webhook_id = '${hook.id}') d`));
  const first = await until('the attempt has ended', async () => (await row()).problem && row());
  assert.match(first.problem, /the proxy did not connect to 8\.8\.8\.8 \(HTTP 502\)/);
  assert.deepEqual([first.status, first.attempt], ['pending', 1]);
  assert.ok(first.due_s < 6, String(first.due_s));
  await stack.cluster.sql(`update sluice.delivery set attempt = 9, due_at = now() where webhook_id = '${hook.id}'`);
  const last = await until('the event has ended', async () => (await row()).status === 'failed' && row());
  assert.equal(last.attempt, 10);
  const { enabled, failures } = (await server.call(account.key, 'GET', `/api/webhooks/${hook.id}`)).json;
  assert.deepEqual([enabled, failures], [true, 0]);
  failing.length = 0;
});

test('neither the log nor a refused setting has the password', async () => {
  const log = server.log ?? '';
  assert.match(log, /outbound proxy failed/);
  for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), AUTHORIZATION.slice(6)]) assert.ok(!log.includes(secret), secret);
  const wrong = await stack.sluice(['doctor'], { env: { SLUICE_HTTPS_PROXY: `https://agent:${PASSWORD}@proxy.example.com` } });
  assert.match(wrong.stdout + wrong.stderr, /https-proxy: must be http:\/\/HOST:PORT/);
  assert.ok(!(wrong.stdout + wrong.stderr).includes(PASSWORD));
});
