// The endpoints of flows (src/api/README.md "Flows"): their answers, refusals and watches. Two
// servers give the same answers.
import assert from 'node:assert/strict';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { hold, pause, until } from './support/client.mjs';
import { Pages } from './support/pages.mjs';
import { Raw } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const NOWHERE = '019a0000-0000-7000-8000-000000000000';
let stack, one, two, account, other, reader, agent;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Flows', { apps: ['gmail', 'notion'] });
  other = await stack.account('Other', { apps: [] });
  reader = await stack.key(account.id, ['--scopes', 'read']);
  agent = await stack.key(account.id, ['--scopes', 'read,execute']);
  [one, two] = [await stack.serve(), await stack.serve()];
});
after(() => stack?.stopWell(assert));

const get = (path, { key = account.key, server = one, headers } = {}) => server.call(key, 'GET', path, undefined, headers);
const post = (path, body, { key = account.key, server = one } = {}) => server.call(key, 'POST', path, body);

async function start(input, more = {}, options) {
  const reply = await post('/api/flows/start', { flowTemplate: 'api_gate', input, ...more }, options);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

const view = async (id, options) => (await get(`/api/flows/${id}`, options)).json;
const reaches = (id, status, options) =>
  until(`${id} is ${status}`, async () => {
    const seen = await view(id, options);
    return seen.flow.status === status && seen;
  });
const statuses = ({ steps }) => steps.map((step) => step.status);

test('the templates', async () => {
  const { status, json, headers } = await get('/api/flows/templates');
  assert.equal(status, 200);
  const keys = json.templates.map((template) => template.key);
  for (const key of ['unread_mail_summary', 'unread_mail_to_tasks', 'api_gate']) assert.ok(keys.includes(key), key);
  assert.deepEqual(keys, [...keys].sort());
  for (const template of json.templates) assert.deepEqual(Object.keys(template), ['key', 'name', 'description']);
  const again = await get('/api/flows/templates', { headers: { 'if-none-match': headers.get('etag') } });
  assert.equal(again.status, 304);
});

// A client that has never seen a template learns how to start it.
test('a template says its inputs and what it will do', async () => {
  const { status, json, headers } = await get('/api/flows/templates/unread_mail_to_tasks');
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(json), ['key', 'name', 'description', 'input_schema', 'steps']);
  const listed = (await get('/api/flows/templates')).json.templates.find(({ key }) => key === 'unread_mail_to_tasks');
  assert.deepEqual(listed, { key: json.key, name: json.name, description: json.description });
  assert.deepEqual(json.input_schema.required, ['taskParent']);
  assert.equal(json.input_schema.properties.maxResults.maximum, 20);
  const steps = Object.fromEntries(json.steps.map(({ key, ...step }) => [key, step]));
  assert.deepEqual(Object.keys(steps), ['list', 'read', 'mails', 'tasks', 'database', 'approve_tasks', 'create_tasks', 'created']);
  assert.deepEqual(steps.list, {
    type: 'tool_call', title: 'List the mails', tool: 'gmail_list_messages', integration_id: 'gmail', side_effect_level: 'read',
  });
  assert.deepEqual(steps.mails, { type: 'transform', title: 'Take what counts of each' });
  assert.equal(steps.read.for_each, true);
  assert.deepEqual([steps.approve_tasks.type, steps.approve_tasks.conditional], ['approval', true]);
  assert.match(steps.approve_tasks.title, /^Create \$\{.*\} task \$\{.*\} in Notion$/);
  assert.deepEqual(
    [steps.create_tasks.confirmed_by, steps.create_tasks.side_effect_level, steps.create_tasks.integration_id],
    ['approval:approve_tasks', 'write', 'notion'],
  );
  assert.equal((await get('/api/flows/templates/unread_mail_to_slack')).json.steps.find((step) => step.confirmed_by).confirmed_by, 'start');
  const again = await get('/api/flows/templates/unread_mail_to_tasks', { headers: { 'if-none-match': headers.get('etag') } });
  assert.equal(again.status, 304);
  const ajv = new Ajv2020({ strict: false });
  for (const { key } of (await get('/api/flows/templates')).json.templates)
    ajv.compile((await get(`/api/flows/templates/${key}`)).json.input_schema);
});

