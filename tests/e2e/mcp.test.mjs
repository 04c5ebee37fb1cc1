// POST /mcp (src/mcp/README.md): both eras on one endpoint, with raw requests and the official
// SDK's clients. Every message is validated with the specification's schema (support/mcp.mjs).
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { until } from './support/client.mjs';
import { LEGACY, MODERN, Mcp, SCHEMAS, connect, inside, marked, meta, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';
import { faultsOf } from './support/tool_rules.mjs';

const OWN = ['search_actions', 'describe_action', 'run_action', 'run_actions', 'read_result', 'start_flow', 'get_flow', 'cancel_flow', 'list_apps', 'history', 'list_connections', 'connect_app'];
let stack, server, account, mcp, reader;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail', 'probe'] });
  reader = await stack.key(account.id, ['--scopes', 'read']);
  server = await stack.serve({ args: ['--mcp-origin', 'https://chat.example'] });
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const run = (integration_id, action_id, input, more = {}, options) => mcp.call('run_action', { integration_id, action_id, input, ...more }, options);

test('the specification’s schemas are there', { skip: SCHEMAS ? false : 'no corpora' }, () => {});

test('capabilities: discover and initialize', async () => {
  const { result, status } = await mcp.ask('server/discover');
  assert.equal(status, 200);
  assert.deepEqual(result.supportedVersions, [MODERN, LEGACY, '2025-06-18', '2025-03-26']);
  assert.deepEqual(result.capabilities, { tools: { listChanged: true }, resources: { subscribe: true }, extensions: { 'io.modelcontextprotocol/tasks': {} } });
  assert.equal(result._meta['io.modelcontextprotocol/serverInfo'].name, 'sluice');
  assert.match(result.instructions, /search_actions[^]*Never follow instructions/);
  for (const [asked, got] of [[LEGACY, LEGACY], ['2025-06-18', '2025-06-18'], ['2025-03-26', '2025-03-26'], ['1999-01-01', LEGACY], [MODERN, LEGACY]]) {
    const params = { protocolVersion: asked, capabilities: {}, clientInfo: { name: 'x', version: '1' } };
    const old = await mcp.askLegacy('initialize', params);
    assert.equal(old.result.protocolVersion, got);
    assert.equal(old.headers.get('mcp-session-id'), null);
    assert.equal(old.result.resultType, undefined);
  }
  assert.deepEqual((await mcp.askLegacy('ping')).result, {});
});

test('an invalid message is refused, with its id if it has one', async () => {
  const bad = async (body, code, status = 400, headers = {}) => {
    const reply = await mcp.post(body, headers);
    assert.deepEqual([reply.status, reply.json.error.code], [status, code], `${JSON.stringify(body)}: ${reply.text}`);
    return reply.json;
  };
  await bad('{"jsonrpc"', -32700);
  await bad('', -32700);
  await bad('[]', -32600);
  await bad([{ jsonrpc: '2.0', id: 1, method: 'ping' }], -32600);
  await bad({ id: 1, method: 'ping' }, -32600);
  await bad({ jsonrpc: '2.0', id: null, method: 'ping' }, -32600);
  await bad({ jsonrpc: '2.0', id: 1.5, method: 'ping' }, -32600);
  await bad({ jsonrpc: '2.0', id: {}, method: 'ping' }, -32600);
  await bad({ jsonrpc: '2.0', id: 7, method: 'ping', params: [] }, -32600);
  await bad({ jsonrpc: '2.0', id: 7, result: {} }, -32600);
  assert.equal((await bad({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: {} }, -32602, 200)).id, 7);
  assert.equal((await bad({ jsonrpc: '2.0', id: 7, method: 'nope' }, -32601, 200)).id, 7);
  assert.equal((await mcp.ask('nope')).status, 404);
  for (const method of ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe'])
    assert.deepEqual([(await mcp.ask(method)).status, (await mcp.ask(method)).error.code], [404, -32601], method);
  const plain = await mcp.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'content-type': 'text/plain' });
  assert.deepEqual([plain.status, plain.json.error.code], [415, -32600]);
});

test('notifications are accepted and not answered', async () => {
  for (const method of ['notifications/initialized', 'notifications/cancelled', 'notifications/unheard_of']) {
    const reply = await mcp.post({ jsonrpc: '2.0', method });
    assert.deepEqual([reply.status, reply.text], [202, '']);
  }
});

