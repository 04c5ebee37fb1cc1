// Held calls on every face (src/policy/README.md "Holds"): which answer each gives, that all of them
// are about the same hold and replay the same execution, and writes of clients that cannot ask a
// person (unattended_writes). What a hold is and what becomes of it is in holds.test.mjs.
import './support/compared.mjs';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const YES = { confirmation: { action: 'accept', content: { confirm: true } } };
const POLICY = {
  default: 'allow',
  rules: [
    { tools: ['gmail_send_message'], recipients_outside: ['acme.example'], decision: 'hold', reason: 'mail outside', expires_in: 600 },
    { tools: ['gmail_list_labels'], decision: 'hold' },
  ],
};
let stack, server, account, agent, approver;

before(async () => {
  stack = await Stack.start({ catalog: false });
  server = await stack.serve({ args: ['--public-url', 'https://sluice.example'] });
  account = await stack.account('Acme', { apps: ['gmail'] });
  await call(account.key, 'PUT', '/api/policies/agents', { policy: POLICY });
  agent = await keyWith({ policy: 'agents', scopes: ['read', 'execute', 'approve'] });
  approver = await keyWith({ scopes: ['read', 'approve'] });
});
after(() => stack?.stopWell(assert));

async function call(key, method, path, body, status = 200, headers) {
  const reply = await server.call(key, method, path, body, headers);
  assert.equal(reply.status, status, `${method} ${path}: ${reply.text}`);
  return reply.json;
}
const keyWith = async (body) => (await call(account.key, 'POST', '/api/keys', { name: 'made', scopes: ['read', 'execute'], ...body }, 201)).key;
const mailTo = (to, subject = 'Offer') => ({ to, subject, text: 'Hello' });
const bodyOf = (input, more) => ({ integration_id: 'gmail', action_id: 'send_message', input, ...more });
const execute = (key, input, more, status = 409) => call(key, 'POST', '/api/executions', bodyOf(input, more), status);
const tool = (key, name, body, status = 409) => call(key, 'POST', `/api/tools/${name}/execute`, body, status);
const sent = async () => (await stack.provider.ledger()).filter(({ path }) => path.endsWith('/messages/send')).length;
const approve = (flow) => call(approver, 'POST', `/api/flows/${flow}/approve`);

function checkHeld(summary, flow, url = 'https://sluice.example') {
  assert.deepEqual([summary.status, summary.error_code, summary.execution_id, summary.retryable, summary.outcome], ['blocked', 'policy_blocked', null, true, 'not_done'], JSON.stringify(summary));
  assert.equal(summary.recommended_next_action, undefined);
  const { approval } = summary;
  assert.deepEqual(Object.keys(approval), ['flow_id', 'status', 'url', 'expires_at', 'idempotency_key']);
  assert.equal(approval.url, `${url}/flows/${approval.flow_id}`);
  assert.equal(approval.status, 'waiting');
  assert.ok(summary.hint.includes(approval.url));
  if (flow) assert.equal(approval.flow_id, flow);
  return approval;
}

// What every face answers to the same request, as a summary.
function faces(key, input) {
  const mcp = new Mcp(server.base, key), body = bodyOf(input, { confirm: true });
  return {
    execution: async (status) => call(key, 'POST', '/api/executions', body, status),
    unconfirmed: async (status) => call(key, 'POST', '/api/executions', bodyOf(input), status),
    tool: async (status) => (await tool(key, 'gmail_send_message', { arguments: input, confirmed: true }, status)).canonical,
    batch: async () => (await call(key, 'POST', '/api/executions/batch', { executions: [body] })).results[0].summary,
    run_action: async () => contentOf(await mcp.call('run_action', body)),
    'run_action, unconfirmed': async () => contentOf(await mcp.call('run_action', bodyOf(input))),
    'run_action, with forms': async () => contentOf(await mcp.call('run_action', body, FORM)),
    run_actions: async () => contentOf(await mcp.call('run_actions', { actions: [body] })).results[0],
    'run_actions, with forms': async () => contentOf(await mcp.call('run_actions', { actions: [body] }, FORM)).results[0],
    'the tool itself': async () => contentOf(await mcp.call('gmail_send_message', { ...input, confirm: true })),
  };
}