test('an unknown template names a similar one', async () => {
  const unknown = async (key) => {
    const seen = await get(`/api/flows/templates/${encodeURIComponent(key)}`);
    const started = await post('/api/flows/start', { flowTemplate: key });
    assert.deepEqual([seen.status, started.status], [404, 404]);
    assert.equal(seen.text, started.text);
    return seen.json.error;
  };
  assert.equal(await unknown('nope'), 'Unknown flow template: nope');
  assert.equal(await unknown('API_Gate'), 'Unknown flow template: API_Gate; did you mean "api_gate"?');
  assert.equal(await unknown('unread_mail_sumary'), 'Unknown flow template: unread_mail_sumary; did you mean "unread_mail_summary"?');
  const started = await post('/api/flows/start', { flowTemplate: 'a\0b' });
  assert.deepEqual([started.status, started.json.error], [404, 'Unknown flow template: a\\u0000b']);
});

test('start answers with the view and the templates, approve continues it', async () => {
  const started = await start({ id: 'INBOX' }, { triggerType: 'agent' });
  assert.deepEqual(Object.keys(started), ['flowId', 'flow', 'templates']);
  assert.match(started.flowId, ID);
  const { flow, steps } = started.flow;
  assert.deepEqual(Object.keys(flow), [
    'id', 'rev', 'name', 'title', 'templateKey', 'status', 'triggerType', 'input', 'context', 'currentStep', 'createdAt', 'updatedAt', 'completedAt',
  ]);
  assert.equal(flow.id, started.flowId);
  assert.deepEqual([flow.name, flow.title, flow.templateKey, flow.status, flow.triggerType], ['Gate', 'Gate of INBOX', 'api_gate', 'running', 'agent']);
  assert.deepEqual([flow.input, flow.context, flow.completedAt, flow.currentStep], [{ id: 'INBOX' }, {}, null, 'label']);
  assert.match(flow.createdAt, TIME);
  assert.deepEqual(steps.map((step) => [step.stepKey, step.stepIndex, step.stepType]), [
    ['label', 0, 'tool_call'], ['rest', 1, 'wait'], ['ask', 2, 'approval'], ['done', 3, 'transform'],
  ]);

  const waiting = await reaches(flow.id, 'waiting');
  assert.deepEqual(statuses(waiting), ['completed', 'completed', 'waiting', 'pending']);
  assert.equal(waiting.flow.currentStep, 'ask');
  assert.equal(waiting.flow.context.label.name, 'INBOX');
  const ask = waiting.steps[2];
  assert.deepEqual(ask.input, { title: 'Go on with INBOX', summary: 'Nothing is written.', items: [] });
  assert.match(ask.expiresAt, TIME);
  assert.deepEqual([ask.output, ask.error, ask.completedAt], [null, null, null]);

  const wrong = await post(`/api/flows/${flow.id}/approve`, { stepKey: 'rest' });
  assert.deepEqual([wrong.status, wrong.json], [409, { error: 'The step that waits for approval is "ask".' }]);
  const old = await post(`/api/flows/${flow.id}/approve`, { rev: 1 });
  assert.equal(old.status, 409, old.text);
  const approved = await post(`/api/flows/${flow.id}/approve`, { stepKey: 'ask', note: 'Grüße' }, { server: two });
  assert.equal(approved.status, 200, approved.text);
  assert.equal(approved.json.steps[2].status, 'completed');
  const ended = await reaches(flow.id, 'completed');
  assert.deepEqual(statuses(ended), ['completed', 'completed', 'completed', 'completed']);
  assert.deepEqual(approved.json.steps.slice(0, 2), ended.steps.slice(0, 2));
  const { updatedAt, ...step } = approved.json.steps[2]; // while it is the current one it changes with the flow
  assert.deepEqual({ ...step, updatedAt: ended.steps[2].updatedAt }, ended.steps[2]);
  assert.deepEqual(approved.json.flow.context.ask, ended.flow.context.ask);
  assert.deepEqual(ended.flow.context.done, { name: 'INBOX', note: 'Grüße' });
  assert.match(ended.steps[2].output.approvedBy, /^key:/);
  assert.match(ended.steps[2].output.approvedAt, TIME);
  assert.match(ended.flow.completedAt, TIME);
  assert.equal(ended.flow.currentStep, 'done');
  assert.equal((await post(`/api/flows/${flow.id}/approve`)).status, 409);
  const [event] = (await get('/api/audit?kind=flow.approved')).json.events;
  assert.deepEqual(event.details, { flow_id: flow.id, title: approved.json.steps[2].input.title, step_key: 'ask', note: 'Grüße' });
});