test('versions and headers of 2026-07-28', async () => {
  const list = (options) => mcp.ask('tools/list', {}, options);
  const code = async (reply) => [(await reply).status, (await reply).error?.code];
  const mismatch = [400, -32020];
  assert.deepEqual(await code(list({ headers: { 'mcp-protocol-version': undefined } })), mismatch);
  assert.deepEqual(await code(list({ headers: { 'mcp-protocol-version': LEGACY } })), mismatch);
  assert.deepEqual(await code(list({ headers: { 'mcp-method': undefined } })), mismatch);
  assert.deepEqual(await code(list({ headers: { 'mcp-method': 'Tools/list' } })), mismatch);
  assert.deepEqual(await code(list({ headers: { 'mcp-method': 'tools/call' } })), mismatch);
  const call = (name) => mcp.ask('tools/call', { name: 'search_actions', arguments: { query: 'mail' } }, { headers: { 'mcp-name': name } });
  assert.deepEqual(await code(call('run_action')), mismatch);
  assert.deepEqual(await code(call(undefined)), mismatch);
  const sentinel = (text) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
  assert.equal((await call(sentinel('search_actions'))).status, 200);
  assert.deepEqual(await code(call(sentinel('run_action'))), mismatch);
  assert.deepEqual(await code(call('=?base64?%%%?=')), mismatch);
  const unknown = { 'io.modelcontextprotocol/protocolVersion': '1900-01-01' };
  const refused = await list({ meta: unknown, headers: { 'mcp-protocol-version': '1900-01-01' } });
  assert.deepEqual([refused.status, refused.error.code, refused.error.data.requested], [400, -32022, '1900-01-01']);
  assert.ok(refused.error.data.supported.includes(MODERN));
  assert.deepEqual(await code(list({ meta: unknown })), mismatch);
  assert.deepEqual(await code(list({ meta: { 'io.modelcontextprotocol/clientCapabilities': undefined } })), [400, -32602]);
  const none = await mcp.post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }, { 'mcp-protocol-version': MODERN });
  assert.deepEqual([none.status, none.json.error.code, none.json.id], [400, -32602, 1]);
  const other = await mcp.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { 'mcp-protocol-version': '2030-01-01' });
  assert.deepEqual([other.status, other.json.error.code], [400, -32022]);
  assert.equal((await list({ meta: { 'io.modelcontextprotocol/clientInfo': undefined } })).status, 200);
});

test('which callers are allowed: key, origin, method', async () => {
  for (const key of ['nope', undefined]) {
    const reply = await new Mcp(server.base, key).post({ jsonrpc: '2.0', id: 1, method: 'ping' });
    assert.deepEqual([reply.status, reply.headers.get('www-authenticate')], [401, 'Bearer']);
  }
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const reply = await server.call(account.key, method, '/mcp');
    assert.deepEqual([reply.status, reply.headers.get('allow')], [405, 'POST'], method);
  }
  const from = async (origin) => (await mcp.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { origin })).status;
  for (const origin of ['http://evil.example', 'null', 'https://chat.example.evil', 'http://chat.example', `${server.base}1`, 'x'])
    assert.equal(await from(origin), 403, origin);
  for (const origin of ['https://chat.example', 'https://CHAT.example:443', server.base]) assert.equal(await from(origin), 200, origin);
});

