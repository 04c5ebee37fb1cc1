// GET /openapi.json is the contract of the whole server: prism proxy runs between a client and the
// server, and compares every kind of reply with it. The test also changes one part of each reply at
// a time on its way, and prism must report that. tests/unit/api/test_openapi.c compares the
// document's paths with the routes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { until } from './support/client.mjs';
import { Contract, changes } from './support/contract.mjs';
import { Judge } from './support/judge.mjs';
import { run } from './support/process.mjs';
import { Raw } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

const redocly = new URL('node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname;
const write = { to: 'ada@example.com', subject: 'Contract', text: 'x' };
const asked = []; // requests to prism: {method, url}
let stack, server, account, other, revoked, reader, contract;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail', 'notion', 'probe'] });
  other = await stack.account('Other', { apps: [] });
  revoked = await stack.account('Revoked', { apps: [] });
  await stack.connect(revoked.id, 'gmail', { access_token: 'revoked' });
  reader = await stack.key(account.id, ['--scopes', 'read']);
  server = await stack.serve({ args: ['--webhook-host', '127.0.0.1'] });
  contract = await Contract.start(server.base, stack.dir);
  const call = contract.call.bind(contract);
  contract.call = (key, method, path, ...more) => {
    asked.push({ method, url: new URL(path, server.base) });
    return call(key, method, path, ...more);
  };
});
after(async () => {
  await contract?.stop();
  await stack?.stopWell(assert);
});

// The reply matches the document, and none of its changed versions does. at: further positions to
// change in the reply.
async function judge(status, reply, at = [], names = Object.keys(changes)) {
  const what = `${reply.again.method} ${reply.again.path}`;
  assert.deepEqual(reply.violations, [], `${what}: ${reply.real.status} ${reply.real.text.slice(0, 2000)}`);
  assert.equal(reply.status, status, `${what}: ${reply.text.slice(0, 2000)}`);
  assert.equal(reply.real.status, status);
  for (const [change, place] of [...names.map((name) => [name, '']), ...at.map((one) => ['a member more', one])]) {
    const altered = await contract.changed(reply, change, place);
    if (altered) assert.notDeepEqual(altered.violations, [], `${what} ${status}: ${change} at "${place}" was not noticed`);
    else assert.ok(place === '', `${what}: nothing at ${place}`);
  }
  return reply;
}

const get = (path, headers, key = account.key) => contract.call(key, 'GET', path, undefined, headers);
const post = (path, body, headers, key = account.key) => contract.call(key, 'POST', path, body, headers);
const execute = (integration_id, action_id, input, more = {}) =>
  post('/api/executions', { integration_id, action_id, input, ...more });
const tool = (name, body, headers, key) =>
  post(name.includes('/') ? `/api/tools/${name}` : `/api/tools/${name}/execute`, body, headers, key);

