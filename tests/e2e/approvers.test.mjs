// Who may decide about a held call: not the key that asked for it, nor those that it was rolled from
// or to, nor keys that they made, directly or not, nor sessions of all these; over the API, as a task
// of MCP, and in the dashboard. The same for flows with a call that a policy holds.
import './support/compared.mjs';
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp } from './support/mcp.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const TASKS = { capabilities: { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } } };
const USER = { 'sluice-user': 'ada' };
const MAIL = { to: 'ada@outside.example', subject: 'yes', text: 'x' };
const SCOPES = ['read', 'execute', 'approve', 'admin'];
let stack, server, account, family, other, reader, bound;

const templateOf = (confirmed_by) => ({
  key: `mail_${confirmed_by.split(':')[0]}`,
  name: 'Send a mail',
  description: 'Sends one mail.',
  input: confirmed_by === 'start' ? { type: 'object', required: ['confirm'], properties: { confirm: { const: true } }, additionalProperties: false } : { type: 'object', properties: {}, additionalProperties: false },
  steps: [
    ...(confirmed_by === 'start' ? [] : [{ key: 'ask', type: 'approval', title: 'Send it', summary: 'One mail' }]),
    { key: 'send', type: 'tool_call', tool: 'gmail_send_message', input: MAIL, confirmed_by },
  ],
});

// A read, and further steps after it.
const mixedOf = (steps) => ({
  ...templateOf('approval:ask'),
  key: 'mixed',
  steps: [{ key: 'look', type: 'tool_call', tool: 'gmail_list_labels', input: {} }, ...steps],
});

