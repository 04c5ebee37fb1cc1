// A held request that is sent again: it gets the hold of its key, and then what has become of it. One
// mail at most is sent for it. The keys that may decide are in approvers.test.mjs, crashes are in
// holds_crash.test.mjs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const DAY_S = 86400;
const HELD = { default: 'allow', rules: [{ tools: ['gmail_send_message'], decision: 'hold', reason: 'mail is read first' }] };
const LOOSE = { default: 'allow' };
const SCOPES = ['read', 'execute', 'approve'];
let stack, server, second, account, asker, person;

before(async () => {
  stack = await Stack.start({ catalog: false });
  server = await stack.serve();
  second = await stack.serve();
  account = await stack.account('With holds', { apps: ['gmail'] });
  await setPolicy('agents', HELD);
  asker = await keyWith('agents');
  person = await keyWith(undefined);
});
after(() => stack?.stopWell(assert));

const call = (key, method, path, body, at = server) => at.call(key, method, path, body);
const mails = async () => (await stack.provider.ledger()).length;
const inputOf = (subject) => ({ to: 'ben@outside.example', subject, text: 'Hello.' });
const send = (key, subject, more, at) => call(key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: inputOf(subject), ...more }, at);

async function setPolicy(name, policy) {
  const reply = await call(account.key, 'PUT', `/api/policies/${name}`, { policy });
  assert.ok(reply.status < 300, reply.text);
}
async function keyWith(policy) {
  const made = await call(account.key, 'POST', '/api/keys', { name: `with ${policy}`, policy, scopes: SCOPES });
  assert.equal(made.status, 201, made.text);
  return made.json;
}
// Returns the approval of the hold that the request gets.
async function held(key, subject, more, at) {
  const reply = await send(key, subject, more, at);
  assert.deepEqual([reply.status, reply.json.error_code, reply.json.approval !== undefined], [409, 'policy_blocked', true], reply.text);
  return reply.json.approval;
}
const decide = async (what, id, body = {}, at = server) => {
  const reply = await call(person.key, 'POST', `/api/flows/${id}/${what}`, body, at);
  assert.equal(reply.status, 200, reply.text);
};
const ended = (id) =>
  until('the flow has ended', async () => {
    const { json } = await call(person.key, 'GET', `/api/flows/${id}`);
    return ['completed', 'failed', 'cancelled'].includes(json.flow.status) && json;
  });
// Both servers obey the policy of the key, as notifications take some milliseconds.
const obeyed = (key, word) =>
  until(`both servers ${word}`, async () => {
    const replies = await Promise.all([server, second].map((at) => send(key, 'probe', { dry_run: true }, at)));
    return replies.every(({ json }) => json.policy?.decision === word);
  });

test('approved, and sent again unchanged: its result, and one mail', async () => {
  const sent = await mails(), began = Date.now();
  const approval = await held(asker.key, 'once');
  const { flow_id: id, status, expires_at, idempotency_key } = approval;
  assert.equal(status, 'waiting');
  const left_s = (Date.parse(expires_at) - began) / 1000;
  assert.ok(left_s > DAY_S - 60 && left_s < DAY_S + 600, expires_at);
  assert.ok(idempotency_key.length > 20);
  assert.deepEqual(await held(asker.key, 'once'), approval);
  assert.deepEqual({ ...(await held(asker.key, 'once', {}, second)), url: approval.url }, approval);
  assert.equal((await held(asker.key, 'once', { idempotency_key })).flow_id, id);
  assert.equal(await mails(), sent);
  await decide('approve', id, {}, second);
  const { flow, steps } = await ended(id);
  assert.deepEqual([flow.status, flow.templateKey, steps.map((one) => one.status)], ['completed', 'held_call', ['completed', 'completed']]);
  const first = await send(asker.key, 'once');
  assert.equal(first.status, 200, first.text);
  for (const more of [{}, { confirm: true }, { idempotency_key }])
    assert.deepEqual((await send(asker.key, 'once', more, second)).json.output, first.json.output);
  assert.equal(await mails(), sent + 1);
});