// One rule is left out: a flow's id is a UUID, so /api/flows/templates/{key} does not conflict with
// /api/flows/{id}/...
test('a linter finds no fault in the document', async () => {
  const { code, stdout, stderr } = await run(process.execPath, [redocly, 'lint', '--skip-rule', 'no-ambiguous-paths', '--format', 'stylish', contract.file], {
    env: { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  assert.equal(code, 0, stdout + stderr);
  assert.doesNotMatch(stdout, /warning/i);
});

// The document allows more members in every reply. The tests compare replies with a copy that does
// not allow them: prism uses such a copy (above), and SLUICE_CONTRACT=1 checks every test with one.
test('a member that the document does not have is a fault only in the tests', async () => {
  const open = new Ajv2020({ strict: false, validateFormats: false }).addSchema(contract.served, 'served');
  const every = new Judge(contract.served);
  const path = '/api/actions/gmail/send_message';
  const reply = await server.call(account.key, 'GET', path);
  assert.equal(every.problem('GET', path, reply), '');
  for (const place of ['', 'input_summary', 'examples.0', 'preconditions.0']) {
    const more = { ...reply, json: structuredClone(reply.json) };
    place.split('.').reduce((at, key) => (key ? at[key] : at), more.json).unexpected = 1;
    assert.match(every.problem('GET', path, more), /must NOT have additional properties/, place);
    assert.ok(open.getSchema('served#/components/schemas/ActionDetail')(more.json), place);
  }
});

test('it is served without a key, with an ETag', async () => {
  const plain = await fetch(`${server.base}/openapi.json`);
  assert.equal(plain.headers.get('content-type'), 'application/json; charset=utf-8');
  const etag = plain.headers.get('etag');
  assert.match(etag, /^"[0-9a-f]{16}"$/);
  for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    const again = await fetch(`${server.base}/openapi.json`, { headers: { 'if-none-match': known } });
    assert.deepEqual([again.status, await again.text(), again.headers.get('etag')], [304, '', etag], known);
  }
  const head = await fetch(`${server.base}/openapi.json`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('etag')], [200, etag]);
});

test('for operators', async () => {
  await judge(200, await get('/healthz'));
  await judge(200, await get('/readyz'));
  const metrics = await get('/metrics');
  assert.deepEqual([metrics.status, metrics.violations], [200, []]);
  const document = await get('/openapi.json');
  assert.deepEqual([document.status, document.violations], [200, []]);
  await judge(304, await get('/openapi.json', { 'if-none-match': document.headers.get('etag') }));
});

test('the catalog, every action of it', async () => {
  const list = await judge(200, await get('/api/integrations?page_size=100'), ['/items/0']);
  await judge(200, await get('/api/integrations?query=mail&connected_only=true&category=email&page=2&page_size=0'));
  await judge(200, await get('/api/integrations?supports_action=send_message', {}, other.key));
  await judge(200, await get('/api/search?query=create+a+notion+page'), ['/items/0']);
  await judge(200, await get('/api/search?query=gmail&limit=1'), ['/items/0']);
  await judge(200, await get('/api/search?query=list&connected_only=true', {}, other.key));
  await judge(200, await get('/api/actions?integration_id=gmail&intent=send+a+mail&limit=2'), ['/items/0']);
  await judge(200, await get('/api/actions/gmail/send_message'), ['/input_summary', '/examples/0', '/preconditions/0']);
  for (const path of ['/api/integrations', '/api/search?query=mail', '/api/actions?integration_id=gmail', '/api/actions/gmail/list_labels']) {
    const etag = (await get(path)).headers.get('etag');
    await judge(304, await get(path, { 'if-none-match': etag }));
  }
  const blocked = ['/display'];
  assert.equal((await judge(409, await get('/api/actions?integration_id=nope'), blocked)).json.action_id, null);
  await judge(409, await get('/api/actions/nope/x'), blocked);
  await judge(409, await get('/api/actions/gmail/nope'), blocked);
  // one action of each integration through prism, the rest only with the schema
  let seen = 0;
  for (const { integration_id, capabilities } of list.json.items)
    for (const [at, action_id] of capabilities.entries()) {
      const path = `/api/actions/${integration_id}/${action_id}`;
      if (at === 0) assert.deepEqual((await get(path)).violations, [], path);
      const { json } = await server.call(account.key, 'GET', path);
      assert.equal(contract.problems('/components/schemas/ActionDetail', json), '', path);
      seen++;
    }
  assert.ok(seen > 200, `${seen} actions`);
});

test('executions', async () => {
  const done = await judge(200, await execute('gmail', 'list_labels', {}), ['/display']);
  await judge(200, await get(`/api/executions/${done.json.execution_id}`), ['/display']);
  const without = await judge(200, await get(`/api/executions/${done.json.execution_id}?include=input`), ['/display']);
  assert.deepEqual([without.json.input, without.json.input_missing], [null, 'not_kept']);
  await judge(400, await get(`/api/executions/${done.json.execution_id}?include=output`));
  await judge(200, await execute('gmail', 'send_message', write, { confirm: true, dry_run: true }), ['/request']);
  await judge(200, await execute('gmail', 'trash_message', { id: '19a4b6c7d8e90001' }, { dry_run: true, shows: true }), ['/request', '/shows']);
  for (const replayed of [null, 'true']) {
    const once = await execute('gmail', 'send_message', write, { confirm: true, idempotency_key: 'contract-1' });
    assert.equal(once.headers.get('idempotent-replayed'), replayed);
    await judge(200, once);
    assert.deepEqual((await judge(200, await get(`/api/executions/${once.json.execution_id}?include=input`))).json.input, write);
  }
  await judge(409, await execute('gmail', 'send_message', write), ['/display']);
  await judge(409, await execute('gmail', 'send_message', { ...write, to: 1 }));
  await judge(409, await execute('gmail', 'send_message', { ...write, to: 1 }, { confirm: true }));
  await judge(409, await execute('gmail', 'send_message', { ...write, to: 'eve@example.com' }, { confirm: true, idempotency_key: 'contract-1' }));
  await judge(409, await execute('nope', 'x', {}));
  await judge(409, await execute('gmail', 'nope', {}));
  await judge(
    409,
    await post('/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input: {} }, {}, other.key),
    ['/recommended_next_action', '/recommended_next_action/input'],
  );
  await judge(400, await execute('gmail', 'list_labels', 'text'));
  await judge(400, await execute('gmail', 'list_labels', {}, { confirm: 'yes' }));
});

test('outputs that are cut', async () => {
  const value = Array.from({ length: 300 }, (_, at) => `item ${at}`);
  const cut = await judge(200, await execute('probe', 'echo', { value }, { max_output_bytes: 500 }));
  const schema = '/components/schemas/CutOutput';
  assert.equal(contract.problems(schema, cut.json.output), '');
  assert.notEqual(contract.problems(schema, { ...cut.json.output, unexpected: 1 }), '');
  await judge(200, await get(cut.json.output.cuts[0].more));
  const path = `/api/executions/${cut.json.execution_id}`;
  await judge(404, await get(`${path}?pointer=/nothing`));
  await judge(400, await get(`${path}?max_output_bytes=0`));
  await judge(200, await tool('probe_echo/execute?max_output_bytes=500', { value }));
  for (const select of ['value[-1]', 'abs(value)']) {
    const query = `select=${encodeURIComponent(select)}`;
    await judge(200, await execute('probe', 'echo', { value }, { select }));
    await judge(200, await get(`${path}?${query}`));
    await judge(200, await tool(`probe_echo/execute?${query}`, { value }));
  }
  await judge(400, await execute('probe', 'echo', { value }, { select: 'value[' }));
  await judge(400, await get(`${path}?select=value%5B`));
});

test('executions that the provider fails', async () => {
  const faulty = async (status, more = {}) => {
    await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status, ...more } }]);
    return execute('gmail', 'send_message', write, { confirm: true });
  };
  try {
    const limited = await judge(500, await faulty(429, { retry_after: 7 }), ['/display']);
    assert.deepEqual([limited.json.error_code, limited.headers.get('retry-after')], ['rate_limited', '7']);
    await judge(200, await get(`/api/executions/${limited.json.execution_id}`), ['/display']);
    await judge(500, await faulty(400));
    await judge(500, await faulty(403));
    await judge(500, await faulty(500));
    await judge(500, await faulty(501));
    await judge(500, await tool('gmail_send_message', { ...write, confirmed: true }), ['/error', '/canonical', '/canonical/display']);
  } finally {
    await stack.provider.faults([]);
  }
  // the provider's 401: the account has to be connected again
  const refused = ['/recommended_next_action', '/recommended_next_action/input'];
  const body = { integration_id: 'gmail', action_id: 'list_labels', input: {} };
  const dead = await judge(409, await post('/api/executions', body, {}, revoked.key), refused);
  assert.equal(dead.json.error_code, 'reauth_required');
  await judge(409, await tool('gmail_list_labels', {}, {}, revoked.key), ['/error', '/canonical', '/canonical/recommended_next_action/input']);
});