const call = (key, method, path, body, headers) => server.call(key, method, path, body, headers);
const send = (key, subject, more, as) => call(key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { ...MAIL, subject }, ...more }, as);
// A fault of the next mail.
const failing = (action) => stack.provider.faults([{ match: { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' }, count: 1, action }]);
const mails = async () => (await stack.provider.ledger()).length;

async function keyOf(maker, more = {}) {
  const made = await call(maker, 'POST', '/api/keys', { name: 'made', scopes: SCOPES, ...more });
  assert.equal(made.status, 201, made.text);
  return made.json;
}
async function rolled(id, by) {
  const next = await call(by, 'POST', `/api/keys/${id}/roll`, { overlap: 3600 });
  assert.equal(next.status, 201, next.text);
  return next.json;
}

before(async () => {
  stack = await Stack.start({ catalog: false });
  stack.catalogDir = join(stack.dir, 'catalog');
  await mkdir(join(stack.catalogDir, 'templates'), { recursive: true });
  for (const confirmed of ['approval:ask', 'start']) {
    const template = templateOf(confirmed);
    await writeFile(join(stack.catalogDir, 'templates', `${template.key}.json`), JSON.stringify(template));
  }
  await writeFile(join(stack.catalogDir, 'templates', 'mixed.json'), JSON.stringify(mixedOf(templateOf('approval:ask').steps)));
  server = await stack.serve();
  account = await stack.account('With approvers', { apps: [] });
  const id = await stack.connect(account.id, 'gmail', { access_token: 'ya29.demo-gmail-full' });
  assert.equal((await call(account.key, 'PATCH', `/api/connections/${id}`, { shared: true })).status, 200);
  // only a key that follows the default policy makes keys
  const policy = { default: 'allow', rules: [{ tools: ['gmail_send_message', 'gmail_get_profile'], decision: 'hold', reason: 'mail is read first' }] };
  assert.ok((await call(account.key, 'PUT', '/api/policies/default', { policy })).status < 300);
  const first = await keyOf(account.key, { name: 'the agent' }), asker = await rolled(first.id, first.key), successor = await rolled(asker.id, account.key);
  const made = await keyOf(asker.key), ofSuccessor = await keyOf(successor.key), ofPredecessor = await keyOf(first.key);
  const ofMade = await keyOf(made.key), rolledByMaker = await rolled(ofMade.id, account.key);
  family = { asker, 'its predecessor': first, 'its successor': successor, 'a key that it made': made, 'one made by its successor': ofSuccessor, 'one made by its predecessor': ofPredecessor, 'one made by one it made': ofMade, 'that one, rolled by another': rolledByMaker };
  other = await keyOf(account.key, { name: 'a person' });
  reader = await keyOf(account.key, { scopes: ['read'] });
  bound = await keyOf(account.key, { scopes: ['read', 'approve'], user: USER['sluice-user'] });
});
after(() => stack?.stopWell(assert));

// Asks for a mail, which is held. Returns its approval.
async function hold(subject, as) {
  const reply = await send(family.asker.key, subject, {}, as);
  assert.deepEqual([reply.status, reply.json.error_code, reply.json.approval?.status], [409, 'policy_blocked', 'waiting'], reply.text);
  return reply.json.approval;
}
// The event of the run that made the hold, which is the id of its page.
const blockedRunOf = (id) =>
  until('the blocked run is stored', async () => {
    const { events } = (await call(other.key, 'GET', '/api/audit?kind=execution.blocked')).json;
    return events.find(({ details }) => details.flow_id === id)?.id;
  });
// A browser that has signed in; an address may sign in only so often.
async function session(key) {
  const pages = new Pages(server.base);
  await until('the sign-in is answered', async () => (await pages.signIn(key)).status !== 429);
  return pages;
}
const viewOf = async (id, as) => (await call(other.key, 'GET', `/api/flows/${id}`, undefined, as)).json;
const ended = (id, as) =>
  until('the flow has ended', async () => {
    const view = await viewOf(id, as);
    return ['completed', 'failed', 'cancelled'].includes(view.flow.status) && view;
  });

test('no key of the asker’s family decides, over the API or as a task', async () => {
  const sent = await mails();
  for (const as of [undefined, USER]) {
    const { flow_id: id } = await hold('over the API', as);
    const { flow, steps } = await viewOf(id, as);
    const { stepKey } = steps.find((one) => one.status === 'waiting');
    for (const [who, { key }] of Object.entries(family)) {
      for (const what of ['approve', 'reject'])
        for (const body of [{}, { stepKey, rev: flow.rev, note: 'yes' }]) {
          const reply = await call(key, 'POST', `/api/flows/${id}/${what}`, body, as);
          assert.equal(reply.status, 403, `${who}, ${what}: ${reply.text}`);
          assert.match(reply.json.error, /waits for the approval of another key/);
        }
      const mcp = new Mcp(server.base, key);
      const task = (await mcp.ask('tasks/get', { taskId: id }, { ...TASKS, headers: as })).result;
      assert.deepEqual([task.status, task.inputRequests], ['working', undefined], who);
      for (const approve of [true, false]) {
        const answer = { [`approval-${flow.rev}-${stepKey}`]: { action: 'accept', content: { approve } } };
        const reply = await mcp.ask('tasks/update', { taskId: id, inputResponses: answer }, { ...TASKS, headers: as });
        assert.ok(reply.error, `${who}: ${JSON.stringify(reply.result)}`);
      }
    }
    assert.equal((await viewOf(id, as)).flow.rev, flow.rev, 'nothing has changed');
    assert.equal(await mails(), sent + (as ? 1 : 0));
    // another key is shown the form, and its answer decides
    const theirs = new Mcp(server.base, other.key);
    const { result: task } = await theirs.ask('tasks/get', { taskId: id }, { ...TASKS, headers: as });
    assert.deepEqual([task.status, Object.keys(task.inputRequests ?? {})], ['input_required', [`approval-${flow.rev}-${stepKey}`]]);
    assert.match(JSON.stringify(task.inputRequests), /asked_by.*the agent.*mail is read first.*over the API/);
    for (const [key, status] of [[other.key, 'input_required'], [family.asker.key, 'working']]) {
      const stream = await new Mcp(server.base, key).stream('subscriptions/listen', { notifications: { taskIds: [id] } }, { ...TASKS, headers: as });
      const now = await stream.until((message) => message.method === 'notifications/tasks');
      assert.deepEqual([now.params.status, now.params.inputRequests], [status, key === other.key ? task.inputRequests : undefined]);
      stream.close();
    }
    for (const [key, client] of [[other.key, { capabilities: { extensions: TASKS.capabilities.extensions } }], [reader.key, TASKS]]) {
      const { result } = await new Mcp(server.base, key).ask('tasks/get', { taskId: id }, { ...client, headers: as });
      assert.deepEqual([result.status, result.inputRequests], ['working', undefined]);
    }
    // a key of the user is shown the form, too, without the name of the account's key
    if (as) {
      const { result } = await new Mcp(server.base, bound.key).ask('tasks/get', { taskId: id }, TASKS);
      assert.equal(result.status, 'input_required');
      assert.match(JSON.stringify(result.inputRequests), /mail is read first.*over the API/);
      assert.doesNotMatch(JSON.stringify(result), /asked_by|the agent|sk_/);
    }
    const yes = { [`approval-${flow.rev}-${stepKey}`]: { action: 'accept', content: { approve: true } } };
    const reply = await theirs.ask('tasks/update', { taskId: id, inputResponses: yes }, { ...TASKS, headers: as });
    assert.equal(reply.error, undefined, JSON.stringify(reply));
    assert.equal((await ended(id, as)).flow.status, 'completed');
  }
  assert.equal(await mails(), sent + 2);
});

test('their sessions do not decide in the dashboard, which shows them no buttons', async () => {
  const sent = await mails();
  const { flow_id: id } = await hold('in the dashboard');
  const pages = await session(other.key);
  const shown = await pages.go(`/flows/${id}`);
  const form = formsOf(shown.text).find((one) => one.action === `/flows/${id}/approve`);
  assert.ok(form, 'another key gets the form');
  // the URL of the answer leads to the page, that of a user's hold with the user
  for (const as of [undefined, USER]) {
    const { flow_id, url } = await hold('found by its URL', as);
    const { pathname, search } = new URL(url), there = await pages.go(pathname + search);
    assert.ok(there.status === 200 && formsOf(there.text).some((one) => one.action.startsWith(`/flows/${flow_id}/approve`)), url);
  }
  assert.match(shown.text, /mail is read first/);
  assert.doesNotMatch(shown.text, /approval of another key/);
  for (const [who, { key }] of Object.entries(family)) {
    const own = await session(key);
    const page = await own.go(`/flows/${id}`);
    assert.match(page.text, /This call waits for the approval of another key/, who);
    const forms = formsOf(page.text);
    assert.ok(!forms.some((one) => /\/(approve|reject)$/.test(one.action)), who);
    const { csrf } = forms.find((one) => one.fields.csrf).fields;
    for (const what of ['approve', 'reject']) {
      const reply = await own.ask(`/flows/${id}/${what}`, { method: 'POST', fields: { ...form.fields, csrf } });
      assert.equal(reply.status, 403, `${who}, ${what}`);
      assert.match(reply.text, /approval of another key/, who);
    }
  }
  assert.equal(await mails(), sent);
  // the inbox names the asker, the connection and the reason
  const inbox = (await pages.go('/approvals')).text;
  const row = inbox.slice(inbox.indexOf(`id="wait-${id}"`)).split('</li>')[0];
  for (const part of [/Held call/, /requested by <strong>the agent/, /, as <strong/, /mail is read first/]) assert.match(row, part);
  const done = await pages.press(shown, 'Approve 1 write');
  assert.equal(done.status, 200);
  assert.equal((await ended(id)).flow.status, 'completed');
  assert.equal(await mails(), sent + 1);
});

test('a read that is held is shown as a read', async () => {
  const asked = await call(family.asker.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_profile', input: {} });
  const { flow_id: id } = asked.json.approval ?? assert.fail(asked.text);
  const pages = await session(other.key);
  const inbox = (await pages.go('/approvals')).text;
  assert.match(inbox.slice(inbox.indexOf(`id="wait-${id}"`)).split('</li>')[0], />1 read</);
  const done = await pages.press(await pages.go(`/flows/${id}`), 'Approve 1 read');
  assert.equal(done.status, 200);
  assert.equal((await ended(id)).flow.status, 'completed');
  const again = await call(family.asker.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_profile', input: {} });
  assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true'], again.text);
});

test('another key decides, and the asker may cancel', async () => {
  const sent = await mails();
  for (const as of [undefined, USER]) {
    const { flow_id: id } = await hold('by another key', as);
    // several at once: one of them decides
    const replies = await Promise.all([account, other, account, other].map(({ key }) => call(key, 'POST', `/api/flows/${id}/approve`, {}, as)));
    assert.deepEqual(replies.map((one) => one.status).sort(), [200, 409, 409, 409], replies.map((one) => one.text).join('\n'));
    assert.equal((await ended(id, as)).flow.status, 'completed');
    assert.equal((await call(account.key, 'POST', `/api/flows/${id}/approve`, {}, as)).status, 409);
    const again = await send(family.asker.key, 'by another key', {}, as);
    assert.deepEqual([again.status, again.json.status], [200, 'succeeded'], again.text);
  }
  assert.equal(await mails(), sent + 2);
  const rejected = await hold('rejected');
  assert.equal((await call(other.key, 'POST', `/api/flows/${rejected.flow_id}/reject`, {})).status, 200);
  const cancelled = await hold('cancelled');
  assert.equal((await call(family.asker.key, 'POST', `/api/flows/${cancelled.flow_id}/cancel`)).status, 200);
  for (const { flow_id: id } of [rejected, cancelled]) assert.equal((await viewOf(id)).flow.status, 'cancelled');
  assert.equal(await mails(), sent + 2);
});

test('a held call of a flow is made if a key outside of the starter’s family approved it', async () => {
  const sent = await mails();
  for (const as of [undefined, USER]) {
    const runs = [...Object.entries(family), ['another key', other]].map(async ([who, { key }]) => {
      const started = await call(family.asker.key, 'POST', '/api/flows/start', { flowTemplate: 'mail_approval' }, as);
      assert.equal(started.status, 200, started.text);
      const id = started.json.flowId;
      await until('the flow waits', async () => (await viewOf(id, as)).flow.status === 'waiting');
      assert.equal((await call(key, 'POST', `/api/flows/${id}/approve`, {}, as)).status, 200, who);
      const { flow, steps } = await ended(id, as);
      return [who, flow.status, steps.at(-1).error?.code, steps.at(-1).error];
    });
    for (const [who, status, code, error] of await Promise.all(runs)) {
      assert.deepEqual([status, code], who === 'another key' ? ['completed', undefined] : ['failed', 'policy_blocked'], `${who}: ${JSON.stringify(error)}`);
      if (status === 'completed') continue;
      assert.match(error.message, /needs an approval of exactly this call in the flow/);
      assert.match(error.hint, /Start the flow again and let another key approve it/);
    }
  }
  assert.equal(await mails(), sent + 2);
  // the page says so before
  const waiting = await call(family.asker.key, 'POST', '/api/flows/start', { flowTemplate: 'mail_approval' });
  await until('the flow waits', async () => (await viewOf(waiting.json.flowId)).flow.status === 'waiting');
  for (const [who, { key }] of [...Object.entries(family).slice(0, 3), ['another key', other]]) {
    const page = await (await session(key)).go(`/flows/${waiting.json.flowId}`);
    assert.equal(/its approval is not enough then/.test(page.text), who !== 'another key', who);
    assert.ok(formsOf(page.text).some((one) => one.action.endsWith('/approve')), who);
  }
  // a template without an approval of the call cannot be started
  const refused = await call(family.asker.key, 'POST', '/api/flows/start', { flowTemplate: 'mail_start', input: { confirm: true } });
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.json.error, /holds a call that this flow makes without an approval: mail is read first/);
  const { templates } = (await call(family.asker.key, 'GET', '/api/flows/templates')).json;
  const listed = new Set(templates.map((one) => one.key));
  assert.deepEqual([listed.has('mail_approval'), listed.has('mail_start')], [true, false]);
});

test('the result of a held call is not given to a key that a deny covers', async () => {
  const { flow_id: id, idempotency_key } = await hold('secret');
  assert.equal((await call(other.key, 'POST', `/api/flows/${id}/approve`, {})).status, 200);
  await ended(id);
  const again = await send(family.asker.key, 'secret', { idempotency_key });
  assert.equal(again.status, 200, again.text);
  const policy = { default: 'allow', rules: [{ tools: ['gmail_send_*'], decision: 'deny', reason: 'no mail' }] };
  assert.ok((await call(account.key, 'PUT', '/api/policies/strict', { policy })).status < 300);
  const { key } = await keyOf(account.key, { policy: 'strict' });
  const denied = await send(key, 'secret', { idempotency_key, confirm: true });
  assert.deepEqual([denied.status, denied.json.error_code, denied.json.approval], [409, 'policy_blocked', undefined], denied.text);
  assert.match(denied.json.message, /no mail/);
  for (const path of [`/api/executions/${again.json.execution_id}`, `/api/flows/${id}`]) assert.equal((await call(key, 'GET', path)).status, 404, path);
  for (const what of ['approve', 'reject', 'cancel']) assert.equal((await call(key, 'POST', `/api/flows/${id}/${what}`, {})).status, 404, what);
  const lists = [await call(key, 'GET', '/api/executions?limit=100'), await call(key, 'GET', '/api/flows?limit=100')];
  for (const one of lists) assert.ok(!one.text.includes(again.json.execution_id) && !one.text.includes(id));
  const pages = await session(key);
  assert.equal((await pages.go(`/flows/${id}`)).status, 404);
  const blocked = await blockedRunOf(id), theirs = await session(other.key);
  assert.match((await theirs.go(`/executions/${blocked}`)).text, /secret/, 'its input is kept');
  for (const path of [`/executions/${blocked}`, `/executions/${blocked}/again`]) assert.equal((await pages.go(path)).status, 404, path);
  const { flow_id: waiting } = await hold('secret, and it waits');
  assert.ok(!(await pages.go('/approvals')).text.includes(waiting));
  // nor is it the next one after a decision that the key may make
  const next = async (browser, id) => (await browser.go(`/flows/${id}`)).text.match(/Next: <a href="\/flows\/([^"]+)"/)?.[1];
  const asked = await call(family.asker.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_profile', input: {}, idempotency_key: 'next' });
  const { flow_id: read } = asked.json.approval ?? assert.fail(asked.text);
  const seen = await next(pages, read);
  assert.equal(seen, undefined, 'no other flow that the policy gives');
  const more = await call(family.asker.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_profile', input: {}, idempotency_key: 'next but one' });
  assert.equal(await next(pages, read), more.json.approval.flow_id);
  assert.ok(await next(await session(other.key), read));
});

test('the page of a run that was held says what has become of it', async () => {
  const pages = await session(other.key);
  const waits = /waits for the approval of a person|Nothing was done yet|Ask a person to decide/;
  for (const [what, state] of [['approve', 'completed'], ['reject', 'rejected'], ['cancel', 'cancelled']]) {
    const { flow_id: id } = await hold(`what became of it: ${what}`);
    const eventId = await blockedRunOf(id);
    const shown = async (path = `/executions/${eventId}`) => {
      const { status, text } = await pages.go(path);
      assert.equal(status, 200, text);
      return text.split('<main')[1].replace(/<svg[^]*?<\/svg>/g, '');
    };
    const before = await shown();
    assert.match(before, waits, what);
    assert.ok(before.includes(`href="/flows/${id}"`), before);
    assert.equal((await call(other.key, 'POST', `/api/flows/${id}/${what}`, {})).status, 200);
    await ended(id);
    const after = await shown();
    assert.doesNotMatch(after, waits, what);
    assert.ok(after.includes(`href="/flows/${id}"`) && after.includes(state), after);
    const again = await pages.go(`/flows/${id}/again`);
    assert.equal(again.status, 409);
    assert.match(again.text, /A held call is not started again/);
    // the event may be kept longer than the flow
    for (const table of ['flow_step', 'flow_doc', 'flow']) await stack.cluster.sql(`delete from sluice.${table} where ${table === 'flow' ? 'id' : 'flow_id'} = '${id}'`);
    const gone = await shown();
    assert.doesNotMatch(gone, waits, what);
    assert.match(gone, /no longer stored/);
  }
});

test('the pages of a held call and of its execution lead to one another', async () => {
  const pages = await session(other.key);
  const page = async (id) => (await pages.go(`/flows/${id}`)).text;
  const isResumable = (text) => formsOf(text).some((one) => one.action.endsWith('/resume'));
  const made = async (subject, status) => {
    const { flow_id: id } = await hold(subject);
    assert.equal((await call(other.key, 'POST', `/api/flows/${id}/approve`, {})).status, 200);
    assert.equal((await ended(id)).flow.status, status);
    return id;
  };
  const id = await made('linked', 'completed');
  const { execution_id, approval_flow_id } = (await send(family.asker.key, 'linked')).json;
  assert.equal(approval_flow_id, id);
  assert.equal((await call(other.key, 'GET', `/api/executions/${execution_id}`)).json.approval_flow_id, id);
  assert.ok((await page(id)).includes(`href="/executions/${execution_id}"`));
  assert.ok((await pages.go(`/executions/${execution_id}`)).text.includes(`href="/flows/${id}"`));
  // refused by the app: nothing was done, and a resume makes the same call again
  await failing({ status: 400 });
  const refused = await made('refused', 'failed');
  const { error } = (await viewOf(refused)).steps[1];
  assert.match(error.hint, /Send a corrected request: resume sends the same input again\.$/);
  assert.equal(error.resumable, undefined);
  assert.ok(isResumable(await page(refused)));
  const answer = (await send(family.asker.key, 'refused')).json;
  assert.match(answer.message, /: Gmail: [^.]+\. Nothing was done\.$/);
  assert.match(answer.hint, /resume makes the approved call again\. To ask again, send the request with a new idempotency_key\.$/);
  // without the connection that was shown
  const gone = await hold('without its connection');
  const { connection_id } = (await viewOf(gone.flow_id)).flow.input;
  const { text } = await pages.go(`/flows/${gone.flow_id}`);
  assert.ok(text.includes(`href="/connections/${connection_id}"`));
  assert.ok((await call(account.key, 'DELETE', `/api/connections/${connection_id}`)).status < 300);
  await stack.connect(account.id, 'gmail', { access_token: 'ya29.demo-gmail-full' });
  assert.ok(!(await page(gone.flow_id)).includes(`href="/connections/${connection_id}"`));
  assert.equal((await call(other.key, 'POST', `/api/flows/${gone.flow_id}/approve`, {})).status, 200);
  const failed = (await ended(gone.flow_id)).steps[1].error;
  assert.deepEqual([failed.resumable, failed.outcome], [false, 'not_done'], JSON.stringify(failed));
  assert.ok(!isResumable(await page(gone.flow_id)));
  const again = (await send(family.asker.key, 'without its connection')).json;
  assert.match(again.message, /[^.]\. Nothing was (sent|done)\.$/);
  assert.equal(again.message.match(/Nothing was/g).length, 1, again.message);
  assert.equal(again.hint, 'To ask again, send the request with a new idempotency_key.');
  // done, or perhaps: no resume makes it again, and none is offered
  await failing({ status: 200, body: 'not JSON' });
  const unknown = await made('unknown', 'failed');
  assert.equal((await viewOf(unknown)).steps[1].error.resumable, false);
  const shown = await page(unknown);
  assert.ok(!isResumable(shown) && shown.includes('href="/executions/'), shown);
  assert.match(await stack.must(['flow', 'explain', unknown]), /a resume does not make its call again/);
  // none was made
  for (const what of ['cancel', 'reject']) {
    const over = await hold(`never made: ${what}`);
    assert.equal((await call(other.key, 'POST', `/api/flows/${over.flow_id}/${what}`, {})).status, 200);
    assert.match(await page(over.flow_id), /The call was not made, so it has no execution/, what);
  }
  // nor one that was refused before it was sent, and waited to be tried again
  await failing({ status: 429, retry_after: 600 });
  const { flow_id: later } = await hold('tried again later');
  assert.equal((await call(other.key, 'POST', `/api/flows/${later}/approve`, {})).status, 200);
  const wait = await until('it waits to be tried again', async () => (await viewOf(later)).steps.find((one) => one.error?.code === 'rate_limited'));
  assert.doesNotMatch(wait.error.hint ?? '', /resume/i);
  const repeated = await send(family.asker.key, 'tried again later');
  assert.match(repeated.json.message, /^Send a message was approved, could not be done yet, and is tried again at \d{4}-/);
  assert.ok(repeated.json.retry_after > 400 && Number(repeated.headers.get('retry-after')) > 400, repeated.text);
  await stack.cluster.sql(`delete from sluice.execution where id = (select execution_id from sluice.hold where flow_id = '${later}')`);
  assert.equal((await call(other.key, 'POST', `/api/flows/${later}/cancel`)).status, 200);
  assert.match(await page(later), /The call was not made, so it has no execution/);
  const { error: left } = (await viewOf(later)).steps[1];
  assert.equal(left.code, 'rate_limited');
  assert.doesNotMatch(left.hint ?? '', /resume/i);
  for (const path of ['/flows?template=held_call', '/approvals?template=held_call'])
    assert.match((await pages.go(path)).text, /<option value="held_call" selected>Held call/, path);
});

test('a flow that waits is shown by the version of its template that it runs', async () => {
  const policy = { default: 'allow', rules: [{ tools: ['gmail_send_*'], decision: 'deny' }] };
  assert.ok((await call(account.key, 'PUT', '/api/policies/mailless', { policy })).status < 300);
  const strict = await keyOf(account.key, { policy: 'mailless' });
  const start = async (flowTemplate) => {
    const { flowId } = (await call(other.key, 'POST', '/api/flows/start', { flowTemplate })).json;
    await until('it waits', async () => (await viewOf(flowId)).flow.status === 'waiting');
    return flowId;
  };
  const before = await start('mail_approval'), mixedBefore = await start('mixed');
  // the next version only reads
  const template = { ...templateOf('approval:ask'), description: 'Sends no mail.' };
  template.steps[1] = { key: 'send', type: 'tool_call', tool: 'gmail_list_labels', input: {}, confirmed_by: 'approval:ask' };
  await writeFile(join(stack.catalogDir, 'templates', 'mail_approval.json'), JSON.stringify(template));
  await writeFile(join(stack.catalogDir, 'templates', 'mixed.json'), JSON.stringify(mixedOf(template.steps)));
  server.process.kill('SIGHUP');
  await until('the template is replaced', async () => (await call(other.key, 'GET', '/api/flows/templates/mail_approval')).json.description === template.description);
  const pages = await session(strict.key);
  const waiting = async () => {
    const { text } = await pages.go('/approvals');
    return { ids: [...text.matchAll(/id="wait-([^"]+)"/g)].map(([, id]) => id), badge: Number(text.match(/<title>\((\d+)\)/)?.[1] ?? 0) };
  };
  const first = await waiting();
  assert.ok(!first.ids.includes(before));
  assert.equal(first.badge, first.ids.length);
  const now = await start('mail_approval');
  const next = await waiting();
  assert.ok(next.ids.includes(now) && !next.ids.includes(before), JSON.stringify(next));
  assert.equal(next.badge, first.badge + 1);
  assert.equal(next.badge, next.ids.length);
  const all = await session(other.key);
  assert.ok((await all.go('/approvals')).text.includes(`id="wait-${before}"`));
  // so are the calls of flows, also those that have ended
  const mixedNow = await start('mixed');
  assert.equal((await call(other.key, 'POST', `/api/flows/${mixedBefore}/cancel`)).status, 200);
  const listed = async (key) => {
    const { executions } = (await call(key, 'GET', '/api/executions?flow_calls=true&limit=100')).json;
    return [mixedBefore, mixedNow].map((id) => executions.some((one) => one.flow?.id === id));
  };
  const onPage = async (at) => {
    const { text } = await at.go('/executions');
    return [mixedBefore, mixedNow].map((id) => text.includes(`/flows/${id}`));
  };
  assert.deepEqual([await listed(other.key), await onPage(all)], [[true, true], [true, true]]);
  assert.deepEqual([await listed(strict.key), await onPage(pages)], [[false, true], [false, true]]);
});
