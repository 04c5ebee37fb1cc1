// `sluice catalog import openapi` with GitHub's own description: over 1,000 operations, each of
// which is imported or reported. The result is linted and loaded, and three of its actions are
// called with a server that replaces GitHub.
import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { makeFolder, removeFolder, run } from './support/process.mjs';
import { Mcp } from './support/mcp.mjs';
import { Stack, sluiceBin } from './support/stack.mjs';
import { faultsOf } from './support/tool_rules.mjs';

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
const require = createRequire(import.meta.url);
const source = join(dirname(require.resolve('@octokit/openapi/package.json')), 'generated/api.github.com.json');
const ORIGIN = 'https://api.github.com';

let dir, out, document, manifest, report, operations;
before(async () => {
  dir = await makeFolder();
  out = join(dir, 'catalog');
  await mkdir(out);
  document = JSON.parse(await readFile(source, 'utf8'));
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method: method.toUpperCase(), node: item[method] })));
  const overrides = join(dir, 'overrides.json');
  await writeFile(overrides, JSON.stringify({
    integration: { name: 'GitHub', category: 'code', auth: { type: 'bearer', test: { method: 'GET', path: '/user' } } },
    operations: { 'markdown/render': { side_effect_level: 'read' } },
  }));
  const end = await run(sluiceBin, [
    'catalog', 'import', 'openapi', source, '--id', 'gh', '--overrides', overrides, '--output', join(out, 'gh.json'),
  ]);
  assert.equal(end.code, 0, end.stderr);
  assert.equal(end.stdout, '');
  report = end.stderr.trimEnd().split('\n');
  manifest = JSON.parse(await readFile(join(out, 'gh.json'), 'utf8'));
});
after(() => removeFolder(dir));

const label = ({ method, path, node }) => `${method} ${path} (${node.operationId})`;
const resolve = (node) => (node.$ref ? node.$ref.slice(2).split('/').reduce((at, key) => at[key], document) : node);

test('every operation is imported or has a line with the reason', () => {
  assert.ok(operations.length > 1000);
  const skipped = new Map(
    report.filter((line) => line.startsWith('skipped: ')).map((line) => {
      const [, operation, reason] = line.match(/^skipped: (.*? \(.*?\)): (.+)$/);
      return [operation, reason];
    }));
  const actions = new Map(manifest.actions.map((action) => [`${action.request.method} ${shape(action.request.path)}`, action]));
  assert.equal(actions.size, manifest.actions.length);
  for (const one of operations) {
    const action = actions.get(`${one.method} ${shape(one.path)}`);
    assert.ok(Boolean(action) !== skipped.has(label(one)), label(one));
    if (one.node.deprecated) assert.equal(skipped.get(label(one)), 'it is deprecated');
  }
  assert.equal(actions.size + skipped.size, operations.length);
  const [, total, imported, weakened, lost] = report.at(-1).match(/^(\d+) operations: (\d+) imported \((\d+) of them weakened\), (\d+) skipped$/).map(Number);
  assert.deepEqual([total, imported, lost], [operations.length, actions.size, skipped.size]);
  assert.equal(weakened, report.filter((line) => line.startsWith('weakened: ')).length);
});

// Returns the same text for /a/{b} and /a/${input.b}.
function shape(path) {
  return path.replace(/\$?\{[^}]*\}/g, '*');
}

test('parameters and plain bodies are all imported, and names fit', () => {
  const byPlace = new Map(operations.map((one) => [`${one.method} ${shape(one.path)}`, one]));
  const ids = new Set();
  for (const action of manifest.actions) {
    assert.match(action.action_id, /^[a-z][a-z0-9_]*$/);
    assert.ok(`gh_${action.action_id}`.length <= 64, action.action_id);
    assert.ok(!ids.has(action.action_id), action.action_id);
    ids.add(action.action_id);
    const { node, path } = byPlace.get(`${action.request.method} ${shape(action.request.path)}`);
    const parameters = [...(document.paths[path].parameters ?? []), ...(node.parameters ?? [])].map(resolve);
    const query = parameters.filter((p) => p.in === 'query').map((p) => p.name);
    assert.deepEqual(Object.keys(action.request.query ?? {}).sort(), [...new Set(query)].sort(), action.action_id);
    for (const p of parameters.filter((one) => one.in === 'path')) assert.ok(action.input_schema.required.includes(p.name), action.action_id);
    const schema = node.requestBody && action.request.method !== 'GET' && resolve(node.requestBody).content['application/json']?.schema;
    for (const name of Object.keys((schema && !schema.oneOf && !schema.anyOf && schema.properties) || {}))
      assert.ok(JSON.stringify(action.request.body).includes(JSON.stringify(name).slice(1, -1)), `${action.action_id} ${name}`);
  }
});

