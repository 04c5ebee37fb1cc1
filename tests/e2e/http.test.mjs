// The HTTP server as a client sees it: limits, time-outs, pipelining, Expect, Unix socket, slow
// readers, drain (src/api/README.md "HTTP").
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hold, pause, until } from './support/client.mjs';
import { Raw, readReplies } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

// The servers of this file: `plain` has normal limits, `small` small limits, `hasty` short times.
let stack, plain, small, hasty, account;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('http', { apps: ['gmail', 'probe'] });
  plain = await stack.serve();
  small = await stack.serve({ env: { SLUICE_HEAD_BYTES: '4k', SLUICE_BODY_BYTES: '64k', SLUICE_CONNECTIONS: '20' } });
  hasty = await stack.serve({ env: { SLUICE_HEAD_TIMEOUT: '300ms', SLUICE_BODY_TIMEOUT: '400ms', SLUICE_IDLE_TIMEOUT: '500ms' } });
});
after(() => stack?.stopWell(assert));

const GET = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n';
const connect = (server) => Raw.connect({ port: server.port });

function post(body, ...fields) {
  return [
    'POST /api/executions HTTP/1.1',
    'Host: a',
    `Authorization: Bearer ${account.key}`,
    'Content-Type: application/json',
    ...fields,
    '',
    body,
  ].join('\r\n');
}

const labels = JSON.stringify({ integration_id: 'gmail', action_id: 'list_labels', input: {} });
const echo = (value) => JSON.stringify({ integration_id: 'probe', action_id: 'echo', input: { value } });

// Sends one request on a separate connection, which the server then closes.
async function lastReply(server, request) {
  const raw = await connect(server);
  try {
    await raw.send(request);
    const replies = readReplies(await raw.untilEnd());
    assert.equal(replies.length, 1);
    return replies[0];
  } finally {
    raw.close();
  }
}

// Returns the result of the first successful attempt on the hasty server, which may close a
// connection before a slow machine has sent anything.
const onHasty = (fn) => until('something is sent in time', () => fn().catch(() => null));

function assertRefused(reply, status) {
  assert.equal(reply.status, status, reply.body);
  assert.equal(reply.headers.connection, 'close');
  assert.equal(typeof JSON.parse(reply.body).error, 'string');
}

test('a head that is too large: 431', async () => {
  assertRefused(await lastReply(small, `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(5000)}\r\n\r\n`), 431);
  // it need not be complete
  assertRefused(await lastReply(small, `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(9000)}`), 431);
  const many = 'X: y\r\n'.repeat(120);
  assertRefused(await lastReply(plain, `GET /healthz HTTP/1.1\r\nHost: a\r\n${many}\r\n`), 431);
});

