// Providers that hang, trickle bytes, never end, return wrong data, or are impostors: each gives
// its own error within the deadline, and calls to others are not affected.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import tls from 'node:tls';
import { until } from './support/client.mjs';
import { makeBadCertificates } from './support/certificates.mjs';
import { startNginx } from './support/nginx.mjs';
import { Scripted, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const DEADLINE_MS = 1500; /* for calls that must reach it */
const PATIENT_MS = 60_000; /* for the other calls */
const BODY_BYTES_MAX = 256 * 1024;

let stack, server, account, certificates, elsewhere, healthy;
const servers = [];

const head = (more = '') => `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${more}\r\n`;
// Sends more bytes every `ms`, or as fast as they are read, until the peer disconnects.
const drip = (socket, next, ms) => {
  const timer = setInterval(() => socket.write(next()), ms);
  socket.on('close', () => clearInterval(timer));
};
const flood = (socket, next) => {
  const more = () => {
    while (socket.writable && socket.write(next()));
  };
  socket.on('drain', more);
  more();
};
const chunk = (bytes) => `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;
const redirect = (status, to) => (socket) =>
  socket.end(`HTTP/1.1 ${status} Moved\r\nLocation: ${to()}\r\nContent-Length: 0\r\n\r\n`);

// The behavior of each on a request, and the expected error.
const replies = {
  hang: [() => {}, 'timeout', /waiting for the reply/],
  drip_head: [(s) => (s.write('HTTP/1.1 200 OK\r\nX-Slow: '), drip(s, () => 'x', 50)), 'timeout', /reply/],
  drip_body: [(s) => (s.write(head('Content-Length: 100000\r\n')), drip(s, () => 'x', 50)), 'timeout', /rest of the reply/],
  drip_chunks: [(s) => (s.write(head('Transfer-Encoding: chunked\r\n')), drip(s, () => chunk(1), 50)), 'timeout', /rest of the reply/],
  stops: [(s) => s.write(`${head('Content-Length: 10\r\n')}12345`), 'timeout', /rest of the reply/],
  endless_body: [(s) => (s.write(head()), flood(s, () => 'x'.repeat(65536))), 'execution_failed', /larger|too large|bytes/],
  endless_chunks: [(s) => (s.write(head('Transfer-Encoding: chunked\r\n')), flood(s, () => chunk(32768))), 'execution_failed', /larger|too large|bytes/],
  long_body: [(s) => s.write(head(`Content-Length: ${BODY_BYTES_MAX + 1}\r\n`)), 'execution_failed', /larger|too large|bytes/],
  endless_head: [(s) => (s.write('HTTP/1.1 200 OK\r\n'), flood(s, () => `X-More: ${'x'.repeat(900)}\r\n`)), 'execution_failed', /head/],
  endless_interim: [(s) => flood(s, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'), 'execution_failed', /1xx|interim|before/],
  garbage: [(s) => s.end('\x00\x01\xff not HTTP at all\r\n\r\n'), 'execution_failed', /HTTP/],
  two_lengths: [(s) => s.end(`${head('Content-Length: 2\r\nContent-Length: 3\r\n')}{}x`), 'execution_failed', /HTTP/],
  cut_head: [(s) => s.end('HTTP/1.1 200 OK\r\nContent-'), 'execution_failed', /closed|ended/],
  cut_body: [(s) => s.end(`${head('Content-Length: 10\r\n')}12345`), 'execution_failed', /closed|ended/],
  cut_chunks: [(s) => s.end(`${head('Transfer-Encoding: chunked\r\n')}5\r\n12`), 'execution_failed', /closed|ended/],
  silent_close: [(s) => s.end(), 'execution_failed', /closed|ended/],
  reset: [(s) => s.destroy(), 'execution_failed', /closed|ended|reset/],
  moved_host: [redirect(301, () => `${elsewhere.url}/stolen`), 'execution_failed', /redirect/],
  moved_scheme: [redirect(302, () => elsewhere.url), 'execution_failed', /redirect/],
  moved_same_method: [redirect(307, () => `${elsewhere.url}/stolen`), 'execution_failed', /redirect/],
  moved_for_good: [redirect(308, () => '//elsewhere.example.com/'), 'execution_failed', /redirect/],
};
// Peers that fail the handshake, so no byte of the request is sent to them.
const strangers = {
  expired: /expired/,
  not_yet: /not valid (yet|before)|valid from/,
  other_ca: /not (signed|issued|trusted)|no (authority|CA)|unknown/i,
  self_signed: /self-signed|itself/,
  wrong_host: /not for host localhost but for .*localhost\.example\.com/,
  no_host: /not for host localhost/,
  client_only: /not meant for a server/,
  old_tls: /TLS|handshake/,
  no_tls: /TLS|handshake/,
  closes: /closed|TLS|handshake/,
};

function listen(server) {
  servers.push(server);
  server.on('tlsClientError', () => {});
  server.on('connection', (socket) => socket.on('error', () => {}));
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
}

function onRequest(reply) {
  return (socket) => {
    socket.on('error', () => {});
    let text = '';
    socket.on('data', (part) => {
      text += part.toString('latin1');
      if (!text.includes('\r\n\r\n')) return;
      text = '';
      reply(socket);
    });
  };
}

const isSlow = (name) => name === 'no_handshake' || replies[name]?.[1] === 'timeout';
const deadline = (name) => (isSlow(name) ? DEADLINE_MS : PATIENT_MS);

const heard = {}; // bytes of requests that arrived where none may
function stranger(name) {
  const onBytes = (socket) => socket.on('data', (part) => (heard[name] = (heard[name] ?? 0) + part.length));
  if (name === 'no_tls')
    return net.createServer((socket) => socket.on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
  if (name === 'closes') return net.createServer((socket) => socket.end());
  if (name === 'old_tls')
    return tls.createServer({ ...certificates.good, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }, onBytes);
  return tls.createServer(certificates[name], onBytes);
}

before(async () => {
  stack = await Stack.start({ provider: false });
  certificates = await makeBadCertificates(stack.dir);
  elsewhere = await Scripted.start((request, reply) => reply.end('{}'));
  /* a process of its own: this one is busy with being hostile */
  healthy = await startNginx(
    stack.dir,
    (port) => `
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${certificates.good.certFile};
    ssl_certificate_key ${certificates.good.keyFile};
    location / { default_type application/json; return 200 '{}'; }
  }`,
  );
  const ports = { healthy: healthy.port };
  for (const [name, [reply]] of Object.entries(replies))
    ports[name] = await listen(tls.createServer(certificates.good, onRequest(reply)));
  for (const name of Object.keys(strangers)) ports[name] = await listen(stranger(name));
  ports.no_handshake = await listen(net.createServer(() => {})); /* accepts the connection and sends
                                                                  * nothing */
  const write = { side_effect_level: 'write', requires_confirmation: true, idempotent: false, request: { method: 'POST', path: '/write', body: { json: {} } } };
  const integrations = Object.fromEntries(
    Object.entries(ports).map(([name, port]) => [
      name,
      {
        base_url: `https://localhost:${port}`,
        limits: { response_bytes_max: BODY_BYTES_MAX },
        actions: { read: { deadline_ms: deadline(name) }, write: { deadline_ms: deadline(name), ...write } },
      },
    ]),
  );
  account = await stack.account('hostile', { apps: [] });
  server = await stack.serve({
    env: { SLUICE_CATALOG: await writeCatalog(stack.dir, integrations) },
    args: ['--ca-file', certificates.caFile, '--allow-host', 'localhost'],
  });
});
after(async () => {
  for (const one of servers) one.close();
  await elsewhere?.stop();
  await healthy?.stop();
  await stack?.stopWell(assert); /* no turn of the loop was too long */
});