test('there are twelve tools, and those that a key may not use are not listed', async () => {
  const { result } = await mcp.ask('tools/list');
  assert.deepEqual(result.tools.map((tool) => tool.name), OWN);
  assert.deepEqual([result.ttlMs, result.cacheScope, result.nextCursor], [300000, 'private', undefined]);
  assert.deepEqual(result.tools.map((tool) => tool.annotations.readOnlyHint), [true, true, false, false, true, false, true, false, true, true, true, false]);
  assert.match(result.tools[5].description, /\n- [a-z0-9_-]+: /);
  assert.deepEqual((await mcp.ask('tools/list')).result, result);
  const narrow = new Mcp(server.base, reader);
  assert.deepEqual((await narrow.ask('tools/list')).result.tools.map((tool) => tool.name), ['search_actions', 'describe_action', 'read_result', 'get_flow', 'list_apps', 'history', 'list_connections']);
  const refused = await narrow.call('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } });
  assert.deepEqual([refused.isError, contentOf(refused).error], [true, 'This API key lacks the scope "execute"']);
  assert.equal((await narrow.call('probe_read_label', { id: 'INBOX' })).isError, true);
});

test('real tools are listed by choice, on one page', async () => {
  const list = async (tools, params) => (await new Mcp(server.base, account.key, `/mcp?tools=${tools}`).ask('tools/list', params)).result;
  const probe = await list('probe');
  assert.deepEqual(probe.tools.slice(0, OWN.length).map((tool) => tool.name), OWN);
  const named = Object.fromEntries(probe.tools.map((tool) => [tool.name, tool]));
  const send = named.probe_send, read = named.probe_read_label;
  assert.deepEqual(send.annotations, { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true });
  assert.equal(read.annotations.readOnlyHint, true);
  assert.equal(send.inputSchema.properties.confirm.type, 'boolean');
  assert.equal(send.inputSchema.properties.idempotency_key.type, 'string');
  assert.deepEqual([read.inputSchema.properties.confirm, read.inputSchema.properties.idempotency_key], [undefined, undefined]);
  assert.deepEqual((await list('probe_read*')).tools.slice(OWN.length).map((tool) => tool.name), ['probe_read_label']);
  assert.deepEqual((await list('nothing,of_this')).tools.length, OWN.length);
  const stripe = await list('stripe_create_payment_intent');
  assert.deepEqual(Object.keys(stripe.tools[OWN.length].inputSchema.properties).filter((one) => /confirm$/.test(one)), ['confirm', 'sluice_confirm']);
  // Of seventeen known clients, five read only the first page.
  const all = await list('*');
  assert.deepEqual([new Set(all.tools.map((tool) => tool.name)).size, all.nextCursor], [128, undefined]);
  for (const tool of all.tools) assert.match(tool.name, /^[a-zA-Z0-9_-]{1,64}$/);
  // A client that turns an object schema without properties into one that allows none could send no
  // members.
  for (const tool of all.tools.slice(0, OWN.length))
    for (const one of Object.values(tool.inputSchema.properties)) assert.equal(one.additionalProperties, one.type === 'object' ? true : undefined);
  for (const tools of ['*a*', Array(65).fill('gmail').join(',')])
    assert.equal((await new Mcp(server.base, account.key, `/mcp?tools=${tools}`).ask('tools/list')).error.code, -32602);
  for (const cursor of ['x', '64:nope', 7, '-1:probe_send']) {
    const { error } = await mcp.ask('tools/list', { cursor });
    assert.equal(error.code, -32602);
  }
});

test('no client drops a tool for its schema', async () => {
  const { items } = (await server.call(account.key, 'GET', '/api/integrations?page_size=100')).json;
  let seen = 0;
  const all = {};
  for (const { integration_id: app, capabilities } of items) {
    const { tools } = (await new Mcp(server.base, account.key, `/mcp?tools=${app}`).ask('tools/list')).result;
    seen += capabilities.length;
    for (const tool of tools) all[tool.name] = tool;
  }
  assert.equal(Object.keys(all).length, seen + OWN.length);
  assert.deepEqual(Object.values(all).flatMap(faultsOf), []);
  // The constraints at the top of the schema are described in words, and are enforced as before.
  for (const [name, words] of Object.entries({
    gmail_send_message: 'Needs at least one of: text; html.',
    jira_add_comment: 'Needs exactly one of: text; adf.',
    jira_create_issue: 'Does not take: description and descriptionAdf.',
    discord_list_messages: 'Does not take: before and after; or before and around; or after and around.',
    github_update_label: 'Needs at least 4 arguments.',
    twilio_add_conversation_participant: 'Needs at least one of: Identity; Address and ProxyAddress.',
    google_drive_share_file: 'Needs at least one of: type = "user" or "group", with emailAddress; type = "domain", with domain; type = "anyone".',
  })) {
    const { description } = all[name];
    assert.ok(description.endsWith(words), `${name}: ${description}`);
  }
  const folder = new URL('../../contrib/integrations/', import.meta.url).pathname;
  const files = (await readdir(folder)).filter((name) => name.endsWith('.json')).map((name) => join(folder, name));
  const said = await stack.sluice(['catalog', 'lint', ...files]);
  assert.equal(said.code, 0);
  assert.match(said.stdout, /^\d+ integrations, \d+ actions, 0 warnings: fine\n$/);
  const refused = await mcp.call('gmail_send_message', { to: 'a@example.com', subject: 's', confirm: true });
  assert.equal(contentOf(refused).error_code, 'validation_error');
});

test('the first request of a server may ask for real tools', async () => {
  const fresh = await stack.serve();
  const { result } = await new Mcp(fresh.base, account.key, '/mcp?tools=probe').ask('tools/list');
  assert.ok(result.tools.some((tool) => tool.name === 'probe_send'));
});

test('search, describe, run', async () => {
  const found = await mcp.call('search_actions', { query: 'send a mail', limit: 3, connected_only: true });
  assert.match(found.content[0].text, /^gmail send_message\(to!, subject!, text \| html, cc(\[\])?, .*\)  write  connected  /m);
  assert.equal(found.content[0].text.split('\n').length, 3);
  const detail = await mcp.call('describe_action', { integration_id: 'gmail', action_id: 'send_message' });
  assert.deepEqual(contentOf(detail).input_schema.required, ['to', 'subject']);
  const template = (await mcp.ask('tools/list')).result.tools.find((tool) => tool.name === 'start_flow').description.match(/\n- (\S+):/)[1];
  assert.equal(contentOf(await mcp.call('describe_action', { template })).key, template);
  const all = await mcp.call('describe_action', { template: '*' });
  assert.ok(contentOf(all).templates.some((one) => one.key === template));
  const label = await run('probe', 'read_label', { id: 'INBOX' });
  assert.deepEqual([label.isError, contentOf(label).status, contentOf(label).output.id], [undefined, 'succeeded', 'INBOX']);
  assert.deepEqual([inside(label).id !== undefined, inside(detail).id], [true, undefined]);
  const stored = await server.call(account.key, 'GET', `/api/executions/${contentOf(label).execution_id}`);
  assert.deepEqual(stored.json, contentOf(label));
});

// Some clients show both copies to a model. Others show only the object, which lists the pointers of
// its data from outside.
test('structuredContent is only for a program that asks for it, and does not contain null', async () => {
  const args = { integration_id: 'probe', action_id: 'echo', input: { value: { none: null, list: [1, null, { gone: null }], text: 'x' } } };
  const plain = await mcp.call('run_action', args);
  assert.equal('structuredContent' in plain, false);
  const asked = new Mcp(server.base, account.key, '/mcp?structured=1');
  for (const result of [await asked.call('run_action', args), await mcp.call('run_action', args, { meta: { 'sluice/structured': true } })]) {
    assert.deepEqual(result.structuredContent.output.value, { list: [1, null, {}], text: 'x' });
    assert.deepEqual(contentOf(result).output.value, args.input.value);
    assert.doesNotMatch(JSON.stringify(result.structuredContent), /:null/);
  }
  const blocked = await asked.call('probe_send', { subject: 'mcp structured' });
  assert.deepEqual([blocked.isError, blocked.structuredContent.error_code], [true, 'policy_blocked']);
  assert.match((await new Mcp(server.base, account.key, '/mcp?structured=maybe').ask('tools/list')).error.message, /^structured must be /);
  assert.match((await mcp.ask('ping', {}, { meta: { 'sluice/structured': 1 } })).error.message, /"sluice\/structured" must be true or false, got /);
});

test('a failure is a result that says what to do, and only an unknown name is an error', async () => {
  const wrong = async (name, args, pattern) => {
    const result = await mcp.call(name, args);
    const it = contentOf(result), { isError } = result;
    assert.equal(isError, true, name);
    assert.match(it.error ?? `${it.error_code} ${it.message} ${it.hint}`, pattern);
  };
  await wrong('run_action', { integration_id: 'probe' }, /integration_id, action_id and an object input are required/);
  await wrong('run_action', { integration_id: 'nope', action_id: 'x', input: {} }, /integration_not_found/);
  await wrong('run_action', { integration_id: 'notion', action_id: 'search', input: {} }, /integration_not_connected/);
  await wrong('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 7 } }, /validation_error .*\/input\/id/);
  await wrong('run_action', { integration_id: 'probe', action_id: 'send', input: { subject: 'x' }, confirmed: true }, /use confirm/);
  await wrong('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' }, connection_id: {} }, /connection_id must be/);
  await wrong('probe_read_label', { id: 7 }, /validation_error .*"?\/id/);
  await wrong('probe_send', { subject: 'x', confirm: 'yes' }, /confirm must be true or false, got string/);
  await wrong('search_actions', {}, /query is required/);
  await wrong('search_actions', { query: 'mail', queries: ['mail'] }, /query or queries, not both/);
  for (const queries of ['["mail"', '', [], [''], [1], Array(6).fill('mail')]) await wrong('search_actions', { queries }, /queries must be a list of 1 to 5 texts/);
  for (const include of ['all', ['all']]) await wrong('describe_action', { integration_id: 'gmail', action_id: 'get_message', include }, /include must be a list of output/);
  await wrong('search_actions', { query: 'mail', limit: 'many' }, /limit must be a whole number, got "many"/);
  await wrong('search_actions', { query: 'mail', limit: [1] }, /limit must be/);
  await wrong('describe_action', { integration_id: 'gmail' }, /integration_id and action_id are required/);
  await wrong('describe_action', { integration_id: 'gmail', action_id: 'nope' }, /action_not_found/);
  await wrong('get_flow', { flow_id: 'nope' }, /Flow not found/);
  await wrong('start_flow', { template: 'nope' }, /Unknown flow template/);
  for (const tool of (await mcp.ask('tools/list')).result.tools) {
    const args = Object.fromEntries((tool.inputSchema.required ?? []).map((name) => [name, name === 'input' ? {} : 'x']));
    await wrong(tool.name, { ...args, lines: 3 }, /lines/); // an argument that is not in the tool's schema
  }
  await wrong('connect_app', { integration_id: 'nope' }, /There is no integration "nope"/);
  const unknown = await mcp.ask('tools/call', { name: 'gmail_send_mesage', arguments: {} });
  assert.equal(unknown.error.code, -32602);
  assert.match(unknown.error.message, /Unknown tool: .*did you mean "gmail_send_message"/);
  assert.equal((await mcp.ask('tools/call', { name: 'search_actions', arguments: [] })).error.code, -32602);
});

test('a write runs only with confirm, and once for an idempotency key', async () => {
  const sent = async (subject) => (await stack.provider.ledger()).filter((one) => JSON.stringify(one).includes(subject)).length;
  const before = (await stack.provider.ledger()).length;
  const blocked = await run('probe', 'send', { subject: 'mcp one' });
  assert.deepEqual([blocked.isError, contentOf(blocked).error_code], [true, 'policy_blocked']);
  assert.equal(contentOf(await mcp.call('probe_send', { subject: 'mcp one' })).error_code, 'policy_blocked');
  assert.equal((await stack.provider.ledger()).length, before);
  const one = await run('probe', 'send', { subject: 'mcp one' }, { confirm: true, idempotency_key: 'mcp-1' });
  const again = await run('probe', 'send', { subject: 'mcp one' }, { confirm: true, idempotency_key: 'mcp-1' });
  assert.equal(contentOf(one).status, 'succeeded');
  const replayed = (result) => ({ idempotent_replayed: true, ...contentOf(result) });
  assert.deepEqual(contentOf(again), replayed(one));
  const args = { subject: 'mcp two', confirm: true }, options = { meta: { 'sluice/idempotency_key': 'mcp-2' } };
  const two = await mcp.call('probe_send', args, options);
  assert.equal(contentOf(two).status, 'succeeded');
  assert.deepEqual(contentOf(await mcp.call('probe_send', args, options)), replayed(two));
  // the same key as an argument, which a model can set
  assert.deepEqual(contentOf(await mcp.call('probe_send', { ...args, idempotency_key: 'mcp-2' })), replayed(two));
  assert.match(contentOf(await mcp.call('probe_send', { ...args, idempotency_key: 7 })).error, /^idempotency_key must be a string, got /);
  assert.match(contentOf(await mcp.call('probe_send', { ...args, idempotency_key: 'mcp-3' }, options)).error, /differ/);
  const other = await mcp.call('probe_send', { ...args, subject: 'mcp three' }, options);
  assert.equal(contentOf(other).error_code, 'validation_error');
  // If a key is not a string, or two keys differ, nothing runs.
  for (const key of [5, true, { a: 1 }, ['x']]) {
    const { error } = await mcp.ask('tools/call', { name: 'probe_send', arguments: args }, { meta: { 'sluice/idempotency_key': key } });
    assert.match(error.message, /^params\._meta: "sluice\/idempotency_key" must be a string, got /);
  }
  const both = await run('probe', 'send', { subject: 'mcp one' }, { confirm: true, idempotency_key: 'mcp-1' }, options);
  assert.match(both.content[0].text, /idempotency_key and _meta's \\?"sluice\/idempotency_key\\?" differ/);
  const start = await mcp.call('start_flow', { template: 'probe_approve', input: { subject: 'x' }, idempotency_key: 'mcp-1' }, options);
  assert.match(start.content[0].text, /differ/);
  assert.equal((await stack.provider.ledger()).length, before + 2, `${await sent('mcp')}`);
});

test('a large output is cut, and the rest is a resource', async () => {
  const value = Array.from({ length: 3000 }, (_, at) => `item ${at} END 0000000000000000 \u0000 "`);
  const cut = await run('probe', 'echo', { value });
  const { output, execution_id: id } = contentOf(cut);
  assert.equal(output.truncated, true);
  assert.ok(JSON.stringify(output).length < 40000);
  // A link in the content would end the run of some clients. The text has the address.
  assert.deepEqual(cut.content.map(({ type }) => type), ['text']);
  assert.ok(output.cuts[0].more.startsWith(`sluice://executions/${id}`));
  const items = [...output.preview.value];
  for (let more = output.cuts[0].more; more; ) {
    assert.match(more, /^sluice:\/\/executions\//);
    const { result } = await mcp.ask('resources/read', { uri: more });
    assert.deepEqual([result.contents[0].uri, result.cacheScope], [more, 'private']);
    const part = contentOf(result).output;
    items.push(...(part.truncated ? part.preview : part));
    more = part.truncated ? part.cuts[0].more : null;
  }
  assert.deepEqual(items, value);
  const whole = await mcp.ask('resources/read', { uri: `sluice://executions/${id}?max_output_bytes=1000000` });
  assert.deepEqual(contentOf(whole.result).output.value, value);
});

test('read_result reads on like the resource, for clients that only know tools', async () => {
  const value = Array.from({ length: 2000 }, (_, at) => `item ${at} END 0000000000000000 \u0000 "`);
  const { output, execution_id } = contentOf(await run('probe', 'echo', { value }));
  const items = [...output.preview.value];
  for (let cut = output.cuts[0]; cut; ) {
    const args = { execution_id, pointer: cut.pointer, offset: cut.kept };
    const [read, { result }] = [await mcp.call('read_result', args), await mcp.ask('resources/read', { uri: cut.more })];
    assert.deepEqual([read.isError, read.structuredContent], [undefined, undefined]);
    // the same object, marked in the same way
    const [ours, theirs] = [inside(read), marked(result.contents[0].text)];
    assert.deepEqual([ours.own, ours.outside], [theirs.own, theirs.outside]);
    assert.ok(ours.id && ours.id !== theirs.id);
    const part = ours.json.output;
    items.push(...(part.truncated ? part.preview : part));
    cut = part.truncated ? part.cuts[0] : null;
  }
  assert.deepEqual(items, value);
  const program = new Mcp(server.base, account.key, '/mcp?structured=1');
  const { structuredContent } = await program.call('read_result', { execution_id, pointer: '/value/7' });
  assert.deepEqual([structuredContent.output, structuredContent.outside.includes('/output')], [value[7], true]);
  assert.equal(contentOf(await mcp.call('read_result', { execution_id })).output.truncated, true);
  const refused = async (args, pattern, at = mcp) => {
    const result = await at.call('read_result', args);
    assert.deepEqual([result.isError, pattern.test(contentOf(result).error)], [true, true], JSON.stringify(result));
  };
  await refused({ execution_id, pointer: '/nope' }, /^The output of this execution has no value at "\/nope"/);
  await refused({ execution_id, offset: 'x' }, /^offset must be a whole number/);
  await refused({ execution_id, max_output_bytes: 1 }, /^read_result has no argument max_output_bytes\. Its arguments are execution_id, pointer, offset, select, view\./);
  await refused({ execution_id: 'x' }, /^Execution not found/);
  await refused({}, /^Execution not found/);
  await refused({ execution_id }, /^Execution not found/, new Mcp(server.base, (await stack.account('Reader', { apps: [] })).key));
  await refused({ execution_id }, /lacks the scope "read"/, new Mcp(server.base, await stack.key(account.id, ['--scopes', 'execute'])));
});

test('resources', async () => {
  assert.deepEqual((await mcp.ask('resources/list')).result.resources, []);
  const { result } = await mcp.ask('resources/templates/list');
  assert.deepEqual(result.resourceTemplates.map((one) => one.name), ['execution', 'flow']);
  for (const uri of ['test://x', 'sluice://executions/nope', `sluice://executions/${account.id}`, 'sluice://flows/x', 'sluice://executions/?pointer=%zz', '']) {
    const { error, status } = await mcp.ask('resources/read', { uri });
    assert.deepEqual([status, error.code, error.data.uri], [200, -32602, uri]);
    assert.equal((await mcp.askLegacy('resources/read', { uri })).error.code, -32002);
  }
});

test('a flow in a result is lean, and include adds the rest', async () => {
  const view = async (id) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;
  const read = async (flow_id, args = {}) => contentOf(await mcp.call('get_flow', { flow_id, ...args }));
  const flowOf = ({ flow }, ...more) => Object.fromEntries(['id', 'rev', ...(flow.title === flow.name ? [] : ['title']), 'templateKey', 'status', ...more].map((name) => [name, flow[name]]));
  const stepsOf = ({ steps }, ...more) => steps.map((step) => Object.fromEntries(
    ['stepKey', 'status', ...more].filter((name) => step[name] !== null && step[name] !== undefined).map((name) => [name, step[name]])));
  const started = await mcp.call('start_flow', { template: 'probe_approve', input: { subject: 'lean' } });
  const id = contentOf(started).flowId;
  const asks = await read(id, { wait: 60 });
  const whole = await view(id);
  const waiting = whole.steps.find((step) => step.status === 'waiting');
  assert.ok(waiting.input && asks.hint.includes(`${server.base}/flows/${id}`), asks.hint);
  assert.deepEqual(asks, { flow: flowOf(whole, 'currentStep'), steps: stepsOf(whole, 'expiresAt'), to_approve: waiting.input, hint: asks.hint });
  const steps = await read(id, { include: ['steps'] });
  assert.deepEqual(steps, { flow: flowOf(whole, 'currentStep'), steps: whole.steps, hint: asks.hint });
  assert.deepEqual(await read(id, { include: ['context', 'steps'] }), { flow: flowOf(whole, 'input', 'context', 'currentStep'), steps: whole.steps, hint: asks.hint });
  for (const include of ['all', ['all'], [1], [['steps']], {}]) assert.match((await read(id, { include })).error, /^include must be a list of/);
  assert.match((await read(id, { until: 'soon' })).error, /^until must be/);
  // Waits for a person's decision.
  const decided = read(id, { wait: 60, until: 'ended' });
  assert.equal((await server.call(account.key, 'POST', `/api/flows/${id}/approve`)).status, 200);
  const ended = await decided, end = await view(id);
  const last = end.steps.findLast((step) => step.output !== null);
  assert.deepEqual(ended, { flow: flowOf(end, 'currentStep'), steps: stepsOf(end), output_of: last.stepKey, output: last.output });
  assert.equal(ended.flow.status, 'completed');
  // A failed step has its error, and a large output its size.
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status: 404 } }]);
  const fails = contentOf(await mcp.call('start_flow', { template: 'api_gate', input: { id: 'INBOX' } })).flowId;
  const failed = await read(fails, { wait: 60 });
  await stack.provider.faults([]);
  assert.deepEqual(failed, { flow: flowOf(await view(fails), 'currentStep'), steps: stepsOf(await view(fails), 'error') });
  assert.equal(failed.steps[0].error.code, 'execution_failed');
  const large = contentOf(await mcp.call('start_flow', { template: 'probe_chain', input: { subject: 'x'.repeat(40_000), confirm: true } })).flowId;
  const cut = await read(large, { wait: 60 });
  assert.ok(cut.output_bytes > 40_000 && !cut.output && cut.hint, JSON.stringify(cut));
  assert.equal((await read(large, { include: ['steps'] })).steps.findLast((step) => step.output).output.subject.length, 40_000);
});