test('a target that is too long: 414', async () => {
  assertRefused(await lastReply(plain, `GET /${'x'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n`), 414);
  const fits = await lastReply(plain, `GET /healthz?${'x'.repeat(8000)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
  assert.equal(fits.status, 200);
});

test('a body that is too large: 413, announced or not', async () => {
  assertRefused(await lastReply(small, post('', 'Content-Length: 70000')), 413);
  assertRefused(await lastReply(small, post('', 'Content-Length: 9000000000000000000')), 413);
  const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
  assertRefused(await lastReply(small, post(chunk.repeat(5), 'Transfer-Encoding: chunked')), 413);
  assertRefused(await lastReply(small, post('fffffff\r\n', 'Transfer-Encoding: chunked')), 413);
});

test('a head or a body that does not arrive: 408; an idle connection: closed without a reply', async () => {
  assertRefused(await onHasty(() => lastReply(hasty, 'GET /healthz HTTP/1.1\r\nHost:')), 408);
  assertRefused(await onHasty(() => lastReply(hasty, post('{', 'Content-Length: 100'))), 408);
  const fresh = await connect(hasty);
  assert.equal(await fresh.untilEnd(), '');
  fresh.close();
  const [used, reply] = await onHasty(async () => {
    const raw = await connect(hasty);
    await raw.send(GET);
    return [raw, await raw.reply()];
  });
  assert.equal(reply.status, 200);
  assert.equal(await used.untilEnd(), '');
  used.close();
});

test('a head that drips is cut at the same time', async () => {
  const [reply] = await onHasty(async () => {
    const raw = await connect(hasty);
    const drip = async () => {
      for (const byte of `GET /healthz HTTP/1.1\r\nX: ${'y'.repeat(1000)}`) {
        if (raw.hasEnded) return;
        await raw.send(byte);
        await pause(20);
      }
    };
    const [, text] = await Promise.all([drip(), raw.untilEnd()]);
    raw.close();
    return text !== '' && readReplies(text);
  });
  assertRefused(reply, 408);
});

test('one connection too many: 503 with Retry-After, then it is closed', async () => {
  await until('the others are closed', async () => {
    const reply = await fetch(`${small.base}/metrics`, { headers: { connection: 'close' } });
    return /^sluice_http_connections [1-5]$/m.test(await reply.text());
  });
  const all = await Promise.all(Array.from({ length: 20 }, () => connect(small)));
  for (const raw of all) raw.send('GET /healthz HTTP/1.1\r\n');
  const over = await connect(small);
  const [reply] = readReplies(await over.untilEnd());
  assertRefused(reply, 503);
  assert.ok(Number(reply.headers['retry-after']) > 0, JSON.stringify(reply.headers));
  for (const raw of [...all, over]) raw.close();
  await until('there is room again', async () => {
    const again = await fetch(`${small.base}/healthz`, { headers: { connection: 'close' } });
    return again.status === 200;
  });
});

test('Expect: 100-continue', async () => {
  const raw = await connect(plain);
  await raw.send(post('', `Content-Length: ${labels.length}`, 'Expect: 100-continue'));
  const go = await raw.reply();
  assert.equal(go.status, 100);
  await raw.send(labels);
  const done = await raw.reply();
  assert.equal(done.status, 200, done.body);
  // without a valid key the server does not need the body, so it sends the final status directly
  await raw.send('POST /api/executions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n');
  assert.equal((await raw.reply()).status, 401);
  raw.close();
  assertRefused(await lastReply(plain, post('', `Content-Length: 4`, 'Expect: a-miracle')), 417);
  const tooLarge = await lastReply(small, post('', 'Content-Length: 70000', 'Expect: 100-continue'));
  assertRefused(tooLarge, 413);
});

test('pipelined requests are answered in their order', async () => {
  const raw = await connect(plain);
  const wait = JSON.stringify({ integration_id: 'probe', action_id: 'wait', input: { ms: 150 } });
  const id = (n) => `X-Request-Id: pipe-${n}`;
  await raw.send(
    post(wait, `Content-Length: ${wait.length}`, id(0)) +
      `GET /healthz HTTP/1.1\r\nHost: a\r\n${id(1)}\r\n\r\n` +
      post(`${labels.length.toString(16)}\r\n${labels}\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked', id(2)) +
      `GET /nothing HTTP/1.1\r\nHost: a\r\n${id(3)}\r\n\r\n` +
      `GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${id(4)}\r\n\r\n` +
      GET,
  );
  const replies = readReplies(await raw.untilEnd());
  assert.deepEqual(replies.map((reply) => reply.status), [200, 200, 200, 404, 200]);
  assert.deepEqual(replies.map((reply) => reply.headers['x-request-id']), [0, 1, 2, 3, 4].map((n) => `pipe-${n}`));
  assert.equal(replies[4].headers.connection, 'close');
  raw.close();
});

test('a chunked body is read correctly, however it is cut', async () => {
  const raw = await connect(plain);
  const value = 'ä€😀'.repeat(50);
  const bytes = Buffer.from(echo(value));
  let chunks = '';
  for (let i = 0; i < bytes.length; i += 7) {
    const part = bytes.subarray(i, i + 7);
    chunks += `${part.length.toString(16)};name="value"\r\n${part.toString('latin1')}\r\n`;
  }
  await raw.send(Buffer.from(post(`${chunks}0\r\nX-Trailer: y\r\n\r\n`, 'Transfer-Encoding: chunked'), 'latin1'));
  const reply = await raw.reply();
  assert.equal(reply.status, 200, reply.body);
  assert.equal(JSON.parse(Buffer.from(reply.body, 'latin1').toString()).output.value, value);
  await raw.send(GET);
  assert.equal((await raw.reply()).status, 200);
  raw.close();
});

