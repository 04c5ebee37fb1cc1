// Calls imported actions: every accepted input reaches the vendor as the document says, and nothing
// is refused that the document allows.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Mcp } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';
import { faultsOf } from './support/tool_rules.mjs';

const json = (schema, type = 'application/json') => ({ required: true, content: { [type]: { schema } } });
const query = (name, schema, more = {}) => ({ name, in: 'query', schema, ...more });
const object = (properties, more = {}) => ({ type: 'object', properties, ...more });
const text = { type: 'string' };
const get = (operationId, ...parameters) => ({ get: { operationId, parameters, responses: { 200: { description: '' } } } });
const post = (operationId, requestBody, responses = { 200: { description: '' } }) => ({ post: { operationId, requestBody, responses } });

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Harbor', version: '1' },
  servers: [{ url: 'https://{region}.harbor.example/{base}', variables: { region: { default: 'eu', enum: ['eu', 'us'] }, base: { default: 'v2' } } }],
  security: [{ key: [] }],
  paths: {
    '/ships': get(
      'listShips',
      query('filter', object({ range: object({ gte: text, lte: text }), ids: { type: 'array', items: text }, flag: text }), { style: 'deepObject', explode: true }),
      query('tags', { type: 'array', items: text }),
      query('page', object({ size: { type: 'integer' } })),
    ),
    '/ships/new ones/:search/café': get('searchShips'),
    '/open': post('openBody', json(object({ name: text }, { required: ['name'] }))),
    '/closed': post('closedBody', json(object({ name: text }, { additionalProperties: false }))),
    '/form': post('openForm', json(object({ name: text }), 'application/x-www-form-urlencoded')),
    '/parts': post('openParts', json(object({ name: text }), 'multipart/form-data')),
    '/cargo': post('addCargo', json({ oneOf: ['Crate', 'Tank', 'Vat'].map((name) => ({ $ref: `#/components/schemas/${name}` })), discriminator: { propertyName: 'kind', mapping: { crate: '#/components/schemas/Crate', tank: 'Tank' } } })),
    '/api': post('jsonApi', json(object({ data: object({}) }), 'application/vnd.api+json'), { 200: { description: '', content: { 'application/vnd.api+json': { schema: object({ ok: { type: 'boolean' } }) } } } }),
    '/list': post('addList', json(object({ any: { type: 'array' }, none: { type: 'array', items: {} } }))),
  },
  components: {
    securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
    schemas: {
      Crate: object({ kind: text, weight: { type: 'integer' } }),
      Tank: object({ kind: text, weight: { type: 'integer' }, liquid: text }),
      Vat: object({ kind: text, weight: { type: 'integer' } }),
    },
  },
};

let stack, standIn, account, server, seen, manifest;
before(async () => {
  stack = await Stack.start();
  seen = [];
  standIn = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    seen.push({ method: request.method, url: request.url, type: request.headers['content-type'], accept: request.headers.accept, host: request.headers.host, body });
    response.writeHead(request.url.includes('conflict') ? 409 : 200, { 'content-type': request.headers.accept }).end('{"ok":true}');
  });
  await new Promise((listening) => standIn.listen(0, '127.0.0.1', listening));
  const source = join(stack.dir, 'harbor.openapi');
  await writeFile(source, JSON.stringify(DOCUMENT));
  const folder = join(stack.dir, 'imported');
  await mkdir(folder);
  const made = await stack.sluice(['catalog', 'import', 'openapi', source, '--output', join(folder, 'harbor.json')]);
  assert.equal(made.code, 0, made.stderr);
  manifest = JSON.parse(await readFile(join(folder, 'harbor.json'), 'utf8'));
  const lint = await stack.sluice(['catalog', 'lint', join(folder, 'harbor.json')]);
  assert.doesNotMatch(lint.stdout, /model clients|for a tool/);
  const origins = ['eu', 'us'].flatMap((region) => ['--origin-override', `https://${region}.harbor.example=http://127.0.0.1:${standIn.address().port}`]);
  const options = { env: { SLUICE_CATALOG: folder }, args: [...origins, '--allow-host', '127.0.0.1'] };
  account = await stack.account('Acme', { apps: [] });
  await stack.connect(account.id, 'harbor', { token: 't0ken' }, [], options); // no parameter: the defaults apply
  server = await stack.serve(options);
});
after(async () => {
  standIn?.close();
  await stack?.stopWell(assert);
});