test('every face answers with the same hold, and replays the same execution', async () => {
  const input = mailTo('ada@example.com'), before = await sent();
  const dry = await execute(agent, input, { dry_run: true }, 200);
  assert.deepEqual(dry.policy, { decision: 'hold', rule: 0 });
  assert.deepEqual((await call(approver, 'GET', '/api/flows')).flows, []);
  const unconfirmed = await tool(agent, 'gmail_send_message', { arguments: input }, 412);
  assert.deepEqual([unconfirmed.error.code, unconfirmed.canonical.approval], ['confirmation_required', undefined]);
  const first = await execute(agent, input);
  assert.match(first.message, /^Send a message waits for the approval of a person, as the policy of this API key requires: mail outside\. Nothing was done yet\.$/);
  const { flow_id, expires_at, idempotency_key } = checkHeld(first);
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 600_000) < 60_000, expires_at);
  for (const [name, ask] of Object.entries(faces(agent, input))) assert.equal(checkHeld(await ask(409), flow_id).idempotency_key, idempotency_key, name);
  const { error } = await tool(agent, 'gmail_send_message', { arguments: input, confirmed: true });
  assert.deepEqual([error.type, error.code, error.retryable], ['policy', 'approval_required', true]);
  assert.equal(await sent(), before);
  await approve(flow_id);
  const done = await until('it is done', async () => {
    const reply = await server.call(agent, 'POST', '/api/executions', bodyOf(input));
    return reply.status === 200 && reply;
  });
  assert.equal(done.headers.get('idempotent-replayed'), 'true');
  for (const [name, ask] of Object.entries(faces(agent, input))) assert.equal((await ask(200)).execution_id, done.json.execution_id, name);
  assert.equal((await execute(account.key, input, { confirm: true, idempotency_key }, 200)).execution_id, done.json.execution_id);
  assert.equal(await sent(), before + 1);
  const { events } = await call(account.key, 'GET', '/api/audit?kind=execution.blocked');
  assert.equal(events.filter(({ reason }) => reason === 'held').length, 1, 'repeats are not in the audit trail');
});

test('a read is held without a confirmation, and a rejection names its person and reason', async () => {
  const { error, canonical } = await tool(agent, 'gmail_list_labels', { arguments: {} });
  assert.equal(error.code, 'approval_required');
  const { flow_id } = checkHeld(canonical);
  await call(approver, 'POST', `/api/flows/${flow_id}/reject`, { note: 'Not today.' });
  const after = await tool(agent, 'gmail_list_labels', { arguments: {} });
  assert.deepEqual([after.error.type, after.error.code, after.error.retryable], ['policy', 'approval_rejected', false]);
  assert.deepEqual([after.canonical.error_code, after.canonical.approval.flow_id, after.canonical.approval.expires_at], ['policy_blocked', flow_id, null]);
  assert.match(after.error.message, /Not today\./);
  assert.equal(after.canonical.hint, 'To ask again, send the request with a new Idempotency-Key header.');
  // another key makes another hold
  const again = await call(agent, 'POST', '/api/tools/gmail_list_labels/execute', { arguments: {} }, 409, { 'Idempotency-Key': 'labels-2' });
  assert.equal(checkHeld(again.canonical).idempotency_key, 'labels-2');
  assert.notEqual(again.canonical.approval.flow_id, flow_id);
});

test('how to ask again is said in the words of each face', async () => {
  const input = mailTo('ada@example.com', 'Once more');
  const asked = faces(agent, input);
  const { flow_id } = checkHeld(await asked.execution(409));
  await call(approver, 'POST', `/api/flows/${flow_id}/reject`, {});
  const own = { tool: 'Idempotency-Key header', batch: 'idempotency_key of this execution', run_actions: 'idempotency_key of this action' };
  for (const [name, ask] of Object.entries(asked)) {
    const { hint } = await ask(409);
    assert.equal(hint, `To ask again, send the request with a new ${own[name.split(',')[0]] ?? 'idempotency_key'}.`, name);
  }
  // a key in _meta is replaced there; a tool that reads has no other
  const mcp = new Mcp(server.base, agent);
  const ask = async (name, args) => contentOf(await mcp.call(name, args, { meta: { 'sluice/idempotency_key': `in meta of ${name}` } }));
  const body = bodyOf(mailTo('ada@example.com', 'In _meta'));
  for (const [name, args, summaryOf = (one) => one] of [
    ['run_action', body],
    ['run_actions', { actions: [body] }, (one) => one.results[0]],
    ['gmail_list_labels', {}],
  ]) {
    const held = checkHeld(summaryOf(await ask(name, args)));
    await call(approver, 'POST', `/api/flows/${held.flow_id}/reject`, {});
    assert.match(summaryOf(await ask(name, args)).hint, /with a new "sluice\/idempotency_key" in _meta\.$/, name);
  }
  // the same for a key that another request has
  const headers = { 'Idempotency-Key': 'labels-2' };
  const reused = await call(agent, 'POST', '/api/tools/gmail_get_profile/execute', { arguments: {} }, 409, headers);
  assert.match(reused.error.message, /^This Idempotency-Key header was used for a different request/);
});

