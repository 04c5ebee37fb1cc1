// subscriptions/listen (src/mcp/README.md): a stream sends the events that its client subscribed to
// and no others, whichever process makes the change, until the server drains.
import assert from 'node:assert/strict';
import { cp, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { MODERN, Mcp, connect, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const TASKS = 'io.modelcontextprotocol/tasks';
const CLIENT = { capabilities: { elicitation: { form: {} }, extensions: { [TASKS]: {} } } };
const NOWHERE = '019a0000-0000-7000-8000-000000000000';
const ID = 'io.modelcontextprotocol/subscriptionId';
let stack, server, second, account, other, mcp, folder;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail', 'probe'] });
  other = await stack.account('Other', { apps: [] });
  folder = join(stack.dir, 'catalog');
  await cp(new URL('support/catalog', import.meta.url).pathname, folder, { recursive: true });
  const options = { env: { SLUICE_CATALOG: folder } };
  [server, second] = [await stack.serve(options), await stack.serve(options)];
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const start = async (subject, at = mcp) => contentOf(await at.call('start_flow', { template: 'probe_approve', input: { subject } })).flowId;
const approve = (id, at = server) => at.call(account.key, 'POST', `/api/flows/${id}/approve`);
const waits = (id) => until(`${id} waits`, async () => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json.flow.status === 'waiting');

// Opens a stream and waits for its acknowledgement, which lists the granted subscriptions.
async function listen(notifications, options = CLIENT, at = mcp) {
  const stream = await at.stream('subscriptions/listen', { notifications }, options);
  assert.deepEqual([stream.status, stream.isStream], [200, true]);
  assert.deepEqual([stream.headers.get('x-accel-buffering'), stream.headers.get('cache-control')], ['no', 'no-store']);
  const first = await stream.next();
  assert.equal(first.method, 'notifications/subscriptions/acknowledged');
  assert.equal(first.params._meta[ID], stream.id);
  return Object.assign(stream, { granted: first.params.notifications });
}

test('a stream is acknowledged with what it will send', async () => {
  const { capabilities } = (await mcp.ask('server/discover')).result;
  assert.deepEqual([capabilities.tools, capabilities.resources], [{ listChanged: true }, { subscribe: true }]);
  const mine = await start('acknowledged');
  const theirs = contentOf(await new Mcp(server.base, other.key).call('start_flow', { template: 'probe_wait', input: {} }))?.flowId ?? NOWHERE;
  const uri = (id) => `sluice://flows/${id}`;
  const stream = await listen({
    toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true,
    resourceSubscriptions: [uri(mine), uri(theirs), uri(NOWHERE), 'file:///etc/passwd', `sluice://executions/${mine}`], taskIds: [mine, theirs, 'x'],
  });
  assert.deepEqual(stream.granted, { toolsListChanged: true, resourceSubscriptions: [uri(mine)], taskIds: [mine] });
  stream.close();
  const none = await listen({ toolsListChanged: false });
  assert.deepEqual(none.granted, {});
  none.close();
});

test('a task is sent as it is now and after each change, also one on another process', async () => {
  const id = await start('watched');
  await waits(id);
  const stream = await listen({ taskIds: [id], resourceSubscriptions: [`sluice://flows/${id}`] });
  const now = await stream.until((message) => message.method === 'notifications/tasks');
  assert.deepEqual([now.params.taskId, now.params.status, now.params._meta[ID]], [id, 'input_required', stream.id]);
  assert.deepEqual(Object.keys(now.params.inputRequests), Object.keys((await mcp.ask('tasks/get', { taskId: id }, CLIENT)).result.inputRequests));
  assert.equal((await approve(id, second)).status, 200);
  const seen = new Set();
  await stream.until((message) => {
    seen.add(message.method);
    assert.equal(message.params._meta[ID], stream.id);
    if (message.method === 'notifications/resources/updated') assert.equal(message.params.uri, `sluice://flows/${id}`);
    return message.params.status === 'completed' && contentOf(message.params.result).flow.id === id;
  });
  if (!seen.has('notifications/resources/updated')) await stream.until((message) => message.method === 'notifications/resources/updated');
  stream.close();
});

test('a stream does not send what was not asked for, nor what belongs to another account', async () => {
  const id = await start('quiet');
  await waits(id);
  const theirs = await listen({ toolsListChanged: true, taskIds: [id] }, CLIENT, new Mcp(server.base, other.key));
  assert.deepEqual(theirs.granted, { toolsListChanged: true });
  const plain = await listen({ resourceSubscriptions: [`sluice://flows/${id}`] }, {});
  const tools = await listen({ toolsListChanged: true });
  const users = await listen({ toolsListChanged: true }, { ...CLIENT, headers: { 'sluice-user': 'ada' } }); // of the account
  await approve(id);
  assert.equal((await plain.next()).method, 'notifications/resources/updated');
  // Another process makes the change, and the database notifies this one.
  await stack.connect(account.id, 'notion', { access_token: 'ntn_x' });
  for (const stream of [tools, users]) assert.equal((await stream.next()).method, 'notifications/tools/list_changed');
  await stack.connect(other.id, 'probe', { token: 'ya29.demo-gmail-full' });
  assert.equal((await theirs.next()).method, 'notifications/tools/list_changed');
  for (const stream of [theirs, plain, tools, users]) stream.close();
});

test('refused: an invalid filter, a client without the extension, a key without the scope', async () => {
  const code = async (notifications, options = CLIENT, at = mcp) => {
    const { status, error } = await at.ask('subscriptions/listen', notifications === undefined ? {} : { notifications }, options);
    return [status, error.code];
  };
  const many = Array.from({ length: 33 }, () => NOWHERE);
  for (const notifications of [undefined, [], 'all', { toolsListChanged: 'yes' }, { taskIds: NOWHERE }, { taskIds: [7] }, { resourceSubscriptions: {} }, { taskIds: many },
    { taskIds: many.slice(16), resourceSubscriptions: many.slice(16).map((id) => `sluice://flows/${id}`) }])
    assert.deepEqual(await code(notifications), [200, -32602], JSON.stringify(notifications));
  assert.deepEqual(await code({ taskIds: [] }, {}), [400, -32021]);
  const executor = new Mcp(server.base, await stack.key(account.id, ['--scopes', 'execute']));
  assert.deepEqual(await code({ taskIds: [NOWHERE] }, CLIENT, executor), [403, -32600]);
  (await listen({ toolsListChanged: true }, CLIENT, executor)).close();
  assert.equal((await mcp.askLegacy('subscriptions/listen', { notifications: {} })).error.code, -32601);
});

test('an account’s streams are limited, and a closed one does not count', async () => {
  const crowd = new Mcp(server.base, (await stack.account('Crowd', { apps: [] })).key);
  const streams = [];
  for (let i = 0; i < 64; i++) streams.push(await listen({ toolsListChanged: true }, CLIENT, crowd));
  const refused = await crowd.ask('subscriptions/listen', { notifications: {} }, CLIENT);
  assert.deepEqual([refused.status, refused.error.code, refused.headers.get('retry-after')], [429, -32600, '5']);
  streams.pop().close();
  await until('a stream is free', async () => {
    const stream = await crowd.stream('subscriptions/listen', { notifications: {} }, CLIENT);
    stream.close();
    return stream.status === 200;
  });
  for (const stream of streams) stream.close();
});

test('a revoked key ends its streams', async () => {
  const made = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const stream = await listen({ toolsListChanged: true }, CLIENT, new Mcp(server.base, made.key));
  await stack.must(['keys', 'revoke', account.id, made.id]);
  const last = await stream.until((message) => message.id !== undefined);
  assert.deepEqual([last.id, last.error.message], [stream.id, 'Missing or invalid API key']);
  assert.equal(await stream.next(), undefined);
});

test('a reload of the catalog is announced, also to the SDK’s client', async () => {
  let tools;
  const client = await connect(server.base, account.key, { mode: { pin: MODERN }, listChanged: { tools: { onChanged: (error, list) => (tools = error ?? list) } } });
  await client.listTools();
  const stream = await listen({ toolsListChanged: true });
  const manifest = await readFile(join(folder, 'probe.json'), 'utf8');
  await writeFile(join(stack.dir, 'draft.json'), manifest.replace('"title": "Send"', '"title": "Send it"'));
  await rename(join(stack.dir, 'draft.json'), join(folder, 'probe.json'));
  assert.equal((await stream.next()).method, 'notifications/tools/list_changed');
  await until('the client has its new list', () => tools);
  assert.ok(Array.isArray(tools) && tools.some((tool) => tool.name === 'list_connections'), JSON.stringify(tools));
  stream.close();
  await client.close();
});

test('a drain ends a stream with the answer to its request', async () => {
  const id = await start('drained', new Mcp(second.base, account.key));
  const at = new Mcp(second.base, account.key);
  const [empty, full] = [await listen({ toolsListChanged: true }, CLIENT, at), await listen({ taskIds: [id] }, CLIENT, at)];
  const stopped = second.stop();
  for (const stream of [empty, full]) {
    const last = await stream.until((message) => message.id !== undefined);
    assert.deepEqual([last.id, last.result.resultType, last.result._meta[ID]], [stream.id, 'complete', stream.id]);
    assert.equal(await stream.next(), undefined);
  }
  await stopped;
});
