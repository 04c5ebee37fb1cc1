// Behind nginx with kept connections to sluice, as in contrib/deploy: requests work, and for every
// payload both agree where a request ends.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { call, until } from './support/client.mjs';
import { SMUGGLED, chunkAttacks, headAttacks } from './support/attacks.mjs';
import { startNginx } from './support/nginx.mjs';
import { Raw } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, nginx, account, base;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('proxy', { apps: ['gmail', 'probe'] });
  // the log has every request, so it would also have a smuggled one
  server = await stack.serve({ env: { SLUICE_LOG_LEVEL: 'debug' } });
  nginx = await startNginx(
    stack.dir,
    (port) => `
  upstream sluice { server 127.0.0.1:${server.port}; keepalive 64; }
  server {
    listen 127.0.0.1:${port};
    ignore_invalid_headers off;
    underscores_in_headers on;
    location / {
      proxy_pass http://sluice;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Request-Id $request_id;
      proxy_read_timeout 60s;
    }
    location /streamed/ {
      proxy_pass http://sluice/;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
    }
  }`,
  );
  base = `http://127.0.0.1:${nginx.port}`;
});
after(async () => {
  await nginx?.stop();
  await stack?.stopWell(assert);
});

const execute = (action_id, input, more = {}) =>
  call(base, account.key, 'POST', '/api/executions', { integration_id: 'probe', action_id, input, ...more });

test('requests work, over kept connections', async () => {
  for (let round = 0; round < 10; round++) {
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => execute('echo', { value: `${round}.${i}` })));
    replies.forEach((reply, i) => {
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.json.output.value, `${round}.${i}`);
      assert.match(reply.headers.get('x-request-id'), /^[0-9a-f]{32}$/);
    });
  }
  const connections = Number(/^sluice_http_connections (\d+)/m.exec(await server.metrics())[1]);
  assert.ok(connections <= 66, `${connections} connections for 200 requests`);
});

test('large bodies in both directions, buffered and streamed', async () => {
  const value = 'ä'.repeat(400_000);
  for (const path of ['/api/executions', '/streamed/api/executions']) {
    const reply = await call(base, account.key, 'POST', path, {
      integration_id: 'probe',
      action_id: 'echo',
      input: { value },
    });
    assert.equal(reply.status, 200, reply.text.slice(0, 500));
    assert.equal(reply.json.output.value, value);
  }
});

// nginx may refuse a payload, or forward something valid. nginx must get one answer for each
// request, and no bytes after a request may have become another request.
test('attacks on the head through nginx', async () => {
  for (const { name, request } of headAttacks) await attack(name, request);
});

test('attacks on chunked bodies through nginx', async () => {
  for (const { name, body } of chunkAttacks)
    for (const path of ['/api/executions', '/streamed/api/executions'])
      await attack(
        name,
        `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${account.key}\r\n` +
          `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`,
      );
});

async function attack(name, request) {
  const raw = await Raw.connect({ port: nginx.port });
  raw.socket.end(Buffer.from(request, 'latin1'));
  await raw.untilEnd().catch(() => {});
  raw.close();
  // the next requests over the same kept connections get their own answers
  const replies = await Promise.all([1, 2, 3].map((n) => execute('echo', { value: `${name} ${n}` })));
  replies.forEach((reply, i) => {
    assert.equal(reply.status, 200, `${name}: ${reply.text}`);
    assert.equal(reply.json.output.value, `${name} ${i + 1}`);
  });
}

// The classic attack: lengths that disagree, with a whole request inside the body.
test('requests hidden in bodies stay there', async () => {
  const hidden = SMUGGLED;
  const head = ['POST /streamed/api/executions HTTP/1.1', 'Host: a', `Authorization: Bearer ${account.key}`];
  const cases = {
    'CL.TE': [...head, `Content-Length: ${hidden.length + 5}`, 'Transfer-Encoding: chunked', '', `0\r\n\r\n${hidden}`],
    'TE.CL': [
      ...head,
      'Content-Length: 4',
      'Transfer-Encoding: chunked',
      '',
      `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`,
    ],
    'TE.TE': [...head, 'Transfer-Encoding: chunked', 'Transfer-Encoding: x', '', `0\r\n\r\n${hidden}`],
    'CL in a body without a key': [
      'POST /streamed/api/executions HTTP/1.1',
      'Host: a',
      `Content-Length: ${hidden.length}`,
      '',
      hidden,
    ],
    'a GET with a body': ['GET /streamed/healthz HTTP/1.1', 'Host: a', `Content-Length: ${hidden.length}`, '', hidden],
  };
  for (const [name, lines] of Object.entries(cases)) await attack(name, lines.join('\r\n'));
});

test('the server has handled only the requests that nginx logged', async () => {
  assert.ok(!server.log.includes('/smuggled'), 'a smuggled request was served');
  const access = await readFile(join(nginx.root, 'access.log'), 'utf8');
  assert.ok(access.includes('POST /api/executions'));
  await until('it is in the log', () => server.log.includes('"path":"/api/executions"'));
});