test('another validator accepts every schema and example', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  for (const action of manifest.actions) {
    const validate = ajv.compile(action.input_schema);
    for (const example of action.examples ?? []) assert.ok(validate(example.input), action.action_id);
    if (action.output_schema) ajv.compile(action.output_schema);
    ajv.removeSchema();
  }
  assert.ok(manifest.actions.filter((action) => action.examples).length > 50);
});

test('the linter accepts the manifest', async () => {
  const end = await run(sluiceBin, ['catalog', 'lint', join(out, 'gh.json')]);
  assert.equal(end.code, 0, end.stdout);
  // The only thing that the document does not define is a member that identifies the reply of a
  // write.
  const vague = manifest.actions.filter((one) => one.side_effect_level !== 'read' && one.response.kind && !one.response.required);
  assert.ok(vague.length < 100, vague.length);
  assert.match(end.stdout, new RegExp(`1 integration, ${manifest.actions.length} actions, ${vague.length} warnings: fine`));
  assert.equal(end.stdout.match(/: warning: .* must be recognizable/g).length, vague.length);
  assert.equal(report.filter((line) => /names no member that its reply always has/.test(line)).length, vague.length);
});

test('the forms of replies come from the document', () => {
  const responseOf = (id) => manifest.actions.find((one) => one.action_id === id).response;
  assert.deepEqual(responseOf('issues_list_for_repo'), { kind: 'array' });
  assert.deepEqual(responseOf('issues_create'), { kind: 'object', required: ['body.id'] });
  assert.deepEqual(responseOf('gists_delete'), { body: 'none' });
  assert.deepEqual(responseOf('actions_cancel_workflow_run'), { body: 'none' });
  assert.deepEqual(responseOf('markdown_render'), { body: 'text' });
});

test('unreadable input gives a clear message', async () => {
  const bad = join(dir, 'bad.yaml');
  const broken = join(dir, 'broken.yaml');
  await writeFile(bad, 'openapi: 3.0.0\n');
  await writeFile(broken, 'openapi: 3.0.0\npaths: [\n');
  for (const [args, sentence] of [
    [['openapi', bad], /the document has no "paths"/],
    [['openapi', broken], /the document: not valid YAML at line 3, column 1: did not find/],
    [['openapi', join(dir, 'none.json')], /cannot open .*none\.json/],
    [['openapi', dir], /is not a regular file/],
    [['wsdl', bad], /"wsdl" cannot be imported; the only known kind is openapi/],
    [['openapi', source, '--id', 'Bad-Id'], /id must match/],
    [['openapi', source, '--output', join(dir, 'no/such/place')], /cannot write/],
  ]) {
    const end = await run(sluiceBin, ['catalog', 'import', ...args]);
    assert.deepEqual([end.code, end.stdout], [1, ''], args.join(' '));
    assert.match(end.stderr, sentence);
  }
});