test('starts that are refused', async () => {
  const refused = async (body, status, text) => {
    const reply = await post('/api/flows/start', body);
    assert.equal(reply.status, status, reply.text);
    assert.match(reply.json.error, text);
  };
  await refused({ flowTemplate: 'nope' }, 404, /^Unknown flow template: nope$/);
  await refused({}, 400, /flowTemplate is required/);
  await refused({ flowTemplate: 7 }, 400, /flowTemplate must be a string/);
  await refused({ flowTemplate: 'api_gate', input: [] }, 400, /input must be an object/);
  await refused({ flowTemplate: 'api_gate', input: { id: 'x' }, triggerType: 'cron' }, 400, /triggerType/);
  await refused({ flowTemplate: 'api_gate', input: { id: 1, nope: 2 } }, 400, /\/input\/id.*\/input\/nope|\/input.*nope.*\/input\/id/);
  await refused({ flowTemplate: 'unread_mail_summary', input: { maxResults: 21 } }, 400, /\/input\/maxResults: must be at most 20/);
  await refused({ flowTemplate: 'unread_mail_to_tasks' }, 400, /taskParent/);
  await refused({ flowTemplate: 'unread_mail_to_slack', input: { channel: 'C1' } }, 400, /confirm/);
  await refused({ flowTemplate: 'unread_mail_to_slack', input: { channel: 'C1', confirm: false } }, 400, /\/input\/confirm/);
  await refused('', 400, /JSON object is required/);
  const listed = await get('/api/flows?template=unread_mail_to_slack');
  assert.deepEqual(listed.json, { flows: [] });
});

