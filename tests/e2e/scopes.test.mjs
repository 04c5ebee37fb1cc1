// What a key may run (src/api/README.md "HTTP"): every action of every app and every template, with
// a key that may only read and one that may only write, over REST, in batches, at the tool endpoint
// and over /mcp.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const LACKS = { read: 'This API key lacks the scope "execute:read"', write: 'This API key lacks the scope "execute:write"' };
const FORM = { capabilities: { elicitation: { form: {} } } };
const BATCH = 50;

let stack, server, account, keys, actions, templates;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Scoped', { apps: [] });
  await stack.connect(account.id, 'gmail', { access_token: 'ya29.demo-gmail-full' });
  server = await stack.serve();
  const make = (scopes) => stack.key(account.id, ['--scopes', scopes]);
  const [read, write, both, none] = await Promise.all(['read,execute:read', 'read,execute:write', 'read,execute:read,execute:write', 'read'].map(make));
  keys = { read, write, both, none };
  const get = async (path) => (await server.call(account.key, 'GET', path)).json;
  const apps = (await get('/api/integrations?page_size=100')).items;
  const lists = await Promise.all(apps.map(({ integration_id }) => get(`/api/actions?integration_id=${integration_id}`)));
  actions = lists.flatMap((list) => list.items.map((action) => ({ ...action, integration_id: list.integration_id })));
  templates = (await get('/api/flows/templates')).templates;
  templates = await Promise.all(templates.map(({ key }) => get(`/api/flows/templates/${key}`)));
});
after(() => stack?.stopWell(assert));

const call = (key, method, path, body) => server.call(key, method, path, body);
const isRead = (action) => action.side_effect_level === 'read';
const needed = (action) => (isRead(action) ? 'read' : 'write');
const toolOf = ({ integration_id, action_id }) => `${integration_id}_${action_id}`;

// A call without an input: the scope is checked before the input is parsed.
async function inBatches(key, list, more) {
  const statuses = new Map();
  for (let at = 0; at < list.length; at += BATCH) {
    const some = list.slice(at, at + BATCH);
    const executions = some.map(({ integration_id, action_id }) => ({ integration_id, action_id, input: { not_a_member: 1 }, ...more }));
    const { json } = await call(key, 'POST', '/api/executions/batch', { executions });
    json.results.forEach((result, i) => statuses.set(toolOf(some[i]), result));
  }
  return statuses;
}

test('a batch: an action of the other kind is 403, each action of every app', async () => {
  assert.ok(actions.length > 700 && actions.some(isRead) && !actions.every(isRead));
  for (const kind of ['read', 'write']) {
    const results = await inBatches(keys[kind], actions, { confirm: true });
    for (const action of actions) {
      const { status, error } = results.get(toolOf(action));
      if (needed(action) === kind) assert.notEqual(status, 403, toolOf(action));
      else assert.deepEqual([status, error], [403, LACKS[needed(action)]], toolOf(action));
    }
  }
  for (const key of [keys.both, account.key])
    for (const [tool, { status }] of await inBatches(key, actions, { confirm: true })) assert.notEqual(status, 403, tool);
  assert.equal((await call(keys.none, 'POST', '/api/executions/batch', { executions: [] })).json.error, 'This API key lacks the scope "execute"');
});

test('over /mcp: each action of every app, in run_actions and under its own name', async () => {
  for (const kind of ['read', 'write']) {
    const mcp = new Mcp(server.base, keys[kind]);
    for (let at = 0; at < actions.length; at += BATCH) {
      const some = actions.slice(at, at + BATCH);
      const calls = some.map(({ integration_id, action_id }) => ({ integration_id, action_id, input: { not_a_member: 1 }, confirm: true }));
      const { results } = contentOf(await mcp.call('run_actions', { actions: calls }));
      const own = await Promise.all(some.map((action) => mcp.call(toolOf(action), { not_a_member: 1 }).then(contentOf)));
      for (const [i, action] of some.entries())
        for (const result of [results[i], own[i]]) {
          if (needed(action) === kind) assert.equal(result.status, 'blocked', toolOf(action));
          else assert.deepEqual(result, { error: LACKS[needed(action)] }, toolOf(action));
        }
    }
  }
});