const run = async (action_id, input) => {
  seen.length = 0;
  const reply = await server.execute(account.key, 'harbor', action_id, input, { confirm: true });
  return { reply, sent: seen.at(-1) };
};
const sent = async (action_id, input) => {
  const { reply, sent: call } = await run(action_id, input);
  assert.equal(reply.status, 200, reply.text);
  return call;
};
const refused = async (action_id, input) => {
  const { reply, sent: call } = await run(action_id, input);
  assert.deepEqual([reply.status, reply.json.error_code, call], [409, 'validation_error', undefined], reply.text);
};

test('nested values in a query are sent, at any depth, described or not', async () => {
  const at = async (input) => decodeURIComponent((await sent('list_ships', input)).url);
  assert.equal(await at({ filter: { range: { gte: '1', lte: '9' }, flag: 'PA' } }), '/v2/ships?filter[range][gte]=1&filter[range][lte]=9&filter[flag]=PA');
  assert.equal(await at({ filter: { ids: ['a', 'b'], other: { deep: { er: true } } }, tags: ['x', 'y'] }), '/v2/ships?filter[ids]=a&filter[ids]=b&filter[other][deep][er]=true&tags=x&tags=y');
  assert.equal(await at({ page: { size: 5, number: 2 } }), '/v2/ships?size=5&number=2');
  await refused('list_ships', { filtre: {} });
});

test('a server’s variables have their defaults, and text in a path is encoded', async () => {
  assert.equal((await sent('search_ships', {})).url, '/v2/ships/new%20ones/:search/caf%C3%A9');
});

test('a body is closed only where the document closes it', async () => {
  const { body } = await sent('open_body', { name: 'Ada', crew: [1, { a: null }] });
  assert.deepEqual(JSON.parse(body), { name: 'Ada', crew: [1, { a: null }] });
  await refused('open_body', { crew: 1 });
  await refused('closed_body', { name: 'Ada', crew: 1 });
  assert.equal((await sent('open_form', { name: 'Ada L', crew: 2 })).body, 'name=Ada%20L&crew=2');
  assert.match((await sent('open_parts', { name: 'Ada', crew: 2 })).body, /name="name"\r\n\r\nAda\r\n[^]*name="crew"\r\n\r\n2\r\n/);
});

test('a discriminator distinguishes branches that are otherwise the same', async () => {
  for (const cargo of [{ kind: 'crate', weight: 1 }, { kind: 'tank', weight: 2, liquid: 'oil' }, { kind: 'Vat', weight: 3 }])
    assert.deepEqual(JSON.parse((await sent('add_cargo', { body: cargo })).body), cargo);
  for (const cargo of [{ weight: 1 }, { kind: 'Crate', weight: 1 }, { kind: 'tank', weight: 'much' }]) await refused('add_cargo', { body: cargo });
});

test('a media type of JSON is sent, accepted and read', async () => {
  const { reply, sent: call } = await run('json_api', { data: { type: 'ship' } });
  assert.equal(reply.status, 200, reply.text);
  assert.deepEqual([call.type, call.accept, reply.json.output], ['application/vnd.api+json', 'application/vnd.api+json', { ok: true }]);
});

test('undescribed items may be anything, and tools say so with types', async () => {
  const lists = { any: ['a', 1, null, [[[[[1]]]]], { b: [] }], none: [[]] };
  assert.deepEqual(JSON.parse((await sent('add_list', lists)).body), lists);
  const { result } = await new Mcp(server.base, account.key, '/mcp?tools=harbor').ask('tools/list');
  assert.equal(result.tools.length, 12 + manifest.actions.length);
  assert.deepEqual(result.tools.flatMap(faultsOf), []);
});

test('few statuses of an unknown vendor are proof', () => {
  assert.deepEqual(manifest.not_done_statuses, [401, 403, 404, 405, 413, 415, 429]);
});
