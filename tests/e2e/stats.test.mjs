// GET /api/stats: calls that were counted in memory are reported once they are written, by either
// server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, account, other;

before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('stats', { apps: ['gmail', 'notion'] });
  other = await stack.account('other');
});
after(() => stack?.stopWell(assert));

const stats = async (server, key, query = '') => {
  const reply = await server.call(key, 'GET', `/api/stats${query}`);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const add = (sums, name) => sums.reduce((total, sum) => total + sum[name], 0);

// A server writes its counts when it stops, so no test has to wait for ten seconds.
test('executions, calls of flows and blocked runs are counted, also across a restart', async () => {
  const first = await stack.serve();
  for (let i = 0; i < 4; i++) assert.equal((await first.execute(account.key, 'gmail', 'list_labels', {})).status, 200);
  await first.execute(account.key, 'gmail', 'get_message', { id: 'ffffffffffffffff' });
  await first.execute(account.key, 'gmail', 'send_message', { to: ['a@example.com'], subject: 's', body: 'b' });
  await first.execute(account.key, 'nosuch', 'thing', {});
  const { flowId } = (
    await first.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_summary', input: { maxResults: 1 } })
  ).json;
  await until('the flow has ended', async () =>
    ['completed', 'failed'].includes((await first.call(account.key, 'GET', `/api/flows/${flowId}`)).json.flow.status));
  const { executions } = (await first.call(account.key, 'GET', '/api/executions')).json;
  assert.equal(executions.length, 5);
  await first.stop('SIGTERM');

  const second = await stack.serve();
  for (const hours of [1, 24, 168, 720]) {
    const asked = Date.now();
    const seen = await stats(second, account.key, `?hours=${hours}`);
    assert.equal(seen.hours, hours);
    const stepsAt = (time) => (time - Date.parse(seen.since)) / 1000 / seen.step_s;
    const all = (hours * 3600) / seen.step_s;
    assert.ok(stepsAt(Date.now()) > all - 1 && stepsAt(asked) <= all, `${stepsAt(asked)} steps of ${all}`);
    const calls = add(seen.by_action.filter((sum) => sum.integration_id === 'gmail'), 'succeeded');
    assert.ok(calls > 4, 'calls of the flow are counted, too');
    for (const name of ['by_time', 'by_app', 'by_action']) {
      assert.equal(add(seen[name], 'succeeded'), calls);
      assert.equal(add(seen[name], 'failed'), 1);
      assert.equal(add(seen[name], 'blocked'), 2);
    }
    const gmail = seen.by_app.find((sum) => sum.integration_id === 'gmail');
    assert.ok(gmail.p50_ms >= 0 && gmail.p95_ms >= gmail.p50_ms);
    const errors = seen.by_error.map((sum) => [sum.integration_id, sum.action_id, sum.error_code, sum.failed, sum.blocked]);
    assert.deepEqual(errors.sort(), [
      ['', '', 'integration_not_found', 0, 1],
      ['gmail', 'get_message', 'execution_failed', 1, 0],
      ['gmail', 'send_message', 'policy_blocked', 0, 1],
    ]);
  }
  assert.equal((await stats(second, account.key)).hours, 24);
  const whole = await stats(second, account.key);
  const ofGmail = await stats(second, account.key, '?integration_id=gmail');
  for (const name of ['by_app', 'by_error', 'by_action'])
    assert.deepEqual(ofGmail[name], whole[name].filter((sum) => sum.integration_id === 'gmail'), name);
  for (const name of ['succeeded', 'failed', 'blocked']) assert.equal(add(ofGmail.by_time, name), ofGmail.by_app[0][name]);
  assert.equal(add(ofGmail.by_time, 'blocked'), 1);
  assert.deepEqual((await stats(second, account.key, '?integration_id=nosuchapp')).by_time, []);
  assert.deepEqual((await stats(second, other.key, '?integration_id=gmail')).by_time, []);
  for (const wrong of ['%FF', 'a%20b', 'a'.repeat(201)]) {
    const reply = await second.call(account.key, 'GET', `/api/stats?integration_id=${wrong}`);
    assert.deepEqual([reply.status, reply.json.error], [400, 'integration_id must be a word of at most 200 characters']);
  }
  assert.deepEqual((await stats(second, other.key)).by_app, []);
  for (const hours of ['2', '0', 'x']) {
    const reply = await second.call(account.key, 'GET', `/api/stats?hours=${hours}`);
    assert.equal(reply.status, 400, reply.text);
  }
  // counts for the same rows again are added to them
  await second.execute(account.key, 'gmail', 'list_labels', {});
  await second.stop('SIGTERM');
  const third = await stack.serve();
  assert.equal(add((await stats(third, account.key)).by_app, 'succeeded'), add((await stats(third, account.key)).by_time, 'succeeded'));
});
