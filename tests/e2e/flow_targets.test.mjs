// Where the calls of an approval write, with the names that the app gives for ids (`target` and
// `shows` of contrib/integrations/README.md). The names are read before the approval begins: the
// approval begins whatever the app does, and a flow that ends meanwhile asks for no approval.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Pages } from './support/pages.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const LABEL = 'Place';
const id = { type: 'string', description: 'Id of the place.' };
const input_schema = { type: 'object', additionalProperties: false, required: ['id'], properties: { id } };
const TEMPLATE = {
  key: 'place_approve',
  name: 'Place approve',
  description: 'An approval and a write.',
  input: input_schema,
  steps: [
    { key: 'ask', type: 'approval', title: 'Post', summary: 'One post', expires_in: 3600 },
    { key: 'post', type: 'tool_call', tool: 'places_post', confirmed_by: 'approval:ask', input: { id: '${input.id}' } },
  ],
};
const SHOWS = { id: { action: 'read', input: { id: '${input.id}' }, text: '${output.name}' } };
const MANY = {
  ...TEMPLATE,
  key: 'places_approve',
  input: { type: 'object', additionalProperties: false, required: ['ids'], properties: { ids: { type: 'array', items: { type: 'string' }, description: 'Ids of places.' } } },
  steps: [TEMPLATE.steps[0], { ...TEMPLATE.steps[1], for_each: 'input.ids', concurrency: 1, input: { id: '${item}' } }],
};
// Its place does not name what is shown.
const WING = {
  ...TEMPLATE,
  key: 'wing_approve',
  steps: [TEMPLATE.steps[0], { ...TEMPLATE.steps[1], tool: 'places_paint', input: { id: '${input.id}', wing: 'east' } }],
};

let stack, provider, account, servers, begun, posts;
let answer; // answers a read

before(async () => {
  stack = await Stack.start({ provider: false });
  [begun, posts] = [0, []];
  provider = await Scripted.start((request, reply, url) => {
    reply.setHeader('content-type', 'application/json');
    if (request.method === 'POST') {
      posts.push(url.pathname);
      return reply.end('{"ok":true}');
    }
    begun++;
    return answer(reply);
  });
  stack.catalog = await writeCatalog(stack.dir, {
    places: {
      actions: {
        read: { input_schema, output_schema: { type: 'object', properties: { name: { type: 'string' } } }, request: { method: 'GET', path: '/places/${input.id}' } },
        post: {
          side_effect_level: 'write',
          requires_confirmation: true,
          idempotent: false,
          undo: 'never',
          input_schema,
          request: { method: 'POST', path: '/places/${input.id}' },
          target: { [LABEL]: '${input.id}' },
          shows: SHOWS,
        },
        paint: {
          side_effect_level: 'write',
          requires_confirmation: true,
          idempotent: false,
          undo: 'never',
          input_schema: { ...input_schema, properties: { id, wing: { type: 'string', description: 'Name of the wing.' } } },
          request: { method: 'POST', path: '/places/${input.id}', query: { wing: '${input.wing}' } },
          target: { Wing: '${input.wing}' },
          shows: SHOWS,
        },
      },
    },
  });
  await mkdir(join(stack.catalog, 'templates'));
  for (const one of [TEMPLATE, MANY, WING]) await writeFile(join(stack.catalog, 'templates', `${one.key}.json`), JSON.stringify(one));
  account = await stack.account('places', { apps: [] });
  servers = [await serve(), await serve()];
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const serve = () => stack.serve({ env: { SLUICE_CATALOG: stack.catalog }, args: overrides(provider.url, 'places') });
const named = (name) => (reply) => reply.end(JSON.stringify({ name }));
const silent = () => {};
const call = (...args) => servers.at(-1).call(account.key, ...args);

async function start(server = servers.at(-1), flowTemplate = 'place_approve', input = { id: 'p-1' }) {
  const { status, json, text } = await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate, input });
  assert.equal(status, 200, text);
  return json.flowId;
}

const read = async (flow) => (await call('GET', `/api/flows/${flow}`)).json;
const waits = (flow) => until('the approval begins', async () => ((now) => now.flow.status === 'waiting' && now)(await read(flow)));
const targetOf = ({ steps }) => steps.find(({ input }) => input?.items).input.items[0].target;

