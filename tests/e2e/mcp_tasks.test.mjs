// Flows as tasks of the protocol's extension (src/mcp/README.md): started, read, approved and
// cancelled by a client that does not know of flows. Each task is validated with the extension's
// schema.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { HIDDEN, HOSTILE, visible } from './support/hostile.mjs';
import { Mcp, inside, contentOf } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const TASKS = 'io.modelcontextprotocol/tasks';
const CLIENT = { capabilities: { elicitation: { form: {} }, extensions: { [TASKS]: {} } } };
const PLAIN = { capabilities: { extensions: { [TASKS]: {} } } };
const NOWHERE = '019a0000-0000-7000-8000-000000000000';
let stack, server, account, other, mcp, agent, reader;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail', 'probe'] });
  other = await stack.account('Other', { apps: [] });
  agent = await stack.key(account.id, ['--scopes', 'read,execute']);
  reader = await stack.key(account.id, ['--scopes', 'read']);
  server = await stack.serve();
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const get = async (taskId, options = CLIENT, at = mcp) => (await at.ask('tasks/get', { taskId }, options)).result;
const update = (taskId, inputResponses, options = CLIENT, at = mcp) => at.ask('tasks/update', { taskId, inputResponses }, options);
const reaches = (taskId, status, options, at) =>
  until(`${taskId} is ${status}`, async () => {
    const task = await get(taskId, options, at);
    return task.status === status && task;
  });

async function start(template, input, options = CLIENT, at = mcp) {
  const result = await at.call('start_flow', { template, input }, options);
  assert.equal(result.resultType, 'task', JSON.stringify(result));
  return result.taskId;
}

// The only form of a task, by its key.
function form(task) {
  const [[key, { method, params }], ...more] = Object.entries(task.inputRequests);
  assert.deepEqual([method, params.mode, more], ['elicitation/create', 'form', []]);
  assert.deepEqual(params.requestedSchema.required, ['approve']);
  return { key, lines: params.message.split('\n') };
}
const answer = (key, approve, more = {}) => ({ [key]: { action: 'accept', content: { approve, ...more } } });

test('the extension is announced to clients that support it', async () => {
  assert.deepEqual((await mcp.ask('server/discover')).result.capabilities.extensions, { [TASKS]: {} });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  const { capabilities } = (await mcp.askLegacy('initialize', params)).result;
  assert.deepEqual([capabilities.extensions, capabilities.tasks], [undefined, undefined]);
  assert.equal((await mcp.askLegacy('tasks/get', { taskId: NOWHERE })).error.code, -32601);
});

test('a flow is a task until it completes, and its result is a tool’s result', async () => {
  const taskId = await start('unread_mail_summary', {});
  const done = await reaches(taskId, 'completed');
  assert.equal(inside(done.result).json.flow.id, taskId);
  assert.deepEqual([done.result.isError, contentOf(done.result).flow.status], [undefined, 'completed']);
  assert.deepEqual([done.ttlMs, done.statusMessage], [null, undefined]);
  const flow = (await server.call(account.key, 'GET', `/api/flows/${taskId}`)).json.flow;
  assert.deepEqual([done.createdAt, done.lastUpdatedAt, flow.triggerType], [flow.createdAt, flow.updatedAt, 'agent']);
  assert.equal((await mcp.ask('tasks/cancel', { taskId }, CLIENT)).status, 200);
  assert.equal((await get(taskId)).status, 'completed');
});