test('lists', async () => {
  const some = await judge(200, await get('/api/executions?limit=1&integration_id=gmail'), ['/executions/0']);
  await judge(200, await get(`/api/executions?status=succeeded&cursor=${some.json.next_cursor}`));
  await judge(200, await get('/api/executions?display=true&since=24h&integration_id=gmail&status=succeeded'), ['/executions/0', '/executions/0/display']);
  await judge(200, await get('/api/executions?since=2026-01-31&until=0m'));
  await judge(200, await get(`/api/executions?q=${some.json.executions[0].execution_id}`), ['/executions/0']);
  for (const wrong of ['since=soon', 'display=x', 'flow_calls=x', 'until=soon', 'q=!']) await judge(400, await get(`/api/executions?${wrong}`));
  const failed = await judge(200, await get('/api/executions?status=failed'), ['/executions/0']);
  assert.ok(failed.json.executions.some((one) => one.error_code === 'rate_limited'));
  const ask = (message, headers, path = '/mcp') => post(path, { jsonrpc: '2.0', id: 1, ...message }, headers);
  await judge(200, await ask({ method: 'tools/list' }, {}, '/mcp?tools=gmail'));
  const program = { method: 'tools/call', params: { name: 'search_actions', arguments: { query: 'mail' } } };
  const found = await judge(200, await ask(program, {}, '/mcp?structured=true'));
  assert.ok(found.json.result.structuredContent.items.length > 0);
  await judge(200, await ask({ method: 'resources/read', params: { uri: 'x' } }), ['/error']);
  await judge(400, await ask({ jsonrpc: '1.0' }), ['/error']);
  await judge(403, await ask({ method: 'ping' }, { origin: 'https://elsewhere.example' }), ['/error']);
  const modern = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'prompts/list' };
  await judge(404, await ask({ method: 'prompts/list', params: { _meta: modern } }, headers), ['/error']);
  const accepted = await post('/mcp', { jsonrpc: '2.0', method: 'notifications/initialized' });
  assert.deepEqual([accepted.status, accepted.violations], [202, []]);
  await judge(200, await get('/api/stats?hours=24&integration_id=gmail'));
  await judge(400, await get('/api/stats?hours=2'));
  await judge(200, await get('/api/audit'), ['/events/0']);
  const events = await judge(200, await get('/api/audit?kind=execution&limit=1'), ['/events/0']);
  await judge(200, await get(`/api/audit?limit=1&cursor=${events.json.next_cursor}`));
  const blocked = await judge(200, await get('/api/executions?status=blocked'), ['/executions/0']);
  const { error_code, api_key } = blocked.json.executions[0];
  await judge(200, await get(`/api/executions?status=everything&error_code=${error_code}&key_id=${api_key.id}&action_id=${blocked.json.executions[0].action_id}`), ['/executions/0']);
  await judge(400, await get('/api/executions?status=blockd'));
  await judge(400, await get('/api/audit?limit=0'));
  await judge(403, await get('/api/audit', {}, reader));
});

test('the tool endpoint', async () => {
  await judge(200, await tool('gmail_list_labels', {}), ['/meta', '/meta/provider', '/canonical', '/canonical/display']);
  await judge(200, await tool('gmail_send_message/execute?dry_run=true', { ...write, confirmed: true }), ['/request']);
  await judge(200, await tool('gmail_trash_message/execute?dry_run=true&shows=true', { arguments: { id: '19a4b6c7d8e90001' } }), ['/request', '/shows']);
  await judge(200, await tool('gmail_list_labels/execute?max_pages=2', {}));
  const file = { name: 'a.txt', contentType: 'text/plain', data: Buffer.from('hello').toString('base64') };
  for (const replayed of [null, 'true']) {
    const once = await tool('gmail_send_message', { ...write, confirmed: true }, { 'idempotency-key': 'contract-2' });
    assert.equal(once.headers.get('idempotent-replayed'), replayed);
    await judge(200, once, ['/meta']);
  }
  await judge(412, await tool('gmail_send_message', write), ['/error', '/canonical']);
  await judge(412, await tool('gmail_send_message', { to: 1 }), ['/error', '/canonical']);
  await judge(409, await tool('gmail_send_message', { to: 1, confirmed: true }), ['/error', '/canonical']);
  await judge(409, await tool('gmail_list_labels', { files: [file] }), ['/error']);
  await judge(409, await tool('gmail_list_labels', { connectionId: '42' }), ['/error', '/canonical']);
  await judge(409, await tool('gmail_nope', {}));
  await judge(409, await tool('nope_nope', {}));
  await judge(400, await tool('gmail_list_labels', { arguments: 1 }));
});

test('the document’s examples can be sent', async () => {
  const { connections } = (await server.call(account.key, 'GET', '/api/connections?integration_id=gmail')).json;
  const id = contract.served.components.parameters.ConnectionId.example;
  const sent = {
    '/api/executions': 200,
    '/api/executions/batch': 200,
    '/api/tools/gmail_send_message/execute': 200,
    '/api/flows/start': 200,
    '/api/connect/sessions': 201,
    '/api/connections': 201,
  };
  for (const [path, status] of Object.entries(sent)) {
    const { example, examples = {} } = contract.served.paths[path.replace('gmail_send_message', '{tool_name}')].post.requestBody.content['application/json'];
    for (const one of [...(example ? [example] : []), ...Object.values(examples).map(({ value }) => value)]) {
      const reply = await post(path, JSON.parse(JSON.stringify(one).replaceAll(id, connections[0].id)));
      assert.deepEqual([reply.status, reply.violations], [status, []], `${path}: ${reply.text}`);
      for (const result of reply.json.results ?? []) assert.equal(result.status, 200, reply.text);
    }
  }
});

test('batches', async () => {
  const of = (action_id, input, more) => ({ integration_id: 'gmail', action_id, input, ...more });
  const executions = [
    of('list_labels', {}),
    of('send_message', write),
    of('send_message', write, { confirm: true, idempotency_key: 'contract-1' }),
    of('send_message', write, { confirm: true, dry_run: true }),
    of('list_messages', { details: true }, { dry_run: true }),
    of('list_labels', 1),
    { integration_id: 'nope', action_id: 'x', input: {} },
  ];
  const { json } = await judge(200, await post('/api/executions/batch', { executions }), [0, 1, 2, 3, 4, 5].map((at) => `/results/${at}`));
  assert.deepEqual(json.results.map((one) => one.status), [200, 409, 200, 200, 200, 400, 409]);
  await judge(400, await post('/api/executions/batch', { executions: [] }));
});

