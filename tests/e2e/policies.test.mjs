// Policies as rows: revisions, the keys that have them, and who may change them. What they decide is
// in policy.test.mjs.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { formsOf, Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, second, account, other;

before(async () => {
  stack = await Stack.start();
  // both would use their caches for an hour, so a change is seen only through a notification
  server = await stack.serve({ args: ['--cache-time', '1h'] });
  second = await stack.serve({ args: ['--cache-time', '1h'] });
  account = await stack.account('policies', { apps: ['probe'] });
  other = await stack.account('another');
});
after(() => stack?.stopWell(assert));

const ALLOW = { default: 'allow' };
const DENY = { default: 'allow', rules: [{ tools: ['probe_echo'], decision: 'deny', reason: 'not here' }] };
async function call(method, path, body, { status = 200, key = account.key, at = server, headers } = {}) {
  const reply = await at.call(key, method, path, body, headers);
  assert.equal(reply.status, status, `${method} ${path}: ${reply.text}`);
  return reply.json;
}
const set = (name, policy, more, options) => call('PUT', `/api/policies/${name}`, { policy, ...more }, options);
const remove = (name, options) => call('DELETE', `/api/policies/${name}`, undefined, options);
const made = (body, options) => call('POST', '/api/keys', { name: 'made', scopes: ['read', 'execute', 'admin'], ...body }, { status: 201, ...options });
const echo = (key, at = server) => at.call(key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } });
const obeys = (key, at, error) =>
  until('the key obeys', async () => {
    const reply = await echo(key, at);
    return error ? reply.json.error_code === error && reply : reply.status === 200;
  });

test('a revision is a number that the account uses once', async () => {
  const first = (await set('mail', ALLOW)).rev;
  assert.deepEqual(await set('mail', ALLOW), { name: 'mail', rev: first }); // the same text
  const next = (await set('mail', DENY, { rev: first })).rev;
  assert.ok(next > first);
  const stale = await set('mail', ALLOW, { rev: first }, { status: 409 });
  assert.match(stale.error, new RegExp(`has the revision ${next}, not ${first}`));
  await set('mail', ALLOW, { rev: 0 }, { status: 409 });
  await set('none', ALLOW, { rev: 3 }, { status: 409 });
  await remove('mail');
  const again = (await set('mail', ALLOW, { rev: 0 })).rev;
  assert.ok(again > next);
  assert.deepEqual((await call('GET', '/api/policies/mail')).policy, ALLOW);
  // one of many at the same time wins
  const replies = await Promise.all(Array.from({ length: 8 }, (_, i) => (i % 2 ? second : server).call(account.key, 'PUT', '/api/policies/mail', { policy: { ...DENY, default: 'deny', rules: [{ ...DENY.rules[0], reason: `number ${i}` }] }, rev: again })));
  assert.deepEqual(replies.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)]);
  await remove('mail');
});

test('names, documents and other accounts', async () => {
  for (const name of ['a', 'a-1', 'tests', 'x'.repeat(63)]) {
    await set(name, ALLOW);
    assert.equal((await call('GET', `/api/policies/${name}`)).name, name);
  }
  for (const name of ['A', '1a', 'a_b', 'x'.repeat(64), '%C3%A4']) {
    await set(name, ALLOW, {}, { status: 400 });
    await call('GET', `/api/policies/${name}`, undefined, { status: 404 });
    await remove(name, { status: 404 });
  }
  const wrong = await set('a', { rules: [{ tools: ['Gmail_*'], decision: 'never' }] }, {}, { status: 400 });
  for (const pointer of ['/policy: member "default"', '/policy/rules/0/tools/0', '/policy/rules/0/decision']) assert.ok(wrong.error.includes(pointer), wrong.error);
  assert.match((await set('a', { default: 'hold', expires_in: 60 }, {}, { status: 400 })).error, /expires_in/);
  assert.deepEqual((await call('GET', '/api/policies')).items.map(({ name }) => name), ['a', 'a-1', 'tests', 'x'.repeat(63)]);
  // another account sees none of them, and has its own
  await call('GET', '/api/policies/a', undefined, { status: 404, key: other.key });
  await remove('a', { status: 404, key: other.key });
  await set('a', DENY, {}, { key: other.key });
  assert.deepEqual((await call('GET', '/api/policies/a')).policy, ALLOW);
  for (const name of ['a', 'a-1', 'tests', 'x'.repeat(63)]) await remove(name);
  await set('test', ALLOW, {}, { status: 405 }); // the path of POST /api/policies/test
  // too many
  await stack.cluster.sql(`insert into sluice.policy select '${account.id}', 'p' || n, n, '{"default": "allow"}', now() from generate_series(1, 100) n`);
  assert.match((await set('more', ALLOW, {}, { status: 409 })).error, /maximum of 100/);
  await set('p1', DENY);
  await stack.cluster.sql(`delete from sluice.policy where account_id = '${account.id}'`);
});