test('an approval is a form, and the person approves exactly what it shows', async () => {
  const taskId = await start('probe_approve', { subject: 'task "one"' });
  const waiting = await reaches(taskId, 'input_required');
  assert.match(waiting.statusMessage, /^Step 1 of 2, ask, waits for the approval of a person$/);
  const { key, lines } = form(waiting);
  assert.equal(lines[0], 'The flow "Probe approve" waits for an approval: step 1 of 2, ask');
  assert.ok(lines.includes('title: "Send task \\"one\\""'), lines.join('\n'));
  assert.ok(lines.includes('items: [{"stepKey":"send","tool":"probe_send","input":{"subject":"task \\"one\\""}}]'), lines.join('\n'));
  assert.equal(form(await get(taskId)).key, key);
  // A message that does not answer this form changes nothing, and is not an error.
  for (const responses of [{}, { other: answer(key, true)[key] }, { [key]: { action: 'cancel' } }, { [key]: { action: 'accept' } },
    { [key]: { action: 'accept', content: { approve: 'yes' } } }, answer(`${key}x`, true), answer('approval-9999-ask', true), answer('approval--1-ask', true)]) {
    const { status, result } = await update(taskId, responses);
    assert.deepEqual([status, result.resultType, result.taskId], [200, 'complete', undefined], JSON.stringify(responses));
  }
  assert.equal((await get(taskId)).status, 'input_required');
  const before = (await stack.provider.ledger()).length;
  assert.equal((await update(taskId, answer(key, true, { note: 'go' }))).status, 200);
  const done = await reaches(taskId, 'completed');
  const { flow } = (await server.call(account.key, 'GET', `/api/flows/${taskId}`)).json;
  assert.deepEqual([done.result.isError, contentOf(done.result).flow.status, flow.context.ask.note], [undefined, 'completed', 'go']);
  assert.equal((await stack.provider.ledger()).length, before + 1);
  assert.equal((await update(taskId, answer(key, true))).status, 200);
  assert.equal((await stack.provider.ledger()).length, before + 1);
  const { json } = await server.call(account.key, 'GET', '/api/audit?kind=flow');
  assert.ok(json.events.some((event) => event.kind === 'flow.approved' && event.details.flow_id === taskId), JSON.stringify(json).slice(0, 500));
});

test('declining the form rejects, and the task is cancelled', async () => {
  const before = (await stack.provider.ledger()).length;
  for (const response of [{ action: 'decline' }, { action: 'accept', content: { approve: false } }]) {
    const taskId = await start('probe_approve', { subject: 'rejected' });
    const { key } = form(await reaches(taskId, 'input_required'));
    await update(taskId, { [key]: response });
    await reaches(taskId, 'cancelled');
  }
  const taskId = await start('probe_approve', { subject: 'cancelled' });
  await reaches(taskId, 'input_required');
  const { result, status } = await mcp.ask('tasks/cancel', { taskId }, CLIENT);
  assert.deepEqual([status, result.resultType, result.status], [200, 'complete', undefined]);
  await reaches(taskId, 'cancelled');
  assert.equal((await stack.provider.ledger()).length, before);
});

// Tests several texts in one flow, since each is shown independently of the others.
test('no text of a flow changes the structure of its approval form', async () => {
  const shown = (text) => visible(JSON.stringify(text));
  for (let at = 0; at < HOSTILE.length; at += 12) {
    const subject = HOSTILE.slice(at, at + 12).join(' ');
    const taskId = await start('probe_approve', { subject });
    const task = await reaches(taskId, 'input_required');
    const { lines } = form(task);
    assert.deepEqual(lines.slice(0, 3), ['The flow "Probe approve" waits for an approval: step 1 of 2, ask', `title: ${shown(`Send ${subject}`)}`, 'summary: "One mail"']);
    assert.equal(lines.length, (await reaches(await start('probe_approve', { subject: 'plain' }), 'input_required').then(form)).lines.length);
    for (const line of lines) {
      assert.doesNotMatch(line, HIDDEN);
      JSON.parse(line.slice(line.indexOf(': ') + 2).replace(/^step.*/, '0'));
    }
    assert.doesNotMatch(task.statusMessage, HIDDEN);
  }
});

test('a flow that fails returns a result that says so', async () => {
  const taskId = await start('probe_approve', { subject: 'late', expires: 0.01 });
  const failed = await reaches(taskId, 'completed');
  assert.deepEqual([failed.result.isError, contentOf(failed.result).flow.status], [true, 'failed']);
  assert.match(failed.statusMessage, /^Step 1 of 2, ask, failed$/);
});