// Waits without prism, so that the flow is at rest when it is checked.
const rests = (id, ...statuses) =>
  until(`${id} is ${statuses}`, async () => {
    const { json } = await server.call(account.key, 'GET', `/api/flows/${id}`);
    return statuses.includes(json.flow.status) && json;
  });
const start = (flowTemplate, input, more) => post('/api/flows/start', { flowTemplate, input, ...more });
const command = (id, name, body = {}, key = account.key) => post(`/api/flows/${id}/${name}`, body, {}, key);

test('flows', async () => {
  const templates = await judge(200, await get('/api/flows/templates'), ['/templates/0']);
  await judge(304, await get('/api/flows/templates', { 'if-none-match': templates.headers.get('etag') }));
  await judge(200, await get('/api/flows', {}, other.key));
  const detail = await judge(200, await get('/api/flows/templates/unread_mail_to_tasks'), ['/steps/0']);
  await judge(304, await get('/api/flows/templates/unread_mail_to_tasks', { 'if-none-match': detail.headers.get('etag') }));
  await judge(404, await get('/api/flows/templates/nope'));
  // one flow waits for a person, is approved and completes; another is rejected; a third is
  // cancelled
  const gate = () => start('api_gate', { id: 'INBOX' }, { triggerType: 'agent' });
  const begun = await judge(200, await gate(), ['/flow', '/flow/flow', '/flow/steps/0', '/flow/steps/3', '/templates/0']);
  const id = begun.json.flowId;
  for (const replayed of [null, 'true']) {
    const once = await judge(200, await start('api_gate', { id: 'INBOX' }, { idempotency_key: 'contract-3' }), ['/flow', '/flow/flow']);
    assert.equal(once.headers.get('idempotent-replayed'), replayed);
  }
  await judge(400, await start('api_gate', { id: 'SENT' }, { idempotency_key: 'contract-3' }));
  await rests(id, 'waiting');
  const waiting = await judge(200, await get(`/api/flows/${id}`), ['/flow', '/steps/0', '/steps/2']);
  assert.equal(waiting.json.steps[2].status, 'waiting');
  await judge(304, await get(`/api/flows/${id}`, { 'if-none-match': waiting.headers.get('etag') }));
  await judge(200, await get(`/api/flows/${id}?fields=summary`), ['/flow', '/steps/0', '/steps/2']);
  await judge(304, await get(`/api/flows/${id}?wait=1`, { 'if-none-match': waiting.headers.get('etag') }));
  await judge(200, await command(id, 'resume'), ['/flow']);
  await judge(409, await command(id, 'approve', { stepKey: 'nope' }));
  await judge(400, await command(id, 'approve', { note: 1 }));
  await judge(403, await command(id, 'approve', {}, reader));
  await judge(200, await command(id, 'approve', { stepKey: 'ask', note: 'by contract' }), ['/flow', '/steps/0', '/steps/3']);
  await rests(id, 'completed');
  await judge(200, await get(`/api/flows/${id}?wait=1&until=settled`), ['/flow', '/steps/2']);
  await judge(200, await get('/api/executions?flow_calls=true&limit=1'), ['/executions/0', '/executions/0/flow']);
  for (const name of ['approve', 'reject', 'resume']) await judge(409, await command(id, name));
  const rejected = (await gate()).json.flowId;
  await rests(rejected, 'waiting');
  await judge(200, await command(rejected, 'reject', { note: 'no' }), ['/flow', '/steps/0']);
  await rests(rejected, 'failed', 'cancelled');
  await judge(200, await get(`/api/flows/${rejected}`), ['/flow', '/steps/2', '/steps/2/error']);
  const cancelled = (await gate()).json.flowId;
  await judge(200, await command(cancelled, 'cancel'), ['/flow', '/steps/0']);
  await judge(200, await command(cancelled, 'cancel'), ['/flow']);
  await judge(200, await command(id, 'cancel'), ['/flow']);
  // a wait for a time, a fan-out, and a step that fails
  const asleep = (await start('probe_wait', { seconds: 3600 })).json.flowId;
  await rests(asleep, 'waiting');
  const sleeping = await judge(200, await get(`/api/flows/${asleep}`));
  assert.ok(sleeping.json.steps.some((step) => step.wakeAt));
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status: 404 } }]);
  const failing = (await start('api_gate', { id: 'INBOX' })).json.flowId;
  await rests(failing, 'failed');
  await stack.provider.faults([]);
  const failed = await judge(200, await get(`/api/flows/${failing}`), ['/steps/0/error']);
  assert.equal(failed.json.steps[0].error.code, 'execution_failed');
  await judge(200, await command(failing, 'resume'), ['/flow']);
  // lists
  await judge(200, await get('/api/flows'), ['/flows/0']);
  await judge(200, await get('/api/flows?fields=summary'), ['/flows/0']);
  const page = await judge(200, await get('/api/flows?limit=1&status=completed&template=api_gate'));
  await judge(200, await get('/api/flows?limit=200&status=pending'));
  await judge(200, await get(`/api/flows?cursor=${rejected}`), ['/flows/0']);
  assert.ok(page.json.flows.length <= 1);
  // refused requests
  await judge(404, await start('nope', {}));
  await judge(400, await start('api_gate', { id: 1, more: true }));
  await judge(400, await start('api_gate', { id: 'INBOX' }, { triggerType: 'nobody' }));
  for (const query of ['limit=0', 'limit=x', 'status=x', 'cursor=x', 'fields=x', 'q=!']) await judge(400, await get(`/api/flows?${query}`));
  await judge(200, await get(`/api/flows?q=${failing}`), ['/flows/0']);
  await judge(404, await get(`/api/flows/${id}`, {}, other.key));
  await judge(404, await get(`/api/flows/${id}/events`, {}, other.key));
  for (const name of ['approve', 'reject', 'resume', 'cancel']) await judge(404, await command(id, name, {}, other.key));
  // the stream of an ended flow is finite, so it can pass through prism; a second request gets 204
  const stream = await get(`/api/flows/${id}/events`);
  assert.deepEqual([stream.status, stream.violations], [200, []], stream.text);
  assert.match(stream.headers.get('content-type'), /^text\/event-stream/);
  const [, rev, data] = /^id: (\d+)\ndata: (.*)\n\n$/.exec(stream.text);
  assert.equal(contract.problems('/components/schemas/FlowView', JSON.parse(data)), '');
  await judge(204, await get(`/api/flows/${id}/events`, { 'last-event-id': rev }));
  await judge(204, await get(`/api/flows/${id}/events?fields=summary`, { 'last-event-id': rev }));
});