test('it is the same for single executions, for the tool endpoint and over /mcp', async () => {
  const some = actions.filter((action, i) => action.integration_id === 'gmail' || i % 10 === 0);
  assert.ok(some.some(isRead) && !some.every(isRead));
  for (const kind of ['read', 'write']) {
    const mcp = new Mcp(server.base, keys[kind]);
    for (const action of some) {
      const { integration_id, action_id } = action, tool = toolOf(action), input = { not_a_member: 1 };
      const all = await Promise.all([
        call(keys[kind], 'POST', '/api/executions', { integration_id, action_id, input, confirm: true }),
        call(keys[kind], 'POST', `/api/tools/${tool}/execute`, { arguments: input, confirmed: true }),
      ]);
      const results = await Promise.all([
        mcp.call('run_action', { integration_id, action_id, input, confirm: true }),
        mcp.call(tool, { ...input, confirm: true }),
        mcp.ask('tools/call', { name: tool, arguments: input }, FORM).then(({ result }) => result),
      ]);
      for (const reply of all) {
        if (needed(action) === kind) assert.equal(reply.status, 409, tool);
        else assert.deepEqual([reply.status, reply.json], [403, { error: LACKS[needed(action)] }], tool);
      }
      for (const result of results) {
        assert.equal(result.isError, true, tool);
        if (needed(action) === kind) assert.equal(contentOf(result).status, 'blocked', tool);
        else assert.deepEqual(contentOf(result), { error: LACKS[needed(action)] }, tool);
      }
    }
  }
});

test('a dry run calls no app, so either scope suffices, and no scope does not', async () => {
  const body = { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 's', text: 't' }, dry_run: true };
  for (const kind of ['read', 'write']) assert.equal((await call(keys[kind], 'POST', '/api/executions', body)).status, 200, kind);
  const refused = await call(keys.none, 'POST', '/api/executions', body);
  assert.deepEqual([refused.status, refused.json.error], [403, 'This API key lacks the scope "execute"']);
});

test('a write that was made is not replayed to a key that may only read', async () => {
  const body = { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 'once', text: 't' }, confirm: true, idempotency_key: 'scoped' };
  assert.equal((await call(account.key, 'POST', '/api/executions', body)).status, 200);
  assert.equal((await call(account.key, 'POST', '/api/executions', body)).headers.get('idempotent-replayed'), 'true');
  const replay = await call(keys.read, 'POST', '/api/executions', body);
  assert.deepEqual([replay.status, replay.headers.get('idempotent-replayed')], [403, null]);
});

test('flows: a template that can write needs execute:write, over REST and /mcp', async () => {
  const writes = (template) => template.steps.some((step) => step.side_effect_level && step.side_effect_level !== 'read');
  assert.ok(templates.some(writes) && !templates.every(writes));
  for (const kind of ['read', 'write']) {
    const mcp = new Mcp(server.base, keys[kind]);
    for (const template of templates) {
      const body = { input: { not_a_member: 1 }, flowTemplate: template.key };
      const reply = await call(keys[kind], 'POST', '/api/flows/start', body);
      const result = await mcp.call('start_flow', { template: template.key, input: body.input });
      const may = kind === 'write' || !writes(template);
      if (may) assert.notEqual(reply.status, 403, template.key);
      else assert.deepEqual([reply.status, reply.json, contentOf(result)], [403, { error: LACKS.write }, { error: LACKS.write }], template.key);
    }
  }
});

test('changes that involve no app need execute:write', async () => {
  const id = '01900000-0000-7000-8000-000000000000';
  const requests = [['POST', `/api/flows/${id}/resume`], ['POST', `/api/flows/${id}/cancel`], ['POST', '/api/connect/sessions', { integration_id: 'gmail' }]];
  for (const [method, path, body] of requests) {
    const refused = await call(keys.read, method, path, body);
    assert.deepEqual([refused.status, refused.json], [403, { error: LACKS.write }], path);
    assert.notEqual((await call(keys.write, method, path, body)).status, 403, path);
  }
});