test('HTTP/1.0 and keep-alive', async () => {
  const closed = await lastReply(plain, 'GET /healthz HTTP/1.0\r\n\r\n');
  assert.equal(closed.status, 200);
  const raw = await connect(plain);
  for (let i = 0; i < 3; i++) {
    await raw.send('GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n');
    const reply = await raw.reply();
    assert.equal(reply.status, 200);
    assert.match(reply.headers.connection ?? '', /keep-alive/i);
  }
  for (let i = 0; i < 3; i++) {
    await raw.send(GET);
    assert.equal((await raw.reply()).status, 200);
  }
  raw.close();
});

test('HEAD returns the head of GET and no body', async () => {
  const raw = await connect(plain);
  await raw.send('HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n' + 'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  const text = await raw.untilEnd();
  const end = text.indexOf('\r\n\r\n') + 4;
  const status = Number(text.slice(9, 12));
  assert.ok([200, 405].includes(status), text);
  if (status === 200) assert.ok(text.slice(end).startsWith('HTTP/1.1 200'), text);
  raw.close();
});

// FIN may mean that the client has disconnected, so a read is cancelled. A write is made, and its
// reply is sent in case the client still reads.
test('a half-closed client gets the reply to its write', async () => {
  const raw = await connect(plain);
  const body = JSON.stringify({ integration_id: 'probe', action_id: 'send', confirm: true, input: { subject: 'half-closed' } });
  const wait = post(body, `Content-Length: ${body.length}`);
  const held = await hold(stack.provider, { method: 'POST' }, { count: 1 });
  await raw.send(wait);
  await until('it is under way', async () => /^sluice_executions_active 1$/m.test(await plain.metrics()));
  raw.socket.end();
  await held.letGo();
  const replies = readReplies(await raw.untilEnd());
  assert.deepEqual(replies.map((reply) => reply.status), [200]);
  assert.equal((await stack.provider.ledger()).filter((write) => write.marker === 'half-closed').length, 1);
  raw.close();
});

test('clients that disconnect in the middle leave no state', async () => {
  const wait = JSON.stringify({ integration_id: 'probe', action_id: 'wait', input: { ms: 50 } });
  const requests = [
    'GET /heal',
    post('{"integ', 'Content-Length: 500'),
    post(wait, `Content-Length: ${wait.length}`),
    post(labels, `Content-Length: ${labels.length}`),
    post('5\r\n{"in', 'Transfer-Encoding: chunked'),
  ];
  for (let round = 0; round < 20; round++) {
    const raw = await connect(plain);
    await raw.send(requests[round % requests.length]);
    if (round % 2 === 0) raw.socket.resetAndDestroy();
    else raw.close();
  }
  await until('the executions have ended', async () => /^sluice_executions_active 0$/m.test(await plain.metrics()));
  const reply = await plain.execute(account.key, 'gmail', 'list_labels', {});
  assert.equal(reply.status, 200);
});

test('the server listens on a Unix socket', async () => {
  const path = join(stack.dir, 'api.sock');
  const server = await stack.serve({ args: ['--listen', '127.0.0.1:0', '--listen', `unix:${path}`] });
  const raw = await Raw.connect({ path, host: undefined });
  await raw.send(post(labels, `Content-Length: ${labels.length}`));
  const reply = await raw.reply();
  assert.equal(reply.status, 200, reply.body);
  raw.close();
  assert.equal((await fetch(`${server.base}/healthz`)).status, 200);
  const end = await server.stop();
  assert.deepEqual([end.code, end.signal], [0, null], server.log);
  await assert.rejects(stat(path), { code: 'ENOENT' });
});

// A client that sends requests without reading replies delays only itself, and uses little of the
// server's memory.
test('a slow reader', async () => {
  const raw = await connect(plain);
  raw.socket.pause();
  const body = echo('x'.repeat(100_000));
  const request = post(body, `Content-Length: ${body.length}`);
  const COUNT = 300;
  let sent = 0;
  const sending = (async () => {
    for (; sent < COUNT; sent++) await raw.send(request);
  })();
  // 30 MB of requests: the server stops reading them long before it has answered them all
  await until('the server stops reading', async () => {
    const count = sent;
    const reply = await plain.execute(account.key, 'gmail', 'list_labels', {});
    assert.equal(reply.status, 200);
    await pause(200);
    return count > 5 && sent === count;
  });
  assert.ok(sent < COUNT, `${sent} requests were read from a client that does not read`);
  raw.socket.resume();
  await sending;
  for (let i = 0; i < COUNT; i++) {
    const reply = await raw.reply();
    assert.equal(reply.status, 200, reply.body.slice(0, 300));
  }
  raw.close();
});

test('SIGTERM drains: running requests are answered, no connection is reset, exit 0', async () => {
  const server = await stack.serve();
  const wait = JSON.stringify({ integration_id: 'probe', action_id: 'wait', input: { ms: 1 } });
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const request = post(wait, `Content-Length: ${wait.length}`);
  const busy = await Promise.all(Array.from({ length: 20 }, () => connect(server)));
  const idle = await Promise.all(Array.from({ length: 20 }, () => connect(server)));
  for (const raw of idle) {
    await raw.send(GET);
    assert.equal((await raw.reply()).status, 200);
  }
  for (const raw of busy) await raw.send(request);
  await until('all are under way', async () => /^sluice_executions_active 20$/m.test(await server.metrics()));
  // a request that has arrived only in part also counts as under way
  const partial = await connect(server);
  await partial.send(post(labels.slice(0, 10), `Content-Length: ${labels.length}`));
  const halfHead = await connect(server);
  await halfHead.send(GET.slice(0, 20));
  const first = await connect(server);
  await until('it has been accepted', async () => /^sluice_http_connections 4[3-9]$/m.test(await server.metrics()));

  server.process.kill('SIGTERM');
  await until('it drains', () => /draining/.test(server.log));
  // sent together: a draining server waits two seconds for requests that have not begun
  await Promise.all([first.send(GET), halfHead.send(GET.slice(20)), partial.send(labels.slice(10))]);
  for (const raw of idle) assert.equal(await raw.untilEnd(), '');
  await assert.rejects(connect(server), { code: 'ECONNREFUSED' });
  await held.letGo();
  for (const raw of [...busy, partial, halfHead, first]) {
    const replies = readReplies(await raw.untilEnd());
    assert.deepEqual(replies.map((reply) => reply.status), [200], replies[0]?.body);
    assert.equal(replies[0].headers.connection, 'close');
  }
  for (const raw of [...busy, ...idle, partial, halfHead, first]) raw.close();
  const end = await server.process.gone;
  assert.deepEqual([end.code, end.signal], [0, null], server.log);
});

test('SIGTERM under steady load: every request that was sent is answered', async () => {
  const server = await stack.serve();
  let answered = 0;
  const client = async () => {
    const raw = await connect(server);
    for (;;) {
      await raw.send(post(labels, `Content-Length: ${labels.length}`));
      const reply = await raw.reply();
      assert.equal(reply.status, 200, reply.body);
      answered++;
      if (reply.headers.connection === 'close') {
        assert.equal(await raw.untilEnd(), '');
        return raw.close();
      }
    }
  };
  const clients = Array.from({ length: 16 }, client);
  await until('it is warm', () => answered > 200);
  server.process.kill('SIGTERM');
  // a client may find its connection closed (FIN) between two requests, but never reset
  for (const result of await Promise.allSettled(clients))
    if (result.status === 'rejected') assert.match(result.reason.message, /closed; got ""/);
  const end = await server.process.gone;
  assert.deepEqual([end.code, end.signal], [0, null], server.log);
});