test('null for an optional input of a template counts as absent', async () => {
  const input = { query: null, maxResults: null, mailConnectionId: null };
  const started = await post('/api/flows/start', { flowTemplate: 'unread_mail_summary', input, triggerType: null });
  assert.deepEqual([started.status, started.json.flow?.flow.input], [200, {}], started.text);
  const required = await post('/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input: { ...input, taskParent: null } });
  assert.match(required.json.error, /^\/input\/taskParent: /);
});

test('the flows of a rare template are searched in bounded steps, each of which says where it stopped', async () => {
  const rare = await stack.account('rare');
  const start = async (flowTemplate, input) => (await post('/api/flows/start', { flowTemplate, input }, { key: rare.key })).json.flowId;
  const first = await start('api_gate', { id: 'INBOX' });
  await reaches(first, 'waiting', { key: rare.key });
  const many = await start('unread_mail_summary', { maxResults: 1 });
  await reaches(many, 'completed', { key: rare.key });
  await stack.cluster.sql(`insert into sluice.flow select copy.* from sluice.flow f, generate_series(1, 17000) n,
    lateral json_populate_record(f, json_build_object('id', (lpad(to_hex((extract(epoch from f.created_at) * 1000)::bigint + n), 12, '0') || '70008000000000000000')::uuid)) copy where f.id = '${many}'`);
  const list = async (query) => (await get(`/api/flows?template=api_gate${query}`, { key: rare.key })).json;
  for (const query of ['', '&fields=summary']) {
    const page = await list(query);
    assert.deepEqual(page.flows, []);
    const rest = await list(`${query}&cursor=${page.next_cursor}`);
    assert.deepEqual([rest.flows.map(({ id }) => id), rest.next_cursor], [[first], undefined]);
  }
  assert.deepEqual(Object.keys(await list('&status=waiting')), ['flows']);
  assert.equal((await list('&status=waiting')).flows.length, 1);
  const all = (await get('/api/flows?limit=7&fields=summary', { key: rare.key })).json;
  assert.deepEqual([all.flows.length, Object.keys(all)], [7, ['flows']]);
});

// A client that changed a flow can continue from the answer, without another read.
test('a request that changes a flow answers with the revision, as ETag and in the record', async () => {
  const seen = [];
  const revOf = (reply, flow = reply.json.flow) => {
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.headers.get('etag'), `"${flow.rev}"`, reply.text);
    seen.push(flow.rev);
    return flow.rev;
  };
  const begun = async () => {
    const reply = await post('/api/flows/start', { flowTemplate: 'api_gate', input: { id: 'INBOX' } });
    assert.equal(revOf(reply, reply.json.flow.flow), 1);
    return reply.json.flowId;
  };
  const [approved, rejected, cancelled] = [await begun(), await begun(), await begun()];
  for (const id of [approved, rejected, cancelled]) {
    await reaches(id, 'waiting');
    const reply = await get(`/api/flows/${id}`);
    assert.equal((await get(`/api/flows?limit=100`)).json.flows.find((flow) => flow.id === id).rev, revOf(reply));
    assert.equal(revOf(await post(`/api/flows/${id}/resume`)), reply.json.flow.rev); // The flow waits for a person, so it does not change.
  }
  const before = (await view(approved)).flow.rev;
  const after = revOf(await post(`/api/flows/${approved}/approve`, { rev: before }));
  assert.equal(after, before + 1);
  await reaches(approved, 'completed');
  for (const [id, verb] of [[rejected, 'reject'], [cancelled, 'cancel']]) {
    const rev = revOf(await post(`/api/flows/${id}/${verb}`));
    assert.equal((await get(`/api/flows/${id}`, { headers: { 'if-none-match': `"${rev}"` } })).status, 304);
  }
  assert.ok(seen.every((rev) => Number.isInteger(rev) && rev > 0));
});

test('a running attempt is counted, also after a resume', async () => {
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: 1, action: { status: 400 } }]);
  const { flowId } = await start({ id: 'INBOX' });
  const failed = await reaches(flowId, 'failed');
  assert.equal(failed.steps[0].attemptCount, 1);
  const held = await hold(stack.provider, { path_prefix: '/gmail/' });
  const resumed = await post(`/api/flows/${flowId}/resume`);
  assert.equal(resumed.json.steps[0].attemptCount, 2, resumed.text);
  await held.reached(1);
  for (const server of [one, two]) {
    const { flow, steps } = await view(flowId, { server });
    assert.deepEqual([flow.status, steps[0].status, steps[0].attemptCount], ['running', 'running', 2]);
  }
  await held.letGo();
  const waiting = await reaches(flowId, 'waiting');
  assert.deepEqual(waiting.steps.map((step) => step.attemptCount), [2, 1, 1, 0]);
  assert.equal((await post(`/api/flows/${flowId}/cancel`)).json.steps[2].attemptCount, 1);
});

test('reject cancels the flow and records who rejected it', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  const reply = await post(`/api/flows/${flowId}/reject`, { note: 'not today' });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.json.flow.status, 'cancelled');
  assert.deepEqual(statuses(reply.json), ['completed', 'completed', 'failed', 'cancelled']);
  assert.match(reply.json.steps[2].error.message, /^Rejected by key:.*: not today$/);
  assert.deepEqual((await get(`/api/flows/${flowId}`)).json, reply.json);
  const rejections = (await get('/api/audit?kind=flow.rejected')).json.events.filter(({ details }) => details.flow_id === flowId);
  assert.equal(rejections.length, 1);
  assert.equal((await post(`/api/flows/${flowId}/resume`)).status, 409);
});