test('connections', async () => {
  const own = await judge(200, await get('/api/connections?integration_id=probe'), ['/connections/0']);
  const first = await judge(200, await get('/api/connections?limit=1'), ['/connections/0']);
  await judge(200, await get(`/api/connections?cursor=${first.json.next_cursor}`), ['/connections/0']);
  const path = `/api/connections/${own.json.connections[0].id}`;
  const change = (body, key = account.key) => contract.call(key, 'PATCH', path, body);
  await judge(200, await get(path));
  await judge(404, await get(path, {}, other.key));
  await judge(200, await change({ label: 'by contract', default: true, shared: true }));
  await judge(200, await get('/api/connections', { 'sluice-user': 'sees' }), ['/connections/0']);
  await judge(200, await get(path, { 'sluice-user': 'sees' }));
  await judge(200, await get('/api/integrations?query=probe', { 'sluice-user': 'sees' }), ['/items/0']);
  await judge(200, await get('/api/search?query=probe', { 'sluice-user': 'sees' }), ['/items/0']);
  await judge(400, await change({ shared: 1 }));
  await judge(400, await change({ label: 1 }));
  await judge(404, await change({ label: 'mine' }, other.key));
  await judge(404, await contract.call(other.key, 'DELETE', path));
  await judge(403, await contract.call(reader, 'DELETE', path));
  await judge(200, await get('/api/connections?users=all'), ['/connections/0']);
  await judge(400, await get('/api/connections?users=x'));
  await judge(200, await get('/api/audit?users=all&limit=1'), ['/events/0']);
  const add = (credential, more = {}, key = account.key) => post('/api/connections', { integration_id: 'probe', credential, ...more }, {}, key);
  const added = await judge(201, await add({ token: 'ya29.demo-gmail-full' }, { label: 'one', default: true, scopes: 'a b' }));
  await judge(201, await add({ token: 'ya29.demo-gmail-full' }, { connection_id: added.json.id }));
  await judge(400, await add({}));
  await judge(403, await add({ token: 'x' }, {}, reader));
  await judge(404, await add({ token: 'x' }, { connection_id: added.json.id }, other.key));
  await judge(409, await add({ token: 'ya29.unknown' }));
  const link = await judge(201, await post('/api/connect/sessions', { integration_id: 'probe' }));
  await judge(200, await get(`/api/connect/sessions/${link.json.id}?wait=1`));
  await judge(400, await get(`/api/connect/sessions/${link.json.id}?wait=x`));
  await judge(404, await get(`/api/connect/sessions/${link.json.id}`, {}, other.key));
  await judge(404, await post('/api/connect/sessions', { integration_id: 'nope' }));
  await judge(200, await contract.call(account.key, 'DELETE', path));
});

test('OAuth clients', async () => {
  const path = '/api/oauth-clients/gmail';
  const set = (body, at = path, key = account.key) => contract.call(key, 'PUT', at, body);
  await judge(404, await get(path));
  await judge(200, await set({ client_id: 'own', client_secret: 'secret' }));
  await judge(200, await get(path));
  await judge(400, await set({}));
  await judge(403, await set({ client_id: 'own' }, path, reader));
  await judge(404, await set({ client_id: 'own' }, '/api/oauth-clients/gmial'));
  await judge(200, await contract.call(account.key, 'DELETE', path));
  await judge(404, await contract.call(account.key, 'DELETE', path));
});

test('users', async () => {
  const path = '/api/users/a%2Fb';
  const change = (body, key = account.key) => contract.call(key, 'PATCH', path, body);
  await judge(404, await get(path));
  await judge(404, await change({ label: 'x' }));
  await server.call(account.key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, { 'sluice-user': 'a/b' });
  await judge(200, await get('/api/users?limit=1&query=a'), ['/items/0']);
  await judge(200, await get('/api/users?cursor=a'), ['/items/0']);
  await judge(400, await get('/api/users?query=a%20b'));
  await judge(200, await get(path));
  await judge(200, await change({ label: 'Ada' }));
  await judge(200, await change({ label: null }));
  await judge(400, await change({ label: 1 }));
  await judge(403, await change({ label: 'x' }, reader));
  const erase = (id, key = account.key) => contract.call(key, 'DELETE', `/api/users/${id}`);
  await judge(404, await erase('none'));
  await judge(403, await erase('a%2Fb', reader));
  await judge(202, await erase('a%2Fb'));
  await judge(202, await erase('a%2Fb'));
  await judge(200, await get(path));
});

