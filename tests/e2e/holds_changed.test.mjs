// An approval is of what was shown: the names of the ids in a call are read again right before it is
// made (src/policy/README.md "Holds"). Each step of this is in tests/unit/flow/test_compare.c.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const id = { type: 'string', description: 'Id of the draft.' };
const input_schema = { type: 'object', additionalProperties: false, required: ['id'], properties: { id } };
const shows = { id: { action: 'read', input: { id: '${input.id}' }, text: '${output.subject}, to ${output.to}', version: '${output.message}' } };
const write = (method, more) => ({ side_effect_level: 'write', requires_confirmation: true, idempotent: false, undo: 'never', ...more, request: { method, path: '/drafts/${input.id}' } });
const TEMPLATE = {
  key: 'send_approved',
  name: 'Send a draft',
  description: 'An approval and a write.',
  input: input_schema,
  steps: [
    { key: 'ask', type: 'approval', title: 'Send', summary: 'One draft' },
    { key: 'send', type: 'tool_call', tool: 'drafts_send', confirmed_by: 'approval:ask', input: { id: '${input.id}' } },
  ],
};
const MAIL = { subject: 'Invoice', to: 'ada@acme.example', message: 'm-1' }, OTHER = { ...MAIL, to: 'eve@evil.example', message: 'm-2' };
const EDITED = { ...MAIL, message: 'm-2' };

let stack, provider, account, server, asker;
let draft, sent, reads, isSilent; // the draft of the app; the mails that it has sent; its reads; whether it answers none

before(async () => {
  stack = await Stack.start({ provider: false });
  [sent, reads] = [[], 0];
  provider = await Scripted.start((request, reply) => {
    reply.setHeader('content-type', 'application/json');
    if (request.method === 'POST') sent.push(draft);
    else if (++reads && isSilent) return;
    reply.end(JSON.stringify(draft));
  });
  const output_schema = { type: 'object', properties: { subject: { type: 'string' }, to: { type: 'string' }, message: { type: 'string' } } };
  stack.catalog = await writeCatalog(stack.dir, {
    drafts: { actions: { read: { input_schema, output_schema, request: { method: 'GET', path: '/drafts/${input.id}' } }, send: write('POST', { input_schema, shows }) } },
  });
  await mkdir(join(stack.catalog, 'templates'));
  await writeFile(join(stack.catalog, 'templates', 'send_approved.json'), JSON.stringify(TEMPLATE));
  account = await stack.account('drafts', { apps: [] });
  server = await stack.serve({ env: { SLUICE_CATALOG: stack.catalog }, args: overrides(provider.url, 'drafts') });
  const policy = { default: 'allow', rules: [{ tools: ['drafts_send'], decision: 'hold' }] };
  assert.ok((await server.call(account.key, 'PUT', '/api/policies/agents', { policy })).status < 300);
  const made = await server.call(account.key, 'POST', '/api/keys', { name: 'agent', policy: 'agents', scopes: ['read', 'execute'] });
  assert.equal(made.status, 201, made.text);
  asker = made.json.key;
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const call = (...args) => server.call(account.key, ...args);
const read = async (flow) => (await call('GET', `/api/flows/${flow}`)).json;
const waits = (flow) => until('the approval begins', async () => ((now) => now.flow.status === 'waiting' && now)(await read(flow)));
const ended = (flow, as) => until(`it has ${as}`, async () => ((now) => now.flow.status === as && now)(await read(flow)));
const approve = async (flow) => assert.equal((await call('POST', `/api/flows/${flow}/approve`, {})).status, 200);
const ask = (idempotency_key) => server.call(asker, 'POST', '/api/executions', { integration_id: 'drafts', action_id: 'send', input: { id: 'd-1' }, idempotency_key });

// Asks for the draft to be sent: held, or by a flow. Returns the flow, which waits.
async function asked(how) {
  [draft, sent, isSilent] = [MAIL, [], false];
  const reply = how === 'flow' ? await call('POST', '/api/flows/start', { flowTemplate: TEMPLATE.key, input: { id: 'd-1' } }) : await ask(how);
  const flow = how === 'flow' ? reply.json.flowId : reply.json.approval?.flow_id;
  assert.ok(flow, reply.text);
  const { steps } = await waits(flow);
  assert.deepEqual(steps.find(({ input }) => input?.items).input.items[0].shows, { id: 'Invoice, to ada@acme.example' });
  return flow;
}

for (const how of ['flow', 'held'])
  test(`${how}: a draft that is unchanged is sent`, async () => {
    const flow = await asked(how === 'flow' ? how : 'unchanged');
    await approve(flow);
    await ended(flow, 'completed');
    assert.deepEqual(sent, [MAIL]);
  });

for (const how of ['flow', 'held'])
  test(`${how}: a draft that was changed after it was shown is not sent`, async () => {
    const flow = await asked(how === 'flow' ? how : 'changed');
    draft = OTHER;
    await approve(flow);
    const { error } = (await ended(flow, 'failed')).steps.at(-1);
    assert.deepEqual([error.code, error.outcome, error.retryable], ['policy_blocked', 'not_done', false]);
    assert.equal(error.message, 'What id means has changed since it was approved: it was "Invoice, to ada@acme.example", and is "Invoice, to eve@evil.example" now. The call was not made.');
    assert.deepEqual(sent, []);
    if (how === 'flow') return assert.match(error.hint, /^Start another flow/);
    // the request says so, too, and a new key asks for what is there now
    const again = await ask('changed');
    assert.deepEqual([again.status, again.json.error_code, again.json.outcome], [409, 'policy_blocked', 'not_done'], again.text);
    assert.match(again.json.message, /^This call was approved, and failed at .*: What id means has changed .* The call was not made\. Nothing was done\.$/);
    assert.match(again.json.hint, /new idempotency_key/);
    const next = (await ask('changed, again')).json.approval.flow_id;
    assert.notEqual(next, flow);
    await waits(next);
    await approve(next);
    await ended(next, 'completed');
    assert.deepEqual(sent, [OTHER]);
  });

for (const how of ['flow', 'held'])
  test(`${how}: a draft that reads the same, and is another version, is not sent`, async () => {
    const flow = await asked(how === 'flow' ? how : 'edited');
    draft = EDITED;
    await approve(flow);
    const { error } = (await ended(flow, 'failed')).steps.at(-1);
    assert.equal(error.message, 'What id means has changed since it was approved: it is another version of "Invoice, to ada@acme.example" now. The call was not made.');
    draft = MAIL;
    assert.equal((await call('POST', `/api/flows/${flow}/resume`)).status, 200);
    await ended(flow, 'completed');
    assert.deepEqual(sent, [MAIL]);
  });

for (const how of ['flow', 'held'])
  test(`${how}: an app that does not answer is read again, and then compared`, async () => {
    const flow = await asked(how === 'flow' ? how : 'unread');
    isSilent = true;
    const from = reads;
    await approve(flow);
    await until('the draft is read again', () => reads > from);
    isSilent = false; // for the next attempt
    const { steps } = await ended(flow, 'completed');
    assert.deepEqual([steps.at(-1).attemptCount, sent], [2, [MAIL]]);
  });