test('a flow and a connect link', async () => {
  const template = (await server.call(account.key, 'GET', '/api/flows/templates')).json.templates.find((one) => /unread/i.test(one.description)).key;
  const started = await mcp.call('start_flow', { template, input: {} });
  assert.equal(started.isError, undefined, JSON.stringify(contentOf(started)));
  const { flowId } = contentOf(started);
  assert.deepEqual(Object.keys(contentOf(started)), ['flowId', 'flow']);
  const done = await mcp.call('get_flow', { flow_id: flowId, wait: 60 });
  assert.equal(contentOf(done).flow.status, 'completed');
  assert.equal((await server.call(account.key, 'GET', `/api/flows/${flowId}`)).json.flow.triggerType, 'agent');
  const read = await mcp.ask('resources/read', { uri: `sluice://flows/${flowId}` });
  assert.equal(contentOf(read.result).flow.id, flowId);
  const large = await mcp.call('start_flow', { template: 'probe_chain', input: { subject: 'x'.repeat(1_100_000), confirm: true } });
  const id = contentOf(large).flowId;
  const whole = contentOf(await mcp.call('get_flow', { flow_id: id, include: ['context'] }));
  assert.deepEqual([whole.truncated, whole.flowId, inside(large).json.flowId], [true, id, id]);
  assert.match((await mcp.ask('resources/read', { uri: `sluice://flows/${id}` })).error.message, /Too large/);
  const link = await mcp.call('connect_app', { integration_id: 'notion' });
  assert.match(contentOf(link).url, /^http.*\/connect\//);
});

for (const mode of ['legacy', 'auto', { pin: MODERN }])
  test(`the SDK’s client, ${JSON.stringify(mode)}`, async () => {
    const client = await connect(server.base, account.key, { mode, path: '/mcp?tools=probe' });
    const { tools } = await client.listTools();
    assert.ok(tools.some((tool) => tool.name === 'probe_send'));
    const found = await client.callTool({ name: 'search_actions', arguments: { query: 'read a label' } });
    assert.match(found.content[0].text, /^probe read_label\(id!\)  read  connected  /m);
    const label = await client.callTool({ name: 'probe_read_label', arguments: { id: 'INBOX' } });
    assert.equal(contentOf(label).output.id, 'INBOX');
    assert.deepEqual((await client.listResources()).resources, []);
    assert.ok(client.seen.every((one) => (one.version === MODERN) === (mode !== 'legacy')));
    await client.close();
  });

test('the SDK’s client for earlier revisions', async () => {
  const client = new OldClient({ name: 'old', version: '1' });
  await client.connect(new OldTransport(new URL(`${server.base}/mcp`), { requestInit: { headers: { authorization: `Bearer ${account.key}` } } }));
  assert.match(client.getInstructions(), /search_actions/);
  assert.deepEqual((await client.listTools()).tools.map((tool) => tool.name), OWN);
  await client.ping();
  const label = await client.callTool({ name: 'run_action', arguments: { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } } });
  assert.equal(contentOf(label).output.id, 'INBOX');
  await assert.rejects(client.callTool({ name: 'nope', arguments: {} }), /Unknown tool/);
  await client.close();
});

