// The protocol's own conformance suite, each revision over its own transport.
// mcp_conformance/REVISION.yml lists the expected failures and their reasons. A failure that is not
// listed fails the test, and so does a listed scenario that passes. Scenarios that the suite runs
// but does not score are printed. The tools that the suite calls are actions of
// mcp_conformance/catalog if an app could have them. For the others, a test build sends an answer
// from fixtures.json like any other answer (mcp_conformance/fixture.c).
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { run } from './support/process.mjs';
import { Stack, credentials } from './support/stack.mjs';

const suite = new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url).pathname;
const path = (name) => new URL(`mcp_conformance/${name}`, import.meta.url).pathname;
let stack, proxy;

// The suite checks the progress of this call, which reports its pages. Only run_action reads pages.
const PAGES = { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 2 }, max_pages: 4 };

function rename(text, headers) {
  if (!text.includes('"test_tool_with_progress"')) return text;
  const body = JSON.parse(text);
  Object.assign(body.params, { name: 'run_action', arguments: PAGES });
  if (headers['mcp-name']) headers['mcp-name'] = 'run_action';
  return JSON.stringify(body);
}

// The suite calls a tool of its own that changes the list of tools. Here the notification of a
// changed connection does that.
const CHANGE = '"test_trigger_tool_change"';

// The suite sends no key, so a proxy adds it.
before(async () => {
  stack = await Stack.start();
  const { id, key } = await stack.account('Acme', { apps: ['gmail'] });
  const env = { SLUICE_CATALOG: path('catalog'), SLUICE_MCP_FIXTURES: path('fixtures.json') };
  await stack.connect(id, 'test', credentials.probe, [], { env });
  let base;
  proxy = http.createServer(async (request, reply) => {
    const headers = { ...request.headers, authorization: `Bearer ${key}` };
    const text = rename(Buffer.concat(await request.toArray()).toString(), headers);
    if (text.includes(CHANGE)) await stack.cluster.sql(`notify sluice_change, '${id}'`);
    delete headers['transfer-encoding'];
    headers['content-length'] = Buffer.byteLength(text);
    const onward = http.request(base + request.url, { method: request.method, headers, agent: false }, (answer) => {
      if (proxy.sessionId) answer.headers['mcp-session-id'] = proxy.sessionId;
      reply.writeHead(answer.statusCode, answer.headers);
      answer.pipe(reply);
    });
    onward.on('error', () => reply.destroy());
    reply.on('close', () => onward.destroy());
    onward.end(text);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const own = `http://127.0.0.1:${proxy.address().port}`;
  const server = await stack.serve({ args: ['--mcp-origin', own], env });
  base = server.base;
  proxy.url = `${own}/mcp`;
});
after(async () => {
  proxy?.closeAllConnections();
  await new Promise((resolve) => (proxy ? proxy.close(resolve) : resolve()));
  await stack?.stopWell(assert);
});

// For some calls, the suite waits half a second for the answer. A busy machine may miss that, so
// failures are retried.
const TRIES = 3;

for (const revision of ['2026-07-28', '2025-11-25'])
  test(`revision ${revision}`, async () => {
    const args = [suite, 'server', '--url', proxy.url, '--requirements', revision, '--expected-failures', path(`${revision}.yml`)];
    let end;
    for (let tries = 0; tries < TRIES && end?.code !== 0; tries++) end = await run(process.execPath, args);
    console.log(end.stdout.slice(end.stdout.indexOf('=== SUMMARY ===')).replaceAll(/^/gm, '# '));
    assert.equal(end.code, 0, end.stdout + end.stderr);
  });

// Without a session id, the scenario ends with a warning before it sends anything. The protocol
// makes sessions optional, and this server has none. The proxy adds a session id, so the scenario
// runs.
test('revision 2025-11-25: several concurrent streams in a session', async () => {
  proxy.sessionId = 'of-the-proxy';
  const args = [suite, 'server', '--url', proxy.url, '--spec-version', '2025-11-25', '--scenario', 'server-sse-multiple-streams'];
  const end = await run(process.execPath, [...args, '--verbose']);
  proxy.sessionId = undefined;
  assert.equal(end.code, 0, end.stdout + end.stderr);
  assert.match(end.stdout, /"server-accepts-multiple-post-streams"[^}]*"SUCCESS"/);
});