test('YAML in several files of one folder is one description', async () => {
  const folder = join(dir, 'petstore');
  await mkdir(join(folder, 'paths'), { recursive: true });
  await mkdir(join(folder, 'schemas'));
  const files = {
    'openapi.yaml': `
openapi: 3.0.3
info: { title: Pet Shop, version: 1.10 }
servers: [{ url: https://pets.example.com/v1 }]
paths:
  /pets:
    $ref: paths/pets.yaml
  /pets/{id}:
    get:
      operationId: getPet
      parameters: [{ $ref: "#/components/parameters/Id" }]
      responses: { 200: { content: { application/json: { schema: { $ref: "schemas/pet.json" } } } } }
  /secret:
    post:
      operationId: leak
      requestBody: { $ref: ../outside.yaml#/body }
      responses: { 204: {} }
  /link:
    post:
      operationId: link
      requestBody: { $ref: link.yaml#/body }
      responses: { 204: {} }
components:
  parameters:
    Id: { name: id, in: path, required: true, schema: { type: string } }
    Sort: { name: sort, in: query, schema: { type: string } }
`,
    'paths/pets.yaml': `
post:
  operationId: addPet
  requestBody:
    required: true
    content:
      application/json:
        schema: { $ref: "../schemas/pet.json" }
  responses:
    200: { content: { application/json: { schema: { $ref: "../schemas/pet.json" } } } }
get:
  operationId: listPets
  parameters: [{ $ref: "../openapi.yaml#/components/parameters/Sort" }, { $ref: "../schemas/common.yaml#/Limit" }]
  responses: { 200: { content: { application/json: { schema: { type: array, items: { $ref: "../schemas/pet.json" } } } } } }
`,
    'schemas/pet.json': JSON.stringify({
      type: 'object', required: ['id', 'owner'],
      properties: { id: { type: 'integer' }, owner: { $ref: 'common.yaml#/Owner' }, mother: { $ref: '#' }, food: { $ref: '#/definitions/Food' } },
      definitions: { Food: { enum: ['hay', 'fish'] } },
    }),
    'schemas/common.yaml': 'Owner: { type: object, properties: { name: { type: string } } }\nLimit: { name: limit, in: query, schema: { type: integer } }\n',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  await writeFile(join(dir, 'outside.yaml'), 'body: { content: { application/json: { schema: { type: string } } } }\n');
  await symlink(join(dir, 'outside.yaml'), join(folder, 'link.yaml'));
  const end = await run(sluiceBin, ['catalog', 'import', 'openapi', join(folder, 'openapi.yaml')]);
  assert.equal(end.code, 0, end.stderr);
  const made = JSON.parse(end.stdout);
  assert.deepEqual(made.actions.map(({ action_id }) => action_id).sort(), ['add_pet', 'get_pet', 'list_pets']);
  assert.match(end.stderr, /skipped: POST \/secret \(leak\): the reference to its body does not lead to anything in this document and its folder/);
  assert.match(end.stderr, /note: the file link\.yaml, which a reference names, is not read: it is a link to a file outside the folder/);
  const [add, list] = ['add_pet', 'list_pets'].map((id) => made.actions.find((one) => one.action_id === id));
  const ajv = new Ajv2020({ strict: false });
  const validate = ajv.compile(add.input_schema);
  assert.ok(validate({ id: 1, owner: { name: 'Ada' }, mother: { id: 2, owner: {}, food: 'hay' } }), JSON.stringify(validate.errors));
  for (const bad of [{ id: 1 }, { id: 1, owner: { name: 7 } }, { id: 1, owner: {}, mother: { id: 2 } }, { id: 1, owner: {}, food: 'meat' }])
    assert.ok(!validate(bad), JSON.stringify(bad));
  assert.deepEqual(Object.keys(list.input_schema.properties).sort(), ['limit', 'sort']);
});

test('imported actions run end to end', async () => {
  const seen = [];
  let isPortal = false;
  const standIn = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part) => (body += part));
    request.on('end', () => {
      seen.push({ method: request.method, url: request.url, token: request.headers.authorization, body: body && JSON.parse(body) });
      const status = request.url.includes('/nowhere/') ? 404 : 200;
      response.writeHead(status, { 'content-type': isPortal ? 'text/html' : 'application/json' });
      const reply = status === 404 ? { message: 'Not Found' } : { id: 17, number: 7, login: 'octocat' };
      response.end(isPortal ? '<html>Sign in</html>' : JSON.stringify(status === 200 && request.method !== 'PATCH' ? [reply] : reply));
    });
  });
  await new Promise((listening) => standIn.listen(0, '127.0.0.1', listening));
  const stack = await Stack.start();
  try {
    const url = `http://127.0.0.1:${standIn.address().port}`;
    const options = {
      env: { SLUICE_CATALOG: out },
      args: ['--origin-override', `${ORIGIN}=${url}`, '--allow-host', '127.0.0.1'],
    };
    const account = await stack.account('a', { apps: [] });
    await stack.connect(account.id, 'gh', { token: 't0ken' }, [], options);
    const server = await stack.serve(options);
    const execute = async (action_id, input) => {
      const reply = await server.call(account.key, 'POST', '/api/executions', { integration_id: 'gh', action_id, input, confirm: true });
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.json.status, 'succeeded', reply.text);
      return reply.json;
    };
    const at = { owner: 'octo org', repo: 'hello' };
    const listed = await execute('issues_list_for_repo', { ...at, state: 'open', per_page: 5 });
    assert.equal(listed.output[0].login, 'octocat');
    await execute('issues_update', { ...at, issue_number: 7, title: 'New', milestone: null, labels: ['a'] });
    await execute('issues_remove_label', { ...at, issue_number: 7, name: 'a/b' });
    const calls = seen.filter((call) => call.url !== '/user');
    assert.deepEqual(calls.map(({ method, url: target, body }) => [method, target, body]), [
      ['GET', '/repos/octo%20org/hello/issues?state=open&per_page=5', ''],
      ['PATCH', '/repos/octo%20org/hello/issues/7', { title: 'New', milestone: null, labels: ['a'] }],
      ['DELETE', '/repos/octo%20org/hello/issues/7/labels/a%2Fb', ''],
    ]);

    // The gate checks inputs against the imported schema, so none of these reaches the provider.
    const blocked = await server.execute(account.key, 'gh', 'issues_update', { ...at, issue_number: 'seven', titel: 'x' }, { confirm: true });
    assert.deepEqual([blocked.status, blocked.json.error_code], [409, 'validation_error'], blocked.text);
    assert.match(blocked.json.message, /\/input\/issue_number/);
    const unconfirmed = await server.execute(account.key, 'gh', 'issues_update', { ...at, issue_number: 7 });
    assert.deepEqual([unconfirmed.status, unconfirmed.json.error_code], [409, 'policy_blocked']);
    assert.equal(seen.filter((call) => call.url !== '/user').length, calls.length);

    // If the provider refuses a request, the execution fails with the provider's message.
    const failed = await server.execute(account.key, 'gh', 'issues_list_for_repo', { owner: 'nowhere', repo: 'x' });
    assert.deepEqual([failed.status, failed.json.status, failed.json.error_code], [500, 'failed', 'execution_failed'], failed.text);

    // A login page is not a success for any of these actions.
    isPortal = true;
    for (const [id, input] of [['issues_list_for_repo', at], ['issues_update', { ...at, issue_number: 7 }], ['issues_delete_label', { ...at, name: 'a' }]]) {
      const reply = await server.execute(account.key, 'gh', id, input, { confirm: true });
      assert.deepEqual([reply.status, reply.json.error_code], [500, 'execution_failed'], reply.text);
      assert.match(reply.json.message, /HTTP 200 with a web page/);
    }
    isPortal = false;
    for (const call of seen) assert.equal(call.token, 'Bearer t0ken');

    // Discovery lists the imported actions like any others.
    const detail = await server.call(account.key, 'GET', '/api/actions/gh/issues_update');
    assert.deepEqual(detail.json.input_summary.required, ['owner', 'repo', 'issue_number']);
    assert.equal(detail.json.side_effect_level, 'write');
    const found = await server.call(account.key, 'GET', '/api/search?query=gh+issues+list+for+repo');
    assert.ok(found.json.items.some((one) => one.integration_id === 'gh' && one.action_id === 'issues_list_for_repo'));

    // No tool has a schema that a model's client would reject.
    const tools = {};
    for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
      const mcp = new Mcp(server.base, account.key, `/mcp?tools=gh_${letter}*`);
      for (let cursor; cursor !== null; ) {
        const { result } = await mcp.ask('tools/list', { ...(cursor && { cursor }) });
        for (const tool of result.tools) tools[tool.name] = tool;
        cursor = result.nextCursor ?? null;
      }
    }
    assert.ok(Object.keys(tools).length > 500, `${Object.keys(tools).length}`);
    assert.deepEqual(Object.values(tools).flatMap(faultsOf), []);
  } finally {
    standIn.close();
    await stack.stopWell(assert);
  }
});