test('a call with files is denied, once it is confirmed and right', async () => {
  const files = [{ name: 'a.txt', data: 'YQ==' }];
  const { error, canonical } = await tool(agent, 'gmail_send_message', { arguments: mailTo('ada@example.com', 'Files'), confirmed: true, files });
  assert.equal(error.code, 'policy_denied');
  assert.match(error.message, /a call with files cannot wait/);
  assert.equal(canonical.approval, undefined);
  const inside = await tool(agent, 'gmail_send_message', { arguments: mailTo('bob@acme.example', 'Files'), confirmed: true, files }, 200);
  assert.equal(inside.canonical.status, 'succeeded');
});

test('a form has the writes that are not held; the held one waits once the form is answered', async () => {
  const mcp = new Mcp(server.base, agent), before = await sent();
  const actions = [bodyOf(mailTo('eve@example.com', 'Form')), bodyOf(mailTo('bob@acme.example', 'Form'))];
  const asked = await mcp.call('run_actions', { actions }, FORM);
  assert.equal(asked.resultType, 'input_required');
  const { message } = asked.inputRequests.confirmation.params;
  assert.ok(message.includes('bob@acme.example') && !message.includes('eve@example.com'), message);
  const { result } = await mcp.ask('tools/call', { name: 'run_actions', arguments: { actions }, requestState: asked.requestState, inputResponses: YES }, FORM);
  const [held, done] = contentOf(result).results;
  checkHeld(held);
  assert.equal(done.status, 'succeeded');
  assert.equal(await sent(), before + 1);
});

test('a key holds writes that no form can confirm, whatever the model claims', async () => {
  const key = await keyWith({ unattended_writes: 'hold', scopes: ['read', 'execute', 'admin'] });
  const mcp = new Mcp(server.base, key), input = mailTo('zoe@example.com'), before = await sent();
  const held = contentOf(await mcp.call('run_action', bodyOf(input, { confirm: true })));
  const { flow_id } = checkHeld(held);
  assert.match(held.message, /as writes of clients that cannot ask one do/);
  checkHeld(contentOf(await mcp.call('run_actions', { actions: [bodyOf(input, { confirm: true })] })).results[0], flow_id);
  assert.equal((await mcp.call('run_action', bodyOf(input), FORM)).resultType, 'input_required');
  assert.equal(contentOf(await mcp.call('run_action', { integration_id: 'gmail', action_id: 'list_labels', input: {} })).status, 'succeeded');
  assert.equal((await execute(key, mailTo('zoe@example.com', 'Over HTTP'), { confirm: true }, 200)).status, 'succeeded');
  await approve(flow_id);
  const done = await until('it is done', async () => {
    const summary = contentOf(await mcp.call('run_action', bodyOf(input)));
    return summary.status === 'succeeded' && summary;
  });
  assert.equal(done.idempotent_replayed, true);
  assert.equal(await sent(), before + 2);
  // what it makes is limited as it is
  const child = await call(key, 'POST', '/api/keys', { name: 'child', scopes: ['read'] }, 201);
  assert.equal(child.unattended_writes, 'hold');
  const { error } = await call(key, 'POST', '/api/keys', { name: 'child', scopes: ['read'], unattended_writes: 'allow' }, 403);
  assert.match(error, /holds writes that no person can confirm/);
  assert.equal((await call(key, 'POST', '/api/keys', { name: 'child', scopes: ['read'], unattended_writes: 'refuse' }, 201)).unattended_writes, 'refuse');
});

test('the setting holds for keys that do not say otherwise', async () => {
  const strict = await stack.serve({ args: ['--unattended-writes', 'hold'] });
  const input = mailTo('max@example.com');
  const held = contentOf(await new Mcp(strict.base, account.key).call('run_action', bodyOf(input, { confirm: true })));
  checkHeld(held, undefined, strict.base);
  const allowed = await keyWith({ unattended_writes: 'allow' });
  assert.equal(contentOf(await new Mcp(strict.base, allowed).call('run_action', bodyOf(input, { confirm: true }))).status, 'succeeded');
  await strict.stop();
});

test('a page names a deleted connection without a link', async () => {
  const { approval } = await execute(agent, mailTo('uma@example.com'));
  const { id } = (await call(account.key, 'GET', '/api/connections')).connections[0];
  const pages = new Pages(server.base);
  await pages.signIn(account.key);
  const page = async () => (await pages.go(`/flows/${approval.flow_id}`)).text;
  assert.ok((await page()).includes(`href="/connections/${id}"`));
  await call(account.key, 'DELETE', `/api/connections/${id}`);
  const text = await page();
  assert.ok(text.includes(`connection ${id}`) && !text.includes(`href="/connections/${id}"`));
});