test('a change holds in all processes; keys that name a policy keep it', async () => {
  await set('strict', DENY);
  const free = (await made()).key;
  const strict = await made({ policy: 'strict', name: 'the strict one' });
  assert.equal(strict.policy, 'strict');
  assert.equal((await call('GET', '/api/keys/self', undefined, { key: strict.key })).policy, 'strict');
  for (const at of [server, second]) {
    await obeys(free, at);
    assert.match((await obeys(strict.key, at, 'policy_blocked')).text, /not here/);
  }
  await set('strict', ALLOW);
  for (const at of [server, second]) await obeys(strict.key, at);
  // the default is for keys that name none
  await set('default', DENY);
  for (const at of [server, second]) await obeys(free, at, 'policy_blocked');
  await obeys(strict.key, second);
  await remove('default');
  for (const at of [server, second]) await obeys(free, at);
  // a policy that keys name is kept; a rolled key keeps its policy
  assert.match((await remove('strict', { status: 409 })).error, /1 valid key names the policy: "the strict one"/);
  const rolled = await call('POST', `/api/keys/${strict.id}/roll`, { overlap: 0 }, { status: 201 });
  assert.equal(rolled.policy, 'strict');
  await remove('strict', { status: 409 });
  // without its policy the key may do nothing
  await stack.cluster.sql(`delete from sluice.policy where name = 'strict'`);
  await set('default', ALLOW); // any change drops what is cached of the account's keys
  await obeys(rolled.key, server, 'policy_blocked');
  await set('strict', ALLOW);
  await obeys(rolled.key, server);
  await call('DELETE', `/api/keys/${rolled.id}`);
  await remove('strict');
  await remove('default');
  await made({ policy: 'strict' }, { status: 409 });
});

test('a long poll ends when the policy of its key changes', async () => {
  await set('poll', ALLOW);
  const { key } = await made({ policy: 'poll' });
  const { flowId } = await call('POST', '/api/flows/start', { flowTemplate: 'mail_with_reminder', input: { to: 'x@example.com', subject: 's', text: 't' } });
  await until('it waits', async () => (await call('GET', `/api/flows/${flowId}`)).flow.status === 'waiting');
  // a poll that comes only after the change finds no flow: then once more
  for (const at of [server, second])
    await until('a poll waits for the change', async () => {
      await set('poll', ALLOW);
      const poll = at.call(key, 'GET', `/api/flows/${flowId}?wait=60&until=ended`);
      await Promise.all(Array.from({ length: 5 }, () => at.call(key, 'GET', `/api/flows/${flowId}`)));
      await set('poll', { default: 'deny' });
      const { status, json } = await poll;
      assert.ok(status === 404 || json.error === 'The policy of this API key has changed. Ask again.', JSON.stringify(json));
      return status === 503;
    });
  await call('GET', `/api/flows/${flowId}`, undefined, { status: 404, key });
  await call('POST', `/api/flows/${flowId}/cancel`);
});

test('pages link only to what their key may open', async () => {
  const pages = new Pages(server.base);
  await pages.signIn((await made({ scopes: ['read', 'approve'] })).key);
  assert.equal((await pages.ask('/flows/new')).status, 403);
  for (const path of ['/', '/flows']) assert.ok(!(await pages.go(path)).text.includes('href="/flows/new"'), path);
});