test('a failed flow can be resumed, a cancelled one cannot', async () => {
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: 1, action: { status: 400 } }]);
  const { flowId } = await start({ id: 'INBOX' });
  const failed = await reaches(flowId, 'failed');
  assert.deepEqual(statuses(failed), ['failed', 'pending', 'pending', 'pending']);
  assert.deepEqual([failed.flow.completedAt, failed.flow.context], [null, {}]);
  assert.equal(failed.steps[0].error.code, 'validation_error');
  assert.equal(typeof failed.steps[0].error.retryable, 'boolean');
  assert.equal((await post(`/api/flows/${flowId}/approve`)).status, 409);
  const resumed = await post(`/api/flows/${flowId}/resume`, undefined, { server: two });
  assert.equal(resumed.status, 200, resumed.text);
  assert.equal(resumed.json.flow.status, 'running');
  assert.deepEqual(statuses(resumed.json), ['running', 'pending', 'pending', 'pending']);
  assert.deepEqual(resumed.json.steps.slice(1), failed.steps.slice(1));
  const waiting = await reaches(flowId, 'waiting');
  assert.equal(waiting.steps[0].attemptCount, 2);
  const same = await post(`/api/flows/${flowId}/resume`, {});
  assert.deepEqual([same.status, same.json], [200, waiting]);
  for (let i = 0; i < 2; i++) {
    const cancelled = await post(`/api/flows/${flowId}/cancel`);
    assert.deepEqual([cancelled.status, cancelled.json.flow.status], [200, 'cancelled']);
    assert.deepEqual(statuses(cancelled.json), ['completed', 'completed', 'cancelled', 'cancelled']);
  }
  assert.equal((await post(`/api/flows/${flowId}/resume`)).status, 409);
  assert.equal((await post(`/api/flows/${flowId}/approve`)).status, 409);
  // one event for each request that changed the flow
  const { events } = (await get('/api/audit?kind=flow')).json;
  const own = events.filter((event) => event.details.flow_id === flowId).map(({ kind, reason }) => [kind, reason]);
  assert.deepEqual(own, [['flow.cancelled', 'already_cancelled'], ['flow.cancelled', null], ['flow.resumed', null]]);
});

test('unknown and foreign flows are not found, with the same message', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  const paths = (id) => [
    ['GET', `/api/flows/${id}`], ['GET', `/api/flows/${id}/events`], ['POST', `/api/flows/${id}/approve`],
    ['POST', `/api/flows/${id}/reject`], ['POST', `/api/flows/${id}/resume`], ['POST', `/api/flows/${id}/cancel`],
  ];
  for (const [method, path] of [...paths(NOWHERE), ...paths('nonsense')]) {
    const reply = await one.call(account.key, method, path);
    assert.deepEqual([reply.status, reply.json], [404, { error: 'Flow not found' }], path);
  }
  for (const [method, path] of paths(flowId)) {
    const reply = await one.call(other.key, method, path);
    assert.deepEqual([reply.status, reply.json], [404, { error: 'Flow not found' }], path);
  }
  assert.deepEqual((await get('/api/flows', { key: other.key })).json, { flows: [] });
  await reaches(flowId, 'waiting');
});

test('scopes: an agent cannot approve its own flow', async () => {
  const { flowId } = await start({ id: 'INBOX' }, {}, { key: agent });
  await reaches(flowId, 'waiting');
  for (const [key, path, scope] of [
    [agent, `/api/flows/${flowId}/approve`, 'approve'], [agent, `/api/flows/${flowId}/reject`, 'approve'],
    [reader, `/api/flows/${flowId}/resume`, 'execute:write'], [reader, `/api/flows/${flowId}/cancel`, 'execute:write'],
    [reader, '/api/flows/start', 'execute'],
  ]) {
    const reply = await post(path, {}, { key });
    assert.deepEqual([reply.status, reply.json], [403, { error: `This API key lacks the scope "${scope}"` }], path);
  }
  assert.equal((await view(flowId, { key: reader })).flow.status, 'waiting');
});