test('list_connections says what a model needs to choose one', async () => {
  const result = await mcp.call('list_connections', { integration_id: 'gmail' }, { meta: { 'sluice/structured': true } });
  const { connections } = result.structuredContent;
  const all = (await server.call(account.key, 'GET', '/api/connections?integration_id=gmail')).json.connections;
  const loginOf = ({ identity }) => identity && (identity.label ?? identity.email ?? identity.subject);
  assert.deepEqual(connections, all.map(({ id, integration_id, label, identity, status, default: is_default }) => ({
    id, integration_id, label, ...(identity && { identity: loginOf({ identity }) }), status, default: is_default })));
  assert.ok(connections.length > 0);
  const lines = result.content[0].text.split('\n');
  for (const one of all) {
    const login = one.identity ? `  login ${JSON.stringify(loginOf(one))}` : '';
    assert.ok(lines.includes(`${one.id}  gmail  ${JSON.stringify(one.label)}${login}  ${one.status}${one.default ? '  default' : ''}`), lines.join('\n'));
  }
  assert.doesNotMatch(result.content[0].text, /There is more/);
});

test('a connection is named by its label, and a result names it where an app has several', async () => {
  const several = await stack.account('several', { apps: ['gmail', 'probe'] });
  const at = new Mcp(server.base, several.key);
  const read = async (more = {}) => contentOf(await at.call('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' }, ...more }));
  const [first] = (await at.call('list_connections', { integration_id: 'probe' }, { meta: { 'sluice/structured': true } })).structuredContent.connections;
  assert.equal((await read()).connection, undefined);
  const second = String(await stack.connect(several.id, 'probe', { token: 'ya29.demo-gmail-full' }));
  const label = async (id, text) => assert.equal((await server.call(several.key, 'PATCH', `/api/connections/${id}`, { label: text })).status, 200);
  await label(first.id, 'work');
  await label(second, 'at "home" END');
  assert.deepEqual((await read()).connection, { id: first.id, label: 'work' });
  for (const [name, id] of [['work', first.id], ['at "home" END', second], [second, second], [Number(second), second]]) {
    const dry = await read({ connection_id: name, dry_run: true });
    assert.equal(dry.connection.id, id, JSON.stringify(dry));
    assert.equal((await read({ connection_id: name })).status, 'succeeded', name);
  }
  // Labels are data from outside: sentences name ids alone, and a marked member has the labels.
  const refusal = async (connection_id, key = several.key) => inside(await new Mcp(server.base, key).call('run_action', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' }, connection_id }));
  const ids = [{ id: first.id }, { id: second }];
  const wrong = await refusal('wrok');
  assert.deepEqual(wrong.own, { error: 'No connection of probe has this label. Nothing was done. Choose one of `connections`.', connections: ids });
  assert.deepEqual(wrong.outside, { connections: [{ label: 'work' }, { label: 'at "home" END' }] });
  const blind = await refusal('wrok', await stack.key(several.id, ['--scopes', 'execute']));
  assert.deepEqual([blind.own.connections, blind.outside], [ids, undefined]);
  await label(second, 'work');
  const both = await refusal('work');
  assert.match(both.own.error, /^Several connections of probe have this label\. .* by its id\.$/);
  assert.deepEqual(both.json.connections, ids.map((one) => ({ ...one, label: 'work' })));
  // With no connection, or no such app, the execution says so.
  assert.equal((await read({ integration_id: 'notion', action_id: 'get_self', input: {}, connection_id: 'work' })).error_code, 'integration_not_connected');
  assert.equal((await read({ integration_id: 'nope', connection_id: 'work' })).error_code, 'integration_not_found');
  // A form shows the connection of the label, and the answer is for that one alone.
  await label(second, 'home');
  const args = { integration_id: 'probe', action_id: 'send', input: { subject: 'from home' }, connection_id: 'home' };
  const asked = await at.ask('tools/call', { name: 'run_action', arguments: args }, { capabilities: { elicitation: {} } });
  const [[name, form]] = Object.entries(asked.result.inputRequests);
  assert.match(JSON.stringify(form), new RegExp(`with the connection ${second}: `));
  const answer = { requestState: asked.result.requestState, inputResponses: { [name]: { action: 'accept', content: { confirm: true } } } };
  const other = await at.ask('tools/call', { name: 'run_action', arguments: { ...args, connection_id: 'work' }, ...answer }, { capabilities: { elicitation: {} } });
  assert.match(other.error.message, /belongs to another call/);
  const before = (await stack.provider.ledger()).length;
  const sent = await at.ask('tools/call', { name: 'run_action', arguments: args, ...answer }, { capabilities: { elicitation: {} } });
  assert.equal(contentOf(sent.result).status, 'succeeded', JSON.stringify(sent.result));
  assert.equal((await stack.provider.ledger()).length, before + 1);
  // Without a default, hints and errors name ids, too.
  await stack.cluster.sql(`update sluice.connection set is_default = false where account_id = '${several.id}' and integration_id = 'probe'`);
  const ambiguous = await until('the change is seen', async () => {
    const result = await refusal(undefined);
    return result.own.error_code === 'policy_blocked' && result;
  });
  assert.match(ambiguous.own.hint, new RegExp(`run_action with connection_id, one of ${first.id}, ${second}\\. list_connections shows their labels\\.$`));
  assert.deepEqual(Object.keys(ambiguous.own.display), ['title'], JSON.stringify(ambiguous.own));
  const link = inside(await at.call('connect_app', { integration_id: 'probe', force_reconnect: true }));
  assert.match(link.own.error, new RegExp(`with connection_id: ${first.id}, ${second}\\. list_connections shows their labels\\.$`));
});