const run = (app, action = 'read', more = {}) => server.execute(account.key, app, action, {}, more);

function assertFailed(name, reply, code, message) {
  assert.equal(reply.status, 500, `${name}: ${reply.text}`);
  assert.deepEqual([reply.json.status, reply.json.error_code], ['failed', code], `${name}: ${reply.text}`);
  assert.match(reply.json.message, message, name);
  assert.ok(reply.json.hint, `${name} has no hint`);
  /* the deadline has ended it, and not one of the client's longer time-outs */
  if (code === 'timeout') assert.match(reply.json.message, /deadline passed/, name);
}

// The errors of a call whose deadline passes, in the order of its phases. On a slow machine, the
// deadline may pass before the call reaches the hostile part; the test is then repeated.
const WAY = ['connecting to', 'sending the request', 'waiting for the reply', 'waiting for the rest of the reply'];
function untilThere(name, message, call = () => run(name)) {
  const early = WAY.slice(0, Math.max(0, WAY.findIndex((one) => message.test(one))));
  return until(`${name} gets as far as ${message}`, async () => {
    const reply = await call();
    return !early.some((one) => reply.json?.message.includes(`: ${one}`)) && reply;
  });
}

// Runs all of `work` concurrently with healthy calls, which are made until it ends. Repeats if
// there were fewer than `least` of these.
async function beside(least, work) {
  for (let round = 1; ; round++) {
    const count = await besideOnce(work);
    if (count >= least) return;
    assert.ok(round < 5, `${count} healthy ones`);
  }
}

async function besideOnce(work) {
  let isOver = false;
  let count = 0;
  const others = (async () => {
    while (!isOver) {
      const few = await Promise.all(Array.from({ length: 4 }, () => run('healthy')));
      for (const reply of few) assert.equal(reply.status, 200, reply.text);
      count += few.length;
    }
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await others;
  }
  return count;
}

test('replies that never come, never end or are not replies: each has its own error, and other calls go on', async () => {
  await beside(8, () =>
    Promise.all(
      Object.entries(replies).map(async ([name, [, code, message]]) => {
        assertFailed(name, await untilThere(name, message), code, message);
      }),
    ),
  );
  assert.deepEqual(elsewhere.seen, {}, 'a redirect was followed');
});

test('a peer that cannot prove its identity receives nothing', async () => {
  await beside(4, () =>
    Promise.all(
      Object.entries(strangers).map(async ([name, message]) => {
        const reply = await run(name);
        assertFailed(name, reply, 'execution_failed', message);
        assert.match(reply.json.hint, /nothing was sent/i, name);
      }),
    ),
  );
  assert.deepEqual(heard, {});
  const silent = await run('no_handshake');
  assertFailed('no_handshake', silent, 'timeout', /connect/);
  assert.match(silent.json.hint, /nothing was sent/i);
});

test('a write says whether it may have happened', async () => {
  const unknown = ['hang', 'drip_body', 'garbage', 'cut_body', 'reset'];
  const write = (name) => run(name, 'write', { confirm: true });
  const replied = await Promise.all(unknown.map((name) => untilThere(name, replies[name][2], () => write(name))));
  unknown.forEach((name, i) => {
    assert.equal(replied[i].status, 500, replied[i].text);
    assert.match(replied[i].json.hint, /may or may not|unknown/i, name);
  });
  const unsent = await Promise.all(['expired', 'closes', 'no_handshake'].map(write));
  for (const reply of unsent) assert.match(reply.json.hint, /nothing was sent/i, reply.text);
});