test('the bodies of approve and reject', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  for (const [body, text] of [
    [{ note: 7 }, /note must be a string/], [{ stepKey: [] }, /stepKey must be a string/], [{ rev: 0 }, /rev/],
    [{ rev: '1' }, /rev/], [{ note: 'x'.repeat(2001) }, /2000/], ['[]', /must be a JSON object/],
  ]) {
    const reply = await post(`/api/flows/${flowId}/approve`, body);
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, text);
  }
  const { headers } = await get(`/api/flows/${flowId}`);
  const rev = Number(JSON.parse(headers.get('etag')));
  assert.equal((await post(`/api/flows/${flowId}/approve`, { rev })).status, 200);
});

test('lists: newest first, filters, cursor, limit', async () => {
  const ids = [];
  for (let i = 0; i < 3; i++) ids.unshift((await start({ id: 'INBOX' })).flowId);
  for (const id of ids) await reaches(id, 'waiting');
  const newest = (await get('/api/flows?limit=2')).json.flows;
  assert.deepEqual(newest.map((flow) => flow.id), ids.slice(0, 2));
  assert.deepEqual(newest[0], (await view(ids[0])).flow);
  const next = (await get(`/api/flows?limit=1&cursor=${newest[1].id}`)).json.flows;
  assert.equal(next[0].id, ids[2]);
  const waiting = (await get('/api/flows?status=waiting&limit=1000')).json.flows;
  assert.ok(waiting.length >= 3 && waiting.every((flow) => flow.status === 'waiting'));
  const completed = (await get('/api/flows?status=completed')).json.flows;
  assert.ok(completed.length >= 1 && completed.every((flow) => flow.status === 'completed'));
  assert.deepEqual((await get('/api/flows?status=pending')).json, { flows: [] });
  for (const query of ['limit=0', 'limit=-1', 'limit=x', 'status=nope', 'cursor=7', 'Fields=summary', 'fields=Summary', 'fields=id'])
    assert.equal((await get(`/api/flows?${query}`)).status, 400, query);
});

test('a list of summaries has neither inputs nor contexts, and does not read them', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  const [whole] = (await get('/api/flows?limit=1')).json.flows;
  const { input, context, ...rest } = whole;
  assert.deepEqual([input, Object.keys(context)], [{ id: 'INBOX' }, ['label', 'rest']]);
  const path = '/api/flows?fields=summary&limit=1';
  assert.deepEqual((await get(path)).json.flows, [rest]);
  assert.deepEqual((await get(`${path}&status=waiting&template=api_gate`)).json.flows, [rest]);
  assert.match((await get('/api/flows?fields=all')).json.error, /^fields must be summary/);
  const tables = ['flow_doc', 'flow_step'];
  const rename = async (from, to) => {
    for (const table of tables) await stack.cluster.sql(`alter table sluice.${table}${from} rename to ${table}${to}`);
  };
  await rename('', '_out_of_reach');
  try {
    for (const server of [one, two]) assert.deepEqual((await get(path, { server })).json.flows, [rest]);
    assert.equal((await get('/api/flows?limit=1')).status, 500);
  } finally {
    await rename('_out_of_reach', '');
  }
  assert.deepEqual((await get('/api/flows?limit=1')).json.flows, [whole]);
});

test('a long poll may wait until the flow is settled, on either server', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  const path = `/api/flows/${flowId}`;
  for (const server of [one, two]) assert.equal((await get(`${path}?wait=60&until=settled`, { server })).json.flow.status, 'waiting');
  assert.equal((await post(`${path}/approve`)).status, 200);
  for (const server of [one, two]) assert.equal((await get(`${path}?wait=60&until=settled`, { server })).json.flow.status, 'completed');
});

