// Advice can be followed: sluice names routes to clients of the API, and tools to clients that have
// tools. Each route and tool exists. Text from an app or a caller is not changed.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const root = new URL('../../', import.meta.url).pathname;
const contract = JSON.parse(readFileSync(join(root, 'src/api/openapi.json'), 'utf8'));
const paths = Object.entries(contract.paths).flatMap(([path, item]) =>
  Object.keys(item).map((method) => [method.toUpperCase(), new RegExp(`^${path.replaceAll(/\{[^}]*\}/g, '[^/]+').replaceAll('.', '\\.')}$`)]));
const ROUTE = /\b(GET|POST|PUT|PATCH|DELETE) (\/api\/[\w/{}%.~-]*[\w}])/g;
const TOOL = /\b(search_actions|describe_action|run_action|start_flow|get_flow|connect_app)\b/;

// Checks that each route that the text names exists in the API.
function checkRoutes(text, about) {
  for (const [said, method, path] of text.matchAll(ROUTE))
    assert.ok(paths.some(([one, pattern]) => one === method && pattern.test(path)), `${about}: ${said} in ${text}`);
}

let stack, server, many, bare, mcp;
before(async () => {
  stack = await Stack.start();
  many = await stack.account('Many', { apps: ['gmail', 'probe'] });
  bare = await stack.account('Bare', { apps: [] });
  server = await stack.serve();
  mcp = { [many.key]: new Mcp(server.base, many.key), [bare.key]: new Mcp(server.base, bare.key) };
});
after(() => stack?.stopWell(assert));

// sluice's own text, without that of apps and callers.
const said = ({ output, input, display, recommended_next_action, ...rest }) => JSON.stringify(rest);

test('every route in the source’s texts is one of the interface', () => {
  const files = (dir) => readdirSync(dir, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? files(join(dir, one.name)) : join(dir, one.name)));
  let count = 0;
  for (const file of files(join(root, 'src')).filter((one) => one.endsWith('.c'))) {
    const text = readFileSync(file, 'utf8').replaceAll(/(^|\s)\/\*[^]*?\*\//g, '').replaceAll(/"\s*\n\s*"/g, ''); // literals in several parts
    for (const [, literal] of text.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)) {
      const plain = literal.replaceAll(/%\.\*s|%s|\*/g, 'x');
      count += [...plain.matchAll(ROUTE)].length;
      checkRoutes(plain, file);
    }
  }
  assert.ok(count > 10, `${count}`);
});

const CASES = [
  ['integration_not_found', 'many', { integration_id: 'nope', action_id: 'x', input: {} }],
  ['action_not_found', 'many', { integration_id: 'gmail', action_id: 'qqqq', input: {} }],
  ['integration_not_connected', 'bare', { integration_id: 'gmail', action_id: 'list_labels', input: {} }],
  ['validation_error', 'many', { integration_id: 'gmail', action_id: 'get_message', input: { nope: 1 } }],
  ['policy_blocked', 'many', { integration_id: 'probe', action_id: 'send', input: { subject: 'x' } }],
];

for (const [code, who, body] of CASES)
  test(`${code}: routes on REST, tools over MCP`, async () => {
    const { key } = who === 'many' ? many : bare;
    const rest = (await server.call(key, 'POST', '/api/executions', body)).json;
    assert.equal(rest.error_code, code);
    checkRoutes(said(rest), code);
    assert.doesNotMatch(said(rest), TOOL);
    const tool = await mcp[key].call('run_action', body);
    const content = contentOf(tool);
    assert.equal(content.error_code, code);
    for (const text of [said(content), tool.content[0].text]) {
      assert.doesNotMatch(text, /\/api\/|connectionId/);
      if (/ \/api\//.test(said(rest))) assert.match(text, TOOL, 'a route became a tool');
    }
    for (const summary of [rest, content]) {
      const next = summary.recommended_next_action;
      if (!next) continue;
      assert.equal(next.tool, 'sluice.connect_app');
      // over MCP it can be called directly
      const link = await mcp[key].call(next.tool, next.input);
      assert.match(contentOf(link).url, /\/connect\//);
    }
  });

test('if an app needs a connection, REST names the route that makes a link', async () => {
  const { json } = await server.call(bare.key, 'POST', '/api/executions', CASES[2][2]);
  const [, method, path] = [...json.hint.matchAll(ROUTE)][0];
  const link = await server.call(bare.key, method, path, json.recommended_next_action.input);
  assert.equal(link.status, 201, link.text);
});

test('guard errors and protocol errors also name tools', async () => {
  const at = mcp[many.key];
  for (const [name, args] of [
    ['start_flow', {}], ['start_flow', { template: 'nope' }], ['connect_app', { integration_id: 'gmail', connection_id: 'x' }],
    ['connect_app', { integration_id: 'nope' }], ['describe_action', {}], ['describe_action', { template: 'nope' }], ['describe_action', { integration_id: 'gmail', action_id: 'nope' }],
    ['get_flow', { flow_id: 'x' }], ['run_action', {}], ['gmail_get_message', {}], ['search_actions', {}],
  ]) {
    const result = await at.call(name, args);
    const content = contentOf(result), { isError } = result;
    assert.equal(isError, true, name);
    assert.doesNotMatch(said(content), /\/api\/|connectionId|flowTemplate/, name);
  }
  for (const uri of ['sluice://executions/nope', 'sluice://flows/x', 'sluice://x'])
    assert.doesNotMatch((await at.ask('resources/read', { uri })).error.message, /\/api\//);
  assert.doesNotMatch((await at.ask('tools/call', { name: 'nope', arguments: {} })).error.message, /\/api\//);
});

test('text from an app is not changed', async () => {
  const value = { hint: 'GET /api/search', message: 'connectionId' };
  const content = contentOf(await mcp[many.key].call('run_action', { integration_id: 'probe', action_id: 'echo', input: { value } }));
  assert.deepEqual(content.output.value, value);
});