test('keys', async () => {
  const wanted = { name: 'made here', scopes: ['read', 'execute:write'] };
  await judge(400, await post('/api/keys', { ...wanted, scopes: ['none'] }));
  await judge(403, await post('/api/keys', wanted, {}, reader));
  const made = (await judge(201, await post('/api/keys', { ...wanted, addresses: ['127.0.0.0/8'], expires_at: '2099-01-31T00:00:00Z' }))).json;
  const ofUser = (await judge(201, await post('/api/keys', { ...wanted, user: 'keyed' }))).json;
  await judge(200, await get('/api/keys?limit=1'), ['/items/0']);
  await judge(200, await get(`/api/keys?cursor=${made.id}`), ['/items/0']);
  await judge(400, await get('/api/keys?cursor=x'));
  await judge(200, await get('/api/keys/self', {}, made.key));
  await judge(200, await get('/api/keys/self', {}, ofUser.key));
  await judge(200, await get(`/api/keys/${made.id}`));
  await judge(403, await get(`/api/keys/${made.id}`, {}, reader));
  await judge(404, await get(`/api/keys/${account.id}`));
  await judge(403, await get('/api/stats', {}, ofUser.key));
  await judge(403, await get('/api/connections', { 'sluice-user': 'another' }, ofUser.key));
  const narrow = (await post('/api/keys', { ...wanted, scopes: ['read', 'admin'] })).json;
  await judge(403, await post('/api/keys', wanted, {}, narrow.key));
  const rolled = (await judge(201, await post(`/api/keys/${made.id}/roll`, { overlap: 0 }))).json;
  await judge(400, await post(`/api/keys/${made.id}/roll`, { overlap: -1 }));
  await judge(201, await post(`/api/keys/${ofUser.id}/roll`));
  await judge(200, await contract.call(account.key, 'DELETE', `/api/keys/${rolled.id}`));
  await judge(409, await post(`/api/keys/${rolled.id}/roll`));
  await judge(404, await post(`/api/keys/${account.id}/roll`));
  await judge(404, await contract.call(account.key, 'DELETE', `/api/keys/${account.id}`));
});

test('policies', async () => {
  const path = '/api/policies/careful';
  const policy = { default: 'allow', rules: [{ tools: ['probe_*'], when: 'input.value > `1`', decision: 'deny', reason: 'too much' }] };
  const set = (body, at = path, key = account.key) => contract.call(key, 'PUT', at, body);
  const remove = (at = path, key = account.key) => contract.call(key, 'DELETE', at);
  await judge(404, await get(path));
  await judge(404, await remove());
  await judge(400, await set({ policy: { rules: [] } }));
  await judge(400, await set({ policy }, '/api/policies/Careful'));
  await judge(403, await set({ policy }, path, reader));
  await judge(409, await set({ policy, rev: 7 }));
  const { rev } = (await judge(200, await set({ policy, rev: 0 }))).json;
  await judge(409, await set({ policy, rev: rev + 1 }));
  await judge(413, await set({ policy: { default: 'allow', rules: Array.from({ length: 100 }, () => ({ decision: 'deny', reason: 'x'.repeat(500), when: `input.value == '${'x'.repeat(300)}'` })) } }));
  await judge(200, await get('/api/policies'), ['/items/0']);
  await judge(400, await get('/api/policies', { 'sluice-user': 'ada' }));
  assert.deepEqual((await judge(200, await get(path))).json.policy, policy);
  const tested = async (status, body) => (await judge(status, await post('/api/policies/test', body))).json;
  assert.deepEqual(await tested(200, { name: 'careful', tool: 'probe_echo', input: { value: 2 } }), { decision: 'deny', rule: 0, reason: 'too much', unsure: false });
  assert.equal((await tested(200, { policy, tool: 'probe_echo', user: 'ada' })).decision, 'depends');
  await tested(400, { policy, name: 'careful', tool: 'probe_echo' });
  await tested(400, { policy, tool: 'probe_nothing' });
  await tested(404, { name: 'none', tool: 'probe_echo' });
  for (const name of [5, 'A', '']) await tested(400, { name, tool: 'probe_echo' });
  const wanted = { name: 'careful', scopes: ['read', 'execute', 'admin'] };
  await judge(400, await post('/api/keys', { ...wanted, policy: 'A' }));
  await judge(409, await post('/api/keys', { ...wanted, policy: 'none' }));
  const made = (await judge(201, await post('/api/keys', { ...wanted, policy: 'careful' }))).json;
  await judge(409, await remove());
  await judge(403, await set({ policy }, path, made.key));
  await judge(403, await remove(path, made.key));
  await judge(403, await get(path, {}, made.key));
  await judge(403, await post('/api/keys', wanted, {}, made.key));
  await judge(403, await post('/api/webhooks', { url: 'https://127.0.0.1:1/hook' }, {}, made.key));
  await judge(403, await post('/api/policies/test', { name: 'careful', tool: 'probe_echo' }, {}, made.key));
  await judge(200, await contract.call(account.key, 'DELETE', `/api/keys/${made.id}`));
  await judge(200, await remove());
});

test('webhooks', async () => {
  const wanted = { url: 'https://127.0.0.1:1/hook', events: ['flow.failed'], description: 'made here' };
  await judge(400, await post('/api/webhooks', { ...wanted, events: ['none'] }));
  await judge(403, await post('/api/webhooks', wanted, {}, reader));
  const { id } = (await judge(201, await post('/api/webhooks', wanted))).json;
  await judge(409, await post('/api/webhooks', wanted));
  await judge(200, await get('/api/webhooks'), ['/items/0']);
  const path = `/api/webhooks/${id}`;
  await judge(200, await get(path));
  await judge(404, await get(`/api/webhooks/${account.id}`));
  const change = (body, at = path) => contract.call(account.key, 'PATCH', at, body);
  await judge(200, await change({ enabled: false, events: null, description: null }));
  await judge(400, await change({ enabled: 1 }));
  await judge(404, await change({ enabled: true }, `/api/webhooks/${account.id}`));
  await judge(201, await post('/api/webhooks', { url: 'https://127.0.0.1:1/another' }));
  await judge(409, await change({ url: 'https://127.0.0.1:1/another' }));
  await stack.cluster.sql(`insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at, code, problem)
    values ('${account.id}', sluice.uuid_floor(current_date), '${id}', 'flow.failed', gen_random_uuid(), 1, now(), '{"flow_id": "x"}', 'pending', 1, now() + interval '1 hour', 503, 'busy')`);
  await judge(200, await get(`${path}/deliveries?limit=1&status=pending`), ['/items/0']);
  await judge(200, await get(`${path}/deliveries?cursor=${id}`), ['/items/0']);
  await judge(400, await get(`${path}/deliveries?status=none`));
  await judge(404, await get(`/api/webhooks/${account.id}/deliveries`));
  await judge(409, await post(`${path}/replay`, { since: '2031-01-31T00:00:00Z' }));
  await judge(200, await change({ enabled: true }));
  await judge(202, await post(`${path}/replay`, { since: '2031-01-31T00:00:00Z' }));
  await judge(400, await post(`${path}/replay`, { since: 'monday' }));
  await judge(404, await post(`${path}/deliveries/${id}/replay`));
  await judge(200, await post(`${path}/roll`, { overlap_s: 0 }));
  await judge(200, await post(`${path}/roll`));
  await judge(400, await post(`${path}/roll`, { overlap_s: -1 }));
  await judge(404, await post(`/api/webhooks/${account.id}/roll`));
  assert.equal((await judge(200, await post(`${path}/test`))).json.status, null);
  await judge(404, await post(`/api/webhooks/${account.id}/test`));
  await judge(200, await contract.call(account.key, 'DELETE', path));
  await judge(404, await contract.call(account.key, 'DELETE', path));
});