test('no form if the client shows none, or if the key may not approve', async () => {
  const narrow = new Mcp(server.base, agent);
  const taskId = await start('probe_approve', { subject: 'narrow' }, CLIENT, narrow);
  await reaches(taskId, 'input_required');
  for (const [options, at] of [[PLAIN, mcp], [CLIENT, narrow], [CLIENT, new Mcp(server.base, reader)]]) {
    const task = await get(taskId, options, at);
    assert.deepEqual([task.status, task.inputRequests], ['working', undefined]);
    assert.match(task.statusMessage, /waits for the approval of a person/);
  }
  const { key } = form(await get(taskId));
  const forged = await update(taskId, answer(key, true), CLIENT, narrow);
  assert.deepEqual([forged.status, forged.error.message], [403, 'This API key lacks the scope "approve"']);
  // no form was shown to these clients, so they cannot answer any
  const never = new Mcp(server.base, await stack.key(account.id, ['--forms', 'never', '--unattended-writes', 'refuse']));
  for (const [options, at] of [[PLAIN, mcp], [CLIENT, never]]) await update(taskId, answer(key, true), options, at);
  const cancelled = await new Mcp(server.base, reader).ask('tasks/cancel', { taskId }, CLIENT);
  assert.deepEqual([cancelled.status, cancelled.error.message], [403, 'This API key lacks the scope "execute:write"']);
  assert.equal((await get(taskId)).status, 'input_required');
  const large = await start('probe_approve', { subject: 'x'.repeat(40_000) });
  await until('it waits', async () => (await server.call(account.key, 'GET', `/api/flows/${large}`)).json.flow.status === 'waiting');
  assert.equal((await get(large)).status, 'working');
});

test('another account has no such task, and a client without the extension has no tasks at all', async () => {
  const taskId = await start('probe_approve', { subject: 'mine' });
  const { key } = form(await reaches(taskId, 'input_required'));
  const theirs = new Mcp(server.base, other.key);
  const methods = [['tasks/get', {}], ['tasks/update', { inputResponses: {} }], ['tasks/update', { inputResponses: answer(key, true) }], ['tasks/cancel', {}]];
  for (const [method, more] of methods)
    for (const [at, id, pattern] of [[theirs, taskId, /^Task not found$/], [mcp, NOWHERE, /^Task not found$/], [mcp, 'x/../y', /^Task not found$/], [mcp, undefined, /taskId must be/], [mcp, 7, /taskId must be/]]) {
      const reply = await at.ask(method, { taskId: id, ...more }, { ...CLIENT, ...(typeof id !== 'string' && { headers: { 'mcp-name': undefined } }) });
      assert.equal(reply.error?.code, -32602, JSON.stringify(reply));
      assert.match(reply.error.message, pattern);
    }
  for (const [method, more] of methods) {
    const { error, status } = await mcp.ask(method, { taskId, ...more });
    assert.deepEqual([status, error.code, error.data], [400, -32021, { requiredCapabilities: { extensions: { [TASKS]: {} } } }]);
    const routed = await mcp.ask(method, { taskId, ...more }, { ...CLIENT, headers: { 'mcp-name': NOWHERE } });
    assert.deepEqual([routed.status, routed.error.code], [400, -32020]);
  }
  assert.equal((await mcp.ask('tasks/update', { taskId }, CLIENT)).error.code, -32602);
  const long = await update(taskId, answer(key, true, { note: 'x'.repeat(2001) }));
  assert.deepEqual([long.error.code, long.error.message], [-32602, 'note must have at most 2000 characters']);
  assert.equal((await mcp.ask('tasks/result', { taskId }, CLIENT)).status, 404);
  const plain = await mcp.call('start_flow', { template: 'unread_mail_summary', input: {}, });
  assert.deepEqual([plain.resultType, typeof contentOf(plain).flowId], ['complete', 'string']);
  const refused = await mcp.call('start_flow', { template: 'nope' }, CLIENT);
  assert.deepEqual([refused.resultType, refused.isError], ['complete', true]);
  assert.equal((await get(taskId)).status, 'input_required');
});