test('a long poll is answered when the view changes, on either server', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  const path = `/api/flows/${flowId}`;
  const { headers, json } = await get(path);
  const etag = headers.get('etag');
  const known = await get(path, { headers: { 'if-none-match': etag } });
  assert.deepEqual([known.status, known.text], [304, '']);
  const idle = await get(`${path}?wait=1`, { headers: { 'if-none-match': etag } });
  assert.equal(idle.status, 304);
  const stale = await get(`${path}?wait=60`, { headers: { 'if-none-match': '"0"' } });
  assert.deepEqual(stale.json, json);
  const polls = [one, two].flatMap((server) => [
    get(`${path}?wait=60`, { server, headers: { 'if-none-match': etag } }), get(`${path}?wait=60`, { server }),
  ]);
  await pause(100); // Most of them wait by now. The others are answered as well.
  assert.equal((await post(`${path}/approve`)).status, 200);
  for (const reply of await Promise.all(polls)) {
    assert.equal(reply.status, 200);
    assert.notEqual(reply.headers.get('etag'), etag);
  }
  const ended = await reaches(flowId, 'completed');
  const last = await get(`${path}?wait=60`); // A flow that has ended is not waited for.
  assert.deepEqual(last.json, ended);
  for (const wait of ['-1', 'x']) assert.equal((await get(`${path}?wait=${wait}`)).status, 400);
  assert.equal((await get(`${path}?wait=1&until=later`)).status, 400);
});

// Reads a stream of server-sent events to its end.
async function* events(server, path, headers = {}) {
  const reply = await fetch(server.base + path, { headers: { authorization: `Bearer ${account.key}`, ...headers } });
  assert.equal(reply.status, 200);
  assert.equal(reply.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  let text = '';
  for await (const part of reply.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) {
      const fields = text.slice(0, at).split('\n').filter((line) => !line.startsWith(':'));
      if (fields.length === 0) continue;
      const event = Object.fromEntries(fields.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]));
      yield { id: Number(event.id), view: JSON.parse(event.data) };
    }
  }
  assert.equal(text, '');
}

test('the stream of a flow’s page answers HEAD with its head alone', { timeout: 60_000 }, async () => {
  const { flowId } = await start({ id: 'INBOX' });
  const pages = new Pages(one.base);
  await pages.signIn(account.key);
  const raw = await Raw.connect({ port: one.port });
  await raw.send(
    `HEAD /flows/${flowId}/events HTTP/1.1\r\nHost: a\r\nCookie: ${pages.cookie}\r\n\r\n` + 'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  );
  const replies = (await raw.untilEnd()).match(/HTTP\/1.1 \d{3}/g);
  assert.deepEqual(replies, ['HTTP/1.1 200', 'HTTP/1.1 200']);
  raw.close();
  await post(`/api/flows/${flowId}/cancel`);
});

test('event streams end with the flow, on both servers', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  const path = `/api/flows/${flowId}`;
  await reaches(flowId, 'waiting');
  for (const what of ['/events', '?wait=0', ''])
    assert.equal((await one.call(account.key, 'HEAD', path + what)).status, 200);
  let watching = 0;
  const seen = await Promise.all(
    [one, two].map(async (server) => {
      const all = [];
      for await (const event of events(server, `${path}/events`)) {
        if (all.push(event) === 1 && ++watching === 2) await post(`${path}/approve`, {}, { server: one });
      }
      return all;
    }),
  );
  for (const all of seen) {
    assert.ok(all.length >= 2);
    assert.ok(all.every((event, at) => at === 0 || event.id > all[at - 1].id));
    assert.equal(all[0].view.flow.status, 'waiting');
    assert.deepEqual(all.at(-1).view, await view(flowId));
    assert.equal(all.at(-1).view.flow.status, 'completed');
  }
  const last = seen[0].at(-1).id;
  const done = await get(`${path}/events`, { headers: { 'last-event-id': String(last) } });
  assert.deepEqual([done.status, done.text], [204, '']);
  const again = [];
  for await (const event of events(one, `${path}/events`, { 'last-event-id': '1' })) again.push(event.id);
  assert.deepEqual(again, [last]);
});