test('the flow shows what is asked, and its template is in no list', async () => {
  const { flow_id: id } = await held(asker.key, 'shown');
  const { json } = await call(person.key, 'GET', `/api/flows/${id}`);
  const { input } = json.flow;
  assert.deepEqual([input.tool, input.input, input.reason, input.rule], ['gmail_send_message', inputOf('shown'), 'mail is read first', 0]);
  assert.match(input.policy, /^agents@\d+$/);
  assert.ok(input.connection_id);
  const asked = json.steps[0].input;
  assert.match(asked.summary, /^The policy agents@\d+ holds it \(rules\[0\]\): mail is read first\.$/);
  assert.deepEqual([asked.items.length, asked.items[0].tool, asked.items[0].input], [1, 'gmail_send_message', inputOf('shown')]);
  const { templates } = (await call(person.key, 'GET', '/api/flows/templates')).json;
  assert.ok(templates.every((one) => one.key !== 'held_call'));
  const start = await call(person.key, 'POST', '/api/flows/start', { flowTemplate: 'held_call', input });
  assert.equal(start.status, 404, start.text);
  assert.equal((await call(person.key, 'GET', '/api/flows/templates/held_call')).status, 404);
});

test('two askers have two holds, and a rolled key has that of the key before', async () => {
  const other = await keyWith('agents');
  const { flow_id: id } = await held(asker.key, 'twice');
  assert.notEqual((await held(other.key, 'twice')).flow_id, id);
  const next = await call(account.key, 'POST', `/api/keys/${asker.id}/roll`, { overlap: 3600 });
  assert.equal(next.status, 201, next.text);
  assert.equal((await held(next.json.key, 'twice')).flow_id, id);
  asker = next.json;
});

test('another request with the key of a hold', async () => {
  const { flow_id: id } = await held(asker.key, 'keyed', { idempotency_key: 'mine' });
  assert.equal((await held(asker.key, 'keyed', { idempotency_key: 'mine' }, second)).flow_id, id);
  assert.notEqual((await held(asker.key, 'keyed', { idempotency_key: 'another' })).flow_id, id);
  const reply = await send(asker.key, 'something else', { idempotency_key: 'mine' });
  assert.equal(reply.json.error_code, 'validation_error', reply.text);
  // a key that was made for a hold is not taken by another request of a key without a policy either
  const { idempotency_key } = await held(asker.key, 'not keyed');
  const taken = await call(person.key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: {}, idempotency_key });
  assert.equal(taken.json.error_code, 'validation_error', taken.text);
  const started = await call(person.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_summary', input: {}, idempotency_key });
  assert.deepEqual([started.status, started.json.error.includes('different request')], [400, true], started.text);
});

test('rejected, expired, cancelled: it says so, and a new key asks again', async () => {
  const over = {
    rejected: [/Rejected by key:[0-9a-f-]{36}: not this one\. Nothing was done\./, (id) => decide('reject', id, { note: 'not this one' })],
    expired: [/no decision on this call by \d{4}-/, async (id) => {
      await stack.cluster.sql(`update sluice.flow set wake_at = now() - interval '1 s' where account_id = '${account.id}' and id = '${id}'`);
      await decide('resume', id);
    }],
    cancelled: [/was cancelled by key:[0-9a-f-]{36} at \d{4}-.*before it was made\. Nothing was done\./, (id) => decide('cancel', id)],
  };
  const sent = await mails();
  for (const [how, [text, end]] of Object.entries(over)) {
    const { flow_id: id } = await held(asker.key, how);
    await end(id);
    await ended(id);
    for (const at of [server, second]) {
      const reply = await send(asker.key, how, {}, at);
      assert.deepEqual([reply.status, reply.json.error_code], [409, 'policy_blocked'], reply.text);
      assert.match(reply.text, text);
      assert.match(reply.text, /send the request with a new idempotency_key/);
      assert.equal(reply.json.approval.flow_id, id);
    }
    const again = await held(asker.key, how, { idempotency_key: `again ${how}` });
    assert.notEqual(again.flow_id, id);
  }
  assert.equal(await mails(), sent);
});