test('/mcp lists and finds only what the key may run, REST lists all', async () => {
  const narrow = new Mcp(server.base, keys.read, '/mcp?tools=gmail'), wide = new Mcp(server.base, account.key, '/mcp?tools=gmail');
  const names = async (mcp) => (await mcp.ask('tools/list')).result.tools.map((tool) => tool.name);
  const own = actions.filter((action) => action.integration_id === 'gmail');
  assert.deepEqual((await names(narrow)).filter((name) => name.startsWith('gmail_')).sort(), own.filter(isRead).map(toolOf).sort());
  assert.deepEqual((await names(wide)).filter((name) => name.startsWith('gmail_')).sort(), own.map(toolOf).sort());
  assert.ok(!(await names(narrow)).includes('connect_app'));
  const described = async (mcp) => (await mcp.ask('tools/list')).result.tools.find((tool) => tool.name === 'start_flow').description;
  for (const template of templates) {
    const can = !template.steps.some((step) => step.side_effect_level && step.side_effect_level !== 'read');
    assert.equal((await described(narrow)).includes(`\n- ${template.key}: `), can, template.key);
    assert.ok((await described(wide)).includes(`\n- ${template.key}: `));
  }
  const level = new Map(actions.map((action) => [toolOf(action), action]));
  for (const query of ['send a mail', 'delete a page', 'create an event', 'post a message in a channel', 'list messages']) {
    const found = (await narrow.call('search_actions', { query, limit: 20 }, { meta: { 'sluice/structured': true } })).structuredContent.items.filter((item) => item.kind === 'action');
    assert.ok(found.length >= 10, query);
    for (const item of found) assert.ok(isRead(level.get(toolOf(item))), `${query}: ${toolOf(item)}`);
    const rest = (await call(keys.read, 'GET', `/api/search?query=${encodeURIComponent(query)}`)).json;
    assert.deepEqual(rest, (await call(account.key, 'GET', `/api/search?query=${encodeURIComponent(query)}`)).json);
  }
});

test('a search says what the key may not run, and how an app is connected', async () => {
  const none = new Mcp(server.base, keys.none), read = new Mcp(server.base, keys.read), write = new Mcp(server.base, keys.write), wide = new Mcp(server.base, account.key);
  const linesOf = async (mcp, args) => (await mcp.call('search_actions', args)).content[0].text.split('\n');
  const query = 'list messages of a slack channel';
  const [reader, writer, full] = await Promise.all([read, write, wide].map((mcp) => linesOf(mcp, { query })));
  assert.match(reader[0], /^slack list_messages\(.*  read  not connected, a person has to connect it  /);
  assert.match(full[0], /^slack list_messages\(.*  read  not connected, call connect_app first  /);
  assert.equal(reader.at(-1), 'This API key only reads: actions that change something are not listed.');
  assert.equal(writer.at(-1), 'This API key only writes: actions that read are not listed.');
  assert.doesNotMatch(full.join('\n'), /This API key/);
  assert.deepEqual(await linesOf(none, { query }), ['This API key may run no actions, so none are listed.']);
  assert.match((await linesOf(read, { query: 'zzqx wvvy' })).at(-1), /^This API key only reads: .* Nothing fits well\. /);
});

test('scopes are words of a key, stored and printed as they are given', async () => {
  const listed = JSON.parse(await stack.prepare(['keys', 'list', account.id, '--json']));
  const words = listed.map((key) => key.scopes);
  for (const scopes of ['read execute:read', 'read execute:write', 'read execute', 'read']) assert.ok(words.includes(scopes), scopes);
  assert.ok(words.includes('read execute approve admin'));
  const fault = await stack.sluice(['keys', 'create', account.id, '--scopes', 'execute:delete']);
  assert.notEqual(fault.code, 0);
  assert.match(fault.stderr, /"execute:delete" is not a scope; scopes are read, execute \(or only execute:read or execute:write\), approve and admin/);
});

test('the dashboard offers only the templates that the session may start', async () => {
  for (const key of [keys.read, keys.write, account.key]) {
    const pages = new Pages(server.base);
    await pages.signIn(key);
    const list = (await pages.go('/flows/new')).text;
    for (const template of templates) {
      const can = key !== keys.read || !template.steps.some((step) => step.side_effect_level && step.side_effect_level !== 'read');
      assert.equal(list.includes(`/flows/new?template=${template.key}"`), can, template.key);
      const { text } = await pages.go(`/flows/new?template=${template.key}`); // the template's form, or the list of templates
      assert.equal(!text.includes('/flows/new?template='), can, template.key);
    }
  }
});