test('usage', async () => {
  await stack.cluster.sql(`insert into sluice.usage select '${account.id}', date_trunc('day', now() at time zone 'UTC') at time zone 'UTC', id, '00000000-0000-0000-0000-000000000000', 1, 2, 3, 4, 5 from sluice.api_key where account_id = '${account.id}' limit 1 on conflict do nothing`);
  for (const by of ['day', 'key', 'user']) await judge(200, await get(`/api/usage?by=${by}&limit=1`));
  await judge(200, await get(`/api/usage?by=day&key_id=${crypto.randomUUID()}`));
  for (const query of ['by=app', 'key_id=x', 'key_id=00000000-0000-0000-0000-000000000000', `by=key&key_id=${crypto.randomUUID()}`, 'from=2026-02-30', 'to=x', 'from=2026-01-01&to=2026-06-01', 'cursor=x', 'limit=0']) await judge(400, await get(`/api/usage?${query}`));
});

test('accounts, for the operator', async () => {
  const operator = (await stack.must(['keys', 'create', '--operator', '--addresses', '127.0.0.0/8'])).trim();
  const wanted = { name: 'by an operator', external_id: 'of/theirs' };
  const { id } = (await judge(201, await post('/api/accounts', wanted, {}, operator))).json;
  await judge(200, await post('/api/accounts', wanted, {}, operator));
  await judge(201, await post('/api/accounts', { name: 'without an id' }, {}, operator));
  await judge(409, await post('/api/accounts', { name: 'without an id' }, {}, operator));
  await judge(400, await post('/api/accounts', { name: '' }, {}, operator));
  await judge(200, await get('/api/accounts?limit=1', {}, operator), ['/items/0']);
  await judge(400, await get('/api/accounts?cursor=x', {}, operator));
  await judge(200, await get(`/api/accounts/${id}`, {}, operator));
  await judge(200, await contract.call(operator, 'PATCH', `/api/accounts/${id}`, { name: 'renamed', disabled: true }));
  await judge(201, await post(`/api/accounts/${id}/keys`, { name: 'first', scopes: ['read'] }, {}, operator));
  await judge(409, await contract.call(operator, 'DELETE', `/api/accounts/${account.id}`));
  await judge(202, await contract.call(operator, 'DELETE', `/api/accounts/${id}`));
  await judge(409, await contract.call(operator, 'PATCH', `/api/accounts/${id}`, { disabled: false }));
  await judge(409, await post(`/api/accounts/${id}/keys`, { name: 'late', scopes: ['read'] }, {}, operator));
  await judge(404, await contract.call(operator, 'DELETE', `/api/accounts/019a1b2c-3d4e-7f50-8a61-72839405a6b7`));
  await judge(404, await get(`/api/accounts/019a1b2c-3d4e-7f50-8a61-72839405a6b7`, {}, operator));
  await judge(403, await get('/api/keys/self', {}, operator));
  await judge(403, await get('/api/connections', {}, operator));
  await judge(403, await get('/api/accounts'));
});

test('guard errors', async () => {
  const routes = [
    ['GET', '/api/integrations'],
    ['GET', '/api/actions?integration_id=gmail'],
    ['GET', '/api/actions/gmail/list_labels'],
    ['GET', '/api/search?query=x'],
    ['GET', '/api/executions'],
    ['GET', '/api/audit'],
    ['GET', '/api/stats'],
    ['GET', '/api/connections'],
    ['POST', '/api/connect/sessions'],
    ['GET', '/api/connect/sessions/019a1b2c-3d4e-7f50-8a61-72839405a6b7'],
    ['GET', '/api/connections/1'],
    ['PATCH', '/api/connections/1'],
    ['GET', '/api/users'],
    ['GET', '/api/users/a'],
    ['PATCH', '/api/users/a'],
    ['GET', '/api/keys'],
    ['POST', '/api/keys'],
    ['GET', '/api/keys/self'],
    ['GET', '/api/keys/019a1b2c-3d4e-7f50-8a61-72839405a6b7'],
    ['POST', '/api/keys/019a1b2c-3d4e-7f50-8a61-72839405a6b7/roll', 404],
    ['GET', '/api/executions/019a1b2c-3d4e-7f50-8a61-72839405a6b7'],
    ['POST', '/api/executions'],
    ['POST', '/api/executions/batch'],
    ['POST', '/api/tools/gmail_list_labels/execute'],
    ['GET', '/api/flows'],
    ['GET', '/api/flows/templates'],
    ['GET', '/api/flows/templates/unread_mail_summary'],
    ['GET', '/api/flows/019a1b2c-3d4e-7f50-8a61-72839405a6b7'],
    ['GET', '/api/flows/019a1b2c-3d4e-7f50-8a61-72839405a6b7/events'],
    ['POST', '/api/flows/start'],
    ...['approve', 'reject', 'resume', 'cancel'].map((name) => ['POST', `/api/flows/019a1b2c-3d4e-7f50-8a61-72839405a6b7/${name}`, 404]),
  ];
  for (const [method, path, empty = 400] of routes) {
    const body = method === 'POST' ? {} : undefined;
    const briefly = (status, reply) => judge(status, reply, [], ['a member more']);
    const { headers } = await briefly(401, await contract.call('sk_none', method, path, body));
    assert.equal(headers.get('www-authenticate'), 'Bearer');
    if (method === 'GET') continue;
    await briefly(403, await contract.call(reader, method, path, body));
    await briefly(415, await contract.call(account.key, method, path, 'a=1', { 'content-type': 'text/plain' }));
    await briefly(415, await contract.call(account.key, method, path, '{}', { 'content-encoding': 'br' }));
    await briefly(empty, await contract.call(account.key, method, path, ''));
  }
  await judge(404, await get('/api/executions/019a1b2c-3d4e-7f50-8a61-72839405a6b7'));
  await judge(404, await get('/api/executions/x'));
  for (const path of ['/api/integrations?page=x', '/api/actions', '/api/search', '/api/search?query=x&limit=x'])
    await judge(400, await get(path));
  await judge(413, await post('/api/executions', { large: 'x'.repeat(9 * 1024 * 1024) }));
});