test('a key with a policy of its own neither changes policies nor makes keys', async () => {
  await set('own', ALLOW);
  const { key } = await made({ policy: 'own' });
  const refused = { status: 403, key };
  await set('own', DENY, {}, refused);
  await remove('own', refused);
  await call('GET', '/api/policies', undefined, refused);
  await call('POST', '/api/policies/test', { name: 'own', tool: 'probe_echo' }, refused);
  await made({}, refused);
  await made({ policy: 'own' }, refused);
  await made({ user: 'not-yet' }, refused);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.account_user where external_id = 'not-yet'`), '0');
  await call('POST', '/api/webhooks', { url: 'https://example.com/x' }, refused);
  await call('GET', '/api/webhooks', undefined, refused);
  const mine = (await call('GET', '/api/keys/self', undefined, { key })).id;
  const another = await made();
  assert.match((await call('DELETE', `/api/keys/${another.id}`, undefined, refused)).error, /revokes no other key/);
  // a session of the key is the key
  const pages = new Pages(server.base);
  await pages.signIn(key);
  const csrf = formsOf((await pages.go('/keys/new')).text).find((form) => form.fields.csrf).fields.csrf;
  const form = (path, fields = {}) => pages.ask(path, { method: 'POST', fields: { csrf, ...fields } });
  assert.equal((await form('/webhooks/new', { url: 'https://example.com/x', all: 'on' })).status, 403);
  assert.equal((await pages.ask('/webhooks')).status, 403);
  for (const path of ['/flows', '/keys']) assert.ok(!(await pages.go(path)).text.includes('href="/webhooks"'), path);
  assert.equal((await form(`/keys/${another.id}/revoke`)).status, 403);
  await call('GET', '/api/keys/self', undefined, { key: another.key });
  await made({ user: 'bob' });
  await call('PATCH', '/api/users/bob', { label: 'x' }, refused);
  await call('DELETE', '/api/users/bob', undefined, refused);
  assert.equal((await form('/users/bob/erase')).status, 403);
  assert.equal((await call('GET', '/api/users/bob')).erasing, false);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.webhook where account_id = '${account.id}'`), '0');
  // nor does a user's key; the header is refused
  const bound = (await made({ user: 'ada', policy: 'own' })).key;
  await set('own', DENY, {}, { status: 403, key: bound });
  await set('own', DENY, {}, { status: 400, headers: { 'sluice-user': 'ada' } });
  await call('DELETE', `/api/keys/${mine}`, undefined, { key });
  // the default may be changed by the keys that follow it
  await set('default', { default: 'deny' });
  await set('default', ALLOW);
  await remove('default');
});

test('the commands', async () => {
  const run = (...args) => stack.must(['policy', ...args]);
  const file = join(stack.dir, 'policy.json');
  await writeFile(file, JSON.stringify(DENY));
  const [, rev] = /^agents@(\d+)\n$/.exec(await run('set', account.id, 'agents', file));
  assert.deepEqual(JSON.parse(await run('show', account.id, 'agents')), DENY);
  assert.ok(JSON.parse(await run('list', account.id, '--json')).some((one) => one.name === 'agents' && one.rev === Number(rev)));
  const key = (await stack.must(['keys', 'create', account.id, '--policy', 'agents'])).trim();
  await obeys(key, server, 'policy_blocked');
  assert.ok(JSON.parse(await stack.must(['keys', 'list', account.id, '--json'])).some(({ policy }) => policy === 'agents'));
  // servers hear of the change
  await writeFile(file, JSON.stringify(ALLOW));
  await run('set', account.id, 'agents', file, '--rev', rev);
  for (const at of [server, second]) await obeys(key, at);
  const fails = async (args, words) => {
    const result = await stack.sluice(args);
    assert.notEqual(result.code, 0);
    assert.match(result.stderr, words);
  };
  await fails(['policy', 'set', account.id, 'agents', file, '--rev', rev], /already|has the revision/);
  await fails(['policy', 'delete', account.id, 'agents'], /1 valid key names the policy/);
  await fails(['policy', 'show', account.id, 'none'], /no policy with this name/);
  await fails(['keys', 'create', account.id, '--policy', 'none'], /no policy "none"/);
  await writeFile(file, JSON.stringify({ default: 'allow', '\u001b[31mred': 1 }));
  await fails(['policy', 'set', account.id, 'agents', file], /"\?\[31mred"|\[31mred/);
  assert.ok(!(await stack.sluice(['policy', 'set', account.id, 'agents', file])).stderr.includes('\u001b'));
  await writeFile(file, '{"default": "never"}');
  await fails(['policy', 'set', account.id, 'agents', file], /\/default/);
});
