// Sends the attacks of support/attacks.mjs over a real socket, whole and byte by byte: each is
// refused, its connection is closed, and there is never a second reply.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { SMUGGLED, chunkAttacks, headAttacks } from './support/attacks.mjs';
import { Raw, readReplies } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, key;

before(async () => {
  stack = await Stack.start({ catalog: false, provider: false });
  ({ key } = await stack.account('raw', { apps: [] }));
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

// The server's answer to a request and to any bytes after it, until the connection closes.
async function answersTo(request, isByteByByte) {
  const raw = await Raw.connect({ port: server.port });
  try {
    const bytes = Buffer.from(request, 'latin1');
    if (isByteByByte) await raw.sendByteByByte(bytes);
    else await raw.send(bytes);
    return readReplies(await raw.untilEnd());
  } finally {
    raw.close();
  }
}

async function isRefused(request, status, isByteByByte) {
  const replies = await answersTo(request + SMUGGLED, isByteByByte);
  assert.equal(replies.length, 1, `${replies.length} replies`);
  const [reply] = replies;
  assert.equal(reply.status, status, reply.body);
  assert.equal(reply.headers.connection, 'close');
  assert.equal(reply.headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(typeof JSON.parse(reply.body).error, 'string');
}

for (const isByteByByte of [false, true])
  describe(isByteByByte ? 'byte by byte' : 'whole', () => {
    for (const { name, request, status } of headAttacks)
      test(name, () => isRefused(request, status, isByteByByte));
    for (const { name, body, status } of chunkAttacks)
      test(`chunked: ${name}`, () => {
        // with a valid key, since without one the body is not read
        const head = [
          'POST /api/executions HTTP/1.1',
          'Host: a',
          `Authorization: Bearer ${key}`,
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
        ].join('\r\n');
        return isRefused(`${head}\r\n\r\n${body}`, status, isByteByByte && body.length < 2000);
      });
  });

// After a refused request, or one with "Connection: close", the server reads no further, so later
// bytes get no answer.
test('nothing is read after Connection: close', async () => {
  const replies = await answersTo(`GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n${SMUGGLED}`, false);
  assert.deepEqual(replies.map((reply) => reply.status), [200]);
});

test('a body without a key is dropped as a body, not read as requests', async () => {
  const body = SMUGGLED;
  const raw = await Raw.connect({ port: server.port });
  await raw.send(`POST /api/executions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  const refused = await raw.reply();
  assert.equal(refused.status, 401);
  await raw.send('GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  const rest = readReplies(await raw.untilEnd());
  assert.ok(rest.length <= 1 && rest.every((reply) => reply.status === 200), JSON.stringify(rest));
  raw.close();
});

test('good requests at the edge of the grammar are accepted', async () => {
  for (const request of [
    'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nhost:a\r\nconnection:close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\nConnection: Keep-Alive, Close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: a\r\nX: \t b \t\r\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: a\r\nX:\r\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: a\r\nX: \xe9\r\nConnection: close\r\n\r\n',
    '\r\nGET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    'GET http://a/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
    'GET /healthz?a=b%20c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.0\r\n\r\n',
  ])
    for (const isByteByByte of [false, true]) {
      const replies = await answersTo(request, isByteByByte);
      assert.deepEqual(replies.map((reply) => reply.status), [200], JSON.stringify(request));
    }
});

test('the server has handled no smuggled request', async () => {
  const metrics = await server.metrics();
  assert.ok(!/route="\(none\)"[^\n]*status="404"/.test(metrics), metrics);
  assert.match(metrics, /sluice_http_refused_total\{status="400"\} \d+/);
});