// Prism checks nothing for an operation that is not in the document, and a generated client cannot
// send requests that are refused here. The reply's schema is checked directly.
function check(status, reply, pointer) {
  assert.equal(reply.status, status);
  const schema = `${pointer}/content/application~1json/schema`;
  assert.equal(contract.problems(schema, reply.json), '');
  assert.notEqual(contract.problems(schema, { ...reply.json, unexpected: 1 }), '');
  assert.notEqual(contract.problems(schema, {}), '');
  assert.equal(reply.headers.get('content-type'), 'application/json; charset=utf-8', `${status}`);
  assert.ok(reply.headers.get('x-request-id'));
}
const named = (name) => `/components/responses/${name}`;

async function byHand(port, text) {
  const connection = await Raw.connect({ port });
  await connection.send(text);
  const { status, headers, body } = await connection.reply();
  connection.close();
  return { status, headers: new Headers(headers), json: JSON.parse(body) };
}

test('refusals for any path', async () => {
  const any = (status) => `/x-any-path/responses/${status}`;
  const nowhere = await server.call(account.key, 'GET', '/api/nowhere');
  check(404, nowhere, any(404));
  const wrong = await server.call(account.key, 'DELETE', '/api/executions');
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'GET, HEAD, POST']);
  check(405, wrong, any(405));
  assert.equal((await server.call(account.key, 'POST', '/healthz')).headers.get('allow'), 'GET, HEAD');
  const malformed = await server.call(account.key, 'POST', '/api/executions', '{"a":');
  check(400, malformed, named('BadRequest'));
  const keyless = await fetch(`${server.base}/api/integrations`);
  check(401, { status: keyless.status, json: await keyless.json(), headers: keyless.headers }, named('Unauthorized'));
  const get = (path, more = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
  const raw = {
    414: [get(`/${'x'.repeat(9000)}`), named('UriTooLong')],
    417: [get('/healthz', 'Content-Length: 1\r\nExpect: miracles\r\n'), named('ExpectationFailed')],
    431: [get('/healthz', `X-Large: ${'x'.repeat(20_000)}\r\n`), named('HeadTooLarge')],
    501: ['BREW / HTTP/1.1\r\nHost: x\r\n\r\n', any(501)],
    505: ['GET / HTTP/2.0\r\nHost: x\r\n\r\n', any(505)],
  };
  for (const [status, [text, pointer]] of Object.entries(raw))
    check(Number(status), await byHand(server.port, text), pointer);
  // a name in a path that is not UTF-8, for every operation that has one
  for (const [path, operations] of Object.entries(contract.document.paths))
    for (const method of Object.keys(operations))
      if (path.includes('{') && method !== 'parameters')
        check(400, await server.call(account.key, method.toUpperCase(), path.replaceAll(/\{[^}]*\}/g, '%FF')), named('BadRequest'));
});

test('refusals caused by settings', async () => {
  const strict = await stack.serve({
    args: ['--body-timeout', '200ms', '--account-rate', '1', '--account-burst', '1', '--metrics-listen', '127.0.0.1:0'],
  });
  const late = `POST /api/executions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.key}\r\nContent-Length: 9\r\n\r\n{`;
  check(408, await byHand(strict.port, late), named('RequestTimeout'));
  const limited = await until('there were too many', async () => {
    const few = await Promise.all(Array.from({ length: 5 }, () => strict.call(account.key, 'GET', '/api/integrations')));
    return few.find((reply) => reply.status === 429);
  });
  check(429, limited, named('TooManyRequests'));
  assert.ok(Number(limited.headers.get('retry-after')) >= 1);
  check(404, await strict.call(account.key, 'GET', '/metrics'), '/paths/~1metrics/get/responses/404');
});

// An operation of the document without a test would not be compared with anything.
test('every operation and query parameter was tested', () => {
  const { paths, components } = contract.served;
  const deref = (one) => (one.$ref ? components.parameters[one.$ref.split('/').at(-1)] : one);
  const missing = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters = [] }]) => {
      const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`);
      const isLiteral = ({ pathname }) => pathname !== path && pathname in paths;
      const all = asked.filter((one) => one.method === method.toUpperCase() && pattern.test(one.url.pathname) && !isLiteral(one.url));
      if (all.length === 0) return [`${method} ${path}`];
      const names = parameters.map(deref).filter((one) => one.in === 'query').map((one) => one.name);
      return names.filter((name) => !all.some(({ url }) => url.searchParams.has(name))).map((name) => `${method} ${path}?${name}`);
    }),
  );
  assert.deepEqual(missing, []);
});

test('without its database', async () => {
  const before = await get('/api/integrations');
  assert.equal(before.status, 200);
  await stack.cluster.down('immediate');
  try {
    const replies = await Promise.all([
      get('/api/integrations'),
      get('/api/search?query=x'),
      execute('gmail', 'list_labels', {}, { idempotency_key: 'contract-3' }),
      tool('gmail_list_labels', {}),
      get('/api/executions/019a1b2c-3d4e-7f50-8a61-72839405a6b7'),
      get('/readyz'),
    ]);
    for (const reply of replies) await judge(503, reply);
  } finally {
    await stack.cluster.up();
  }
});
