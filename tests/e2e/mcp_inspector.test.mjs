// The inspector's command line, in both eras: it lists the tools and calls them, with its own
// implementation of the protocol, of schemas and of results. Packages that only its other
// interfaces need are not installed (inspector/package.json).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inside, contentOf } from './support/mcp.mjs';
import { run } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const inspector = new URL('inspector/node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js', import.meta.url).pathname;
let stack, server, account;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['probe'] });
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

// The inspector's output and exit status: 5 for a result with isError.
async function inspect(era, method, args = [], key = account.key) {
  const line = ['--server-url', `${server.base}/mcp?tools=probe`, '--transport', 'http', '--protocol-era', era, '--method', method, '--format', 'json', '--quiet', '--connect-timeout', '0'];
  const end = await run(process.execPath, [inspector, ...line, '--header', `Authorization: Bearer ${key}`, ...args], {
    env: { HOME: stack.dir, MCP_CATALOG_PATH: `${stack.dir}/mcp.json` },
  });
  return { ...end, json: end.stdout === '' ? undefined : JSON.parse(end.stdout).result };
}
const call = (era, name, args) => inspect(era, 'tools/call', ['--tool-name', name, '--tool-args-json', JSON.stringify(args)]);

for (const era of ['legacy', 'modern'])
  test(`the inspector lists and calls, ${era}`, async () => {
    const [listed, label, blocked] = await Promise.all([
      inspect(era, 'tools/list', ['--strict']),
      call(era, 'probe_read_label', { id: 'INBOX' }),
      call(era, 'run_action', { integration_id: 'probe', action_id: 'send', input: { subject: 'x' } }),
    ]);
    assert.equal(listed.code, 0, listed.stderr); // 6 if a client could refuse a schema
    assert.ok(listed.json.tools.some((tool) => tool.name === 'probe_send'));
    assert.deepEqual([label.code, label.stderr], [0, '']);
    assert.equal(inside(label.json).json.output.id, 'INBOX');
    assert.equal(label.json.structuredContent, undefined);
    assert.deepEqual([blocked.code, contentOf(blocked.json).error_code], [5, 'policy_blocked'], blocked.stderr);
  });