test('waits: a short one ends by itself, and an approval expires', async () => {
  const { flowId: long } = await start({ id: 'INBOX', seconds: 3600, skip: true });
  const resting = await reaches(long, 'waiting');
  assert.deepEqual([resting.steps[0].status, resting.flow.currentStep], ['skipped', 'rest']);
  assert.match(resting.steps[1].wakeAt, TIME);
  const early = await post(`/api/flows/${long}/resume`);
  assert.deepEqual([early.status, early.json.flow.currentStep], [200, 'rest']);
  assert.equal((await post(`/api/flows/${long}/approve`)).status, 409);
  const { flowId } = await start({ id: 'INBOX', seconds: 1, skip: true });
  await until('it asks', async () => (await view(flowId)).flow.currentStep === 'ask');
  const { flowId: brief } = await start({ id: 'INBOX', expiresIn: 1 });
  const expired = await reaches(brief, 'failed');
  assert.equal(expired.steps[2].status, 'failed');
  assert.match(expired.steps[2].error.message, /expired|nobody/i);
});

test('a client that leaves a long poll or a stream leaves no state', async () => {
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  for (const path of [`/api/flows/${flowId}?wait=60`, `/api/flows/${flowId}/events`]) {
    const gone = new AbortController();
    const call = fetch(one.base + path, { signal: gone.signal, headers: { authorization: `Bearer ${account.key}` } });
    const body = call.then((reply) => reply.text());
    await pause(50);
    gone.abort();
    await assert.rejects(body);
  }
  assert.equal((await post(`/api/flows/${flowId}/cancel`)).status, 200);
});

test('a server that drains ends streams and long polls', async () => {
  const third = await stack.serve();
  const { flowId } = await start({ id: 'INBOX' });
  await reaches(flowId, 'waiting');
  const poll = get(`/api/flows/${flowId}?wait=60`, { server: third });
  const stream = events(third, `/api/flows/${flowId}/events`);
  assert.equal((await stream.next()).value.view.flow.status, 'waiting');
  stack.forget(third);
  const ended = third.stop();
  assert.equal((await stream.next()).done, true);
  assert.ok([200, 304].includes((await poll).status));
  const { code } = await ended;
  assert.equal(code, 0, third.log);
  assert.equal((await view(flowId)).flow.status, 'waiting');
});

test('templates of a folder are reloaded; a flow keeps the version that it was started with', async () => {
  const dir = join(stack.dir, 'catalog');
  await mkdir(join(dir, 'templates'), { recursive: true });
  const put = async (expr) => {
    const steps = [
      { key: 'ask', type: 'approval', title: 'Go on', summary: 'Nothing is written.' },
      { key: 'said', type: 'transform', expr },
    ];
    const template = { key: 'own', name: 'Own', description: 'Of a folder.', steps };
    await writeFile(join(dir, 'draft'), JSON.stringify(template));
    await rename(join(dir, 'draft'), join(dir, 'templates', 'own.json'));
  };
  await put("'first'");
  const server = await stack.serve({ env: { SLUICE_CATALOG: dir } });
  const begin = async () => {
    const reply = await post('/api/flows/start', { flowTemplate: 'own' }, { server });
    assert.equal(reply.status, 200, reply.text);
    await reaches(reply.json.flowId, 'waiting', { server });
    return reply.json.flowId;
  };
  const says = async (id) => {
    assert.equal((await post(`/api/flows/${id}/approve`, {}, { server })).status, 200);
    return (await reaches(id, 'completed', { server })).flow.context.said;
  };
  const logs = (text) => until(`the log says ${text}`, () => server.log.includes(text));
  const [first, kept] = [await begin(), await begin()];
  await put("'second'");
  await logs('"msg":"the catalog was reloaded"');
  const second = await begin();
  assert.deepEqual([await says(first), await says(second)], ['first', 'second']);
  await put('steps.nowhere');
  await logs('the catalog was not reloaded; the old one stays in use');
  await logs('there is no step \\"nowhere\\"');
  assert.equal(await says(await begin()), 'second');
  // The other server never loaded the first version, so it reads it from the database.
  assert.equal((await post(`/api/flows/${kept}/approve`, {}, { server: two })).status, 200);
  assert.equal((await reaches(kept, 'completed', { server: two })).flow.context.said, 'first');
});
