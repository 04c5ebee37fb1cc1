// Browser pages at /mcp: every reply names an allowed origin, whatever the reply is and wherever in
// the code it is made. A browser's preflight request needs no key. A page in Chromium calls a tool.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Browser } from './support/browser.mjs';
import { MODERN, Mcp, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, account, page, own;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['probe'] });
  page = createServer((request, reply) => reply.writeHead(200, { 'content-type': 'text/html' }).end('<title>chat</title>'));
  await new Promise((resolve) => page.listen(0, '127.0.0.1', resolve));
  own = `http://127.0.0.1:${page.address().port}`;
  server = await stack.serve({ args: ['--mcp-origin', own, '--mcp-origin', 'https://chat.example', '--body-bytes', '100000'] });
});
after(async () => {
  page?.closeAllConnections();
  page?.close();
  await stack?.stopWell(assert);
});

const ask = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type,mcp-method,x-other' };
const fields = ({ headers }) => [headers.get('access-control-allow-origin'), headers.get('vary')];
const send = async (path, method, headers, body) => {
  const reply = await fetch(server.base + path, { method, headers, body });
  await reply.arrayBuffer();
  return reply;
};

test('a preflight request needs no key', async () => {
  for (const path of ['/mcp', '/mcp/', '/mcp?tools=probe'])
    for (const origin of ['https://chat.example', own, server.base]) {
      const reply = await send(path, 'OPTIONS', { origin, ...ask });
      assert.deepEqual([reply.status, ...fields(reply)], [204, origin, 'Origin'], path);
      assert.equal(reply.headers.get('access-control-allow-methods'), 'POST');
      assert.equal(reply.headers.get('access-control-allow-headers'), ask['access-control-request-headers']);
    }
  // other origins, other paths, and requests that are not a preflight
  for (const [path, headers] of [['/mcp', { origin: 'https://evil.example', ...ask }], ['/mcp', ask], ['/api/executions', { origin: own, ...ask }], ['/healthz', { origin: own, ...ask }]]) {
    const reply = await send(path, 'OPTIONS', headers);
    assert.ok(reply.status >= 400, `${path} ${reply.status}`);
    assert.deepEqual(fields(reply), [null, null], path);
  }
  const plain = await send('/mcp', 'OPTIONS', { origin: own, authorization: `Bearer ${account.key}` });
  assert.deepEqual([plain.status, ...fields(plain)], [405, own, 'Origin']);
});

test('every reply names an allowed origin, and never another', async () => {
  const key = { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' };
  const modern = { 'mcp-protocol-version': MODERN, accept: 'application/json, text/event-stream' };
  const body = (method, params) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const cases = [
    [200, '/mcp', 'POST', key, body('ping')],
    [200, '/mcp/', 'POST', key, body('ping')],
    [202, '/mcp', 'POST', key, JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })],
    [400, '/mcp', 'POST', key, '{'],
    [400, '/mcp', 'POST', { ...key, ...modern }, body('tools/list')],
    [401, '/mcp', 'POST', {}, body('ping')],
    [404, '/mcp/x', 'POST', key, body('ping')],
    [404, '/mcp//', 'POST', key, body('ping')],
    [405, '/mcp', 'GET', key],
    [413, '/mcp', 'POST', key, `"${'x'.repeat(200_000)}"`],
    [415, '/mcp', 'POST', { ...key, 'content-type': 'text/plain' }, body('ping')],
  ];
  for (const [status, path, method, headers, text] of cases) {
    const reply = await send(path, method, { ...headers, origin: own }, text);
    assert.deepEqual([reply.status, ...fields(reply)], [status, own, 'Origin'], `${method} ${path}: ${status}`);
    const other = await send(path, method, { ...headers, origin: 'https://evil.example' }, text);
    assert.ok(other.status >= 400);
    assert.deepEqual(fields(other), [null, null]);
  }
  const none = await send('/mcp', 'POST', key, body('ping'));
  assert.deepEqual([none.status, ...fields(none)], [200, null, null]);
  // a stream names it, too
  const mcp = new Mcp(server.base, account.key, '/mcp/');
  const listed = await mcp.ask('tools/call', { name: 'search_actions', arguments: { query: 'label' } }, { headers: { origin: own } });
  assert.equal(listed.headers.get('access-control-allow-origin'), own);
  const stream = await fetch(`${server.base}/mcp`, {
    method: 'POST',
    headers: { ...key, ...modern, origin: own, 'mcp-method': 'subscriptions/listen' },
    body: body('subscriptions/listen', {
      notifications: { toolsListChanged: true },
      _meta: { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} },
    }),
  });
  assert.match(stream.headers.get('content-type'), /event-stream/);
  assert.deepEqual(fields(stream), [own, 'Origin']);
  await stream.body.cancel();
});

test('a page in a browser calls a tool', async () => {
  const browser = await Browser.start();
  try {
    const visit = await browser.visit(own);
    await visit.goto('/');
    const call = (key) =>
      visit.page.evaluate(
        async ([url, bearer]) => {
          const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'probe_read_label', arguments: { id: 'INBOX' } } };
          const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', 'mcp-protocol-version': '2025-11-25' };
          const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(message) });
          return [reply.status, await reply.text(), reply.headers.get('www-authenticate')];
        },
        [`${server.base}/mcp/`, key],
      );
    const [status, text] = await call(account.key);
    assert.equal(status, 200);
    assert.equal(contentOf(JSON.parse(text).result).output.id, 'INBOX');
    assert.deepEqual(await call('sk_nope'), [401, '{"error":"Missing or invalid API key"}', 'Bearer']);
    await visit.context.close();
  } finally {
    await browser.stop();
  }
});