test('a policy that is loosened', async () => {
  const sent = await mails();
  await setPolicy('loosened', HELD);
  const key = (await keyWith('loosened')).key;
  const open = await held(key, 'open');
  const done = await held(key, 'done');
  await decide('approve', done.flow_id);
  assert.equal((await ended(done.flow_id)).flow.status, 'completed');
  await setPolicy('loosened', LOOSE);
  await obeyed(key, 'allow');
  assert.equal((await send(key, 'done', { idempotency_key: done.idempotency_key, confirm: true })).status, 200);
  assert.equal(await mails(), sent + 1);
  // the request is no longer held, so it is made, and the hold of it is closed
  assert.equal((await send(key, 'open', { confirm: true })).status, 200);
  await decide('approve', open.flow_id);
  const { flow, steps } = await ended(open.flow_id);
  assert.deepEqual([flow.status, steps[1].error.code], ['failed', 'policy_blocked'], JSON.stringify(steps[1]));
  assert.equal(await mails(), sent + 2);
});

test('requests at the same time, on two servers', async () => {
  for (const more of [{}, { idempotency_key: 'at once' }]) {
    const subject = `at once ${Object.keys(more)}`;
    const approvals = await Promise.all(Array.from({ length: 12 }, (_, i) => held(asker.key, subject, more, i % 2 ? second : server)));
    assert.equal(new Set(approvals.map((one) => one.flow_id)).size, 1);
  }
});

test('an account has at most 10,000 holds that wait', async () => {
  const { id } = await stack.account('With many holds', { apps: ['gmail'] });
  const admin = await stack.key(id);
  assert.ok((await call(admin, 'PUT', '/api/policies/default', { policy: HELD })).status < 300);
  const first = await held(admin, 'first');
  await stack.cluster.sql(`insert into sluice.flow (account_id, id, template_key, template_version, trigger_type, status, rev, op_token, step_index, attempt, is_begun, adoptions, waiting_for, wake_at, created_at, updated_at)
    select account_id, gen_random_uuid(), template_key, template_version, trigger_type, status, rev, op_token, step_index, attempt, is_begun, adoptions, waiting_for, wake_at, created_at, updated_at
    from sluice.flow, generate_series(1, 9999) where account_id = '${id}'`);
  const reply = await send(admin, 'one too many');
  assert.deepEqual([reply.status, reply.json.error_code, reply.json.approval], [409, 'policy_blocked', undefined], reply.text);
  assert.match(reply.text, /10,000 calls that wait for an approval/);
  assert.equal((await held(admin, 'first')).flow_id, first.flow_id);
  await stack.cluster.sql(`delete from sluice.flow where account_id = '${id}' and id <> '${first.flow_id}'`);
  await held(admin, 'one too many');
});

test('accounts do not have holds in common', async () => {
  const other = await stack.account('Another', { apps: ['gmail'] });
  assert.ok((await call(other.key, 'PUT', '/api/policies/default', { policy: HELD })).status < 300);
  const { flow_id: id } = await held(asker.key, 'shared', { idempotency_key: 'shared' });
  const theirs = await held(other.key, 'shared', { idempotency_key: 'shared' });
  assert.notEqual(theirs.flow_id, id);
  assert.equal((await call(other.key, 'GET', `/api/flows/${id}`)).status, 404);
  assert.equal((await call(other.key, 'POST', `/api/flows/${id}/approve`, {})).status, 404);
});

test('housekeeping removes a hold some time after its flow, or with it', async () => {
  const ids = {};
  for (const name of ['open', 'over', 'lost']) ids[name] = (await held(asker.key, `kept ${name}`, { idempotency_key: `kept ${name}` })).flow_id;
  await decide('reject', ids.over);
  await stack.cluster.sql(`delete from sluice.flow where account_id = '${account.id}' and id = '${ids.lost}'`);
  const kept = () => stack.cluster.sql(`select string_agg(key, ',' order by key) from sluice.hold where account_id = '${account.id}' and key like 'kept %'`);
  await stack.serve(); // its first round follows at once
  await until('the hold of no flow is removed', async () => (await kept()) === 'kept open,kept over');
  await stack.cluster.sql(`update sluice.hold set lifetime_ms = 1 where account_id = '${account.id}'`);
  assert.notEqual((await held(asker.key, 'kept over', { idempotency_key: 'kept over' })).flow_id, ids.over);
  await decide('cancel', ids.open);
  await stack.serve();
  await until('the hold that is over is removed', async () => (await kept()) === 'kept over');
});
