// The protocol's own conformance suite, each revision over its own wire. What fails is listed with its
// reason in mcp_conformance/REVISION.yml: one more failure fails the test, and so does one that is
// listed and passes. What the suite runs and does not score is printed. The tools that it calls are
// actions of mcp_conformance/catalog where an app could have them, else answers of fixtures.json, which
// a test build gives in the way of all others (mcp_conformance/fixture.c).
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { run } from './support/process.mjs';
import { Stack, credentials } from './support/stack.mjs';

const suite = new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url).pathname;
const path = (name) => new URL(`mcp_conformance/${name}`, import.meta.url).pathname;
let stack, proxy;

// A call whose progress the suite wants to see has it of pages, which only run_action reads.
const PAGES = { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 2 }, max_pages: 4 };

function rename(text, headers) {
  if (!text.includes('"test_tool_with_progress"')) return text;
  const body = JSON.parse(text);
  Object.assign(body.params, { name: 'run_action', arguments: PAGES });
  if (headers['mcp-name']) headers['mcp-name'] = 'run_action';
  return JSON.stringify(body);
}

// Its tool that changes the list of tools: what a changed connection of the account notifies does it.
const CHANGE = '"test_trigger_tool_change"';

// The suite sends no key, so a proxy puts it in.
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

// Of some calls the suite waits half a second for the answer, which a busy machine may not keep: what
// fails is tried again.
const TRIES = 3;

for (const revision of ['2026-07-28', '2025-11-25'])
  test(`revision ${revision}`, async () => {
    const args = [suite, 'server', '--url', proxy.url, '--requirements', revision, '--expected-failures', path(`${revision}.yml`)];
    let end;
    for (let tries = 0; tries < TRIES && end?.code !== 0; tries++) end = await run(process.execPath, args);
    console.log(end.stdout.slice(end.stdout.indexOf('=== SUMMARY ===')).replaceAll(/^/gm, '# '));
    assert.equal(end.code, 0, end.stdout + end.stderr);
  });

// Without a session id the scenario ends with a warning before it sends anything; the protocol leaves it
// to the server whether there is one, and this one makes none. With one of the proxy's it runs.
test('revision 2025-11-25: several streams at a time, in a session', async () => {
  proxy.sessionId = 'of-the-proxy';
  const args = [suite, 'server', '--url', proxy.url, '--spec-version', '2025-11-25', '--scenario', 'server-sse-multiple-streams'];
  const end = await run(process.execPath, [...args, '--verbose']);
  proxy.sessionId = undefined;
  assert.equal(end.code, 0, end.stdout + end.stderr);
  assert.match(end.stdout, /"server-accepts-multiple-post-streams"[^}]*"SUCCESS"/);
});