test('the name that the app gives is beside the id', async () => {
  answer = named('The big hall');
  const flow = await start();
  assert.deepEqual(targetOf(await waits(flow)), [{ label: LABEL, id: 'p-1', name: 'The big hall' }]);
  assert.deepEqual(posts, []);
  assert.equal((await call('POST', `/api/flows/${flow}/approve`, {})).status, 200);
  await until('it has ended', async () => (await read(flow)).flow.status === 'completed');
  assert.deepEqual(posts, ['/places/p-1']);
});

for (const [what, reply] of Object.entries({
  'does not answer': silent,
  'does not know the place': (to) => to.writeHead(404).end('{}'),
  'gives no name': (to) => to.end('{}'),
  'closes the connection': (to) => to.destroy(),
}))
  test(`an approval begins with the id alone if the app ${what}`, async () => {
    answer = reply;
    assert.deepEqual(targetOf(await waits(await start())), [{ label: LABEL, id: 'p-1', unread: true }]);
  });

test("an approval's page says once that the name of an id was not read, whether the place has that name or not", async () => {
  const pages = new Pages(servers.at(-1).base);
  await pages.signIn(account.key);
  for (const [template, reply, places, ids] of [['place_approve', silent, 1, 0], ['wing_approve', silent, 0, 1], ['wing_approve', named('The hall'), 0, 0]]) {
    answer = reply;
    const flow = await start(undefined, template);
    await waits(flow);
    const { text } = await pages.ask(`/flows/${flow}`);
    const times = (words) => text.split(words).length - 1;
    assert.deepEqual([times('(name not read)'), times('(not read)')], [places, ids], template);
  }
});

test('calls that write to one place share the read of its name', async () => {
  answer = named('The hall');
  const from = begun;
  const { steps } = await waits(await start(undefined, 'places_approve', { ids: Array(10).fill('p-1') }));
  const names = steps.find(({ input }) => input?.items).input.items.map(({ target }) => target[0].name);
  assert.deepEqual([names, begun - from], [Array(10).fill('The hall'), 1]);
});

// The places of a fan-out are compared by their ids: the app may name two alike, and only the first
// names are read.
test('the inbox says whether all calls write to one place', async () => {
  answer = named('The hall');
  const pages = new Pages(servers.at(-1).base);
  await pages.signIn(account.key);
  for (const [ids, isOne] of [[['p-1'], true], [['p-1', 'p-1', 'p-1', 'p-1', 'p-1'], true], [['p-1', 'p-2'], false]]) {
    const flow = await start(undefined, 'places_approve', { ids });
    await waits(flow);
    for (const isLarge of [false, true]) {
      // a large decision is not read as a whole
      if (isLarge) await stack.cluster.sql(`update sluice.flow_doc set waiting_input = (waiting_input::jsonb || jsonb_build_object('summary', repeat('x', 70000)))::json where flow_id = '${flow}'`);
      const { text } = await pages.ask('/approvals');
      const row = text.slice(text.indexOf(`wait-${flow}`)).split('</li>')[0];
      assert.match(row, /, to <q dir="auto">The hall<\/q>/, `${ids}, large: ${isLarge}`);
      assert.equal(/and other places/.test(row), !isOne, `${ids}: ${row}`);
    }
  }
});

test('a flow that is cancelled while names are read asks for no approval', async () => {
  answer = silent;
  const from = begun;
  const flow = await start();
  await until('the name is asked for', () => begun > from);
  assert.equal((await call('POST', `/api/flows/${flow}/cancel`, {})).status, 200);
  const { flow: ended, steps } = await until('it has ended', async () => ((now) => now.flow.status === 'cancelled' && now)(await read(flow)));
  assert.equal(ended.status, 'cancelled');
  assert.deepEqual(steps.filter(({ status }) => status === 'waiting'), []);
});

test('a process that dies while names are read leaves the flow to another, which asks once', async () => {
  const [dying] = servers;
  answer = silent;
  const from = begun;
  const flow = await start(dying);
  await until('the name is asked for', () => begun > from);
  answer = named('The small hall');
  stack.forget(dying);
  dying.process.kill('SIGKILL');
  const now = await waits(flow);
  assert.deepEqual(targetOf(now), [{ label: LABEL, id: 'p-1', name: 'The small hall' }]);
  assert.equal(now.steps.filter(({ input }) => input?.items).length, 1);
});
