// API keys over HTTP: what is listed, that a key gives no more than it has, lines of rolled keys, and
// keys that act for one end user. That such a key sees nothing of others is in tenants.test.mjs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Lossy } from './support/lossy.mjs';
import { Mcp } from './support/mcp.mjs';
import { Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, second, account;
before(async () => {
  stack = await Stack.start();
  // both would use their caches for an hour, so a change is seen only through a notification
  server = await stack.serve({ args: ['--cache-time', '1h', '--trusted-proxy', '127.0.0.1'] });
  second = await stack.serve({ args: ['--cache-time', '1h'] });
  account = await stack.account('with keys', { apps: [] });
});
after(() => stack?.stopWell(assert));

const call = (key, method, path, body, headers, at = server) => at.call(key, method, path, body, headers);
const make = (body, key = account.key, headers) => call(key, 'POST', '/api/keys', { name: 'made', scopes: ['read'], ...body }, headers);
async function made(body, key, headers) {
  const reply = await make(body, key, headers);
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}
const roll = (id, body, key = account.key) => call(key, 'POST', `/api/keys/${id}/roll`, body);
const self = async (key, headers, at) => (await call(key, 'GET', '/api/keys/self', undefined, headers, at)).json;
const status = async (key, at = server) => (await call(key, 'GET', '/api/keys/self', undefined, undefined, at)).status;
const refused = (reply, pattern) => {
  assert.equal(reply.status, 403, reply.text);
  assert.match(reply.json.error, pattern);
};
const FAR = '2099-01-31T00:00:00.000Z';

test('a key is created, listed without its text, and revoked', async () => {
  const one = await made({ name: 'backend', scopes: ['execute:read', 'read'], addresses: ['127.0.0.0/8', '::1'], expires_at: FAR });
  assert.match(one.key, /^sk_[A-Za-z0-9_-]{43}$/);
  const { key, ...item } = one;
  const creator = await self(account.key);
  assert.deepEqual(item, {
    id: one.id, name: 'backend', prefix: key.slice(0, 10), scopes: ['read', 'execute:read'], user: null, addresses: ['127.0.0.0/8', '::1'],
    forms: null, unattended_writes: null, policy: null, made_by: creator.id, line: one.id, created_at: one.created_at, expires_at: FAR, revoked_at: null, last_used_at: null,
  });
  const list = await call(account.key, 'GET', '/api/keys');
  assert.deepEqual(list.json.items[0], item);
  assert.ok(!list.text.includes(key) && list.json.items.at(-1).id === creator.id && creator.made_by === null);
  assert.deepEqual({ ...(await self(key)), last_used_at: null }, item);
  assert.deepEqual({ ...(await call(account.key, 'GET', `/api/keys/${one.id}`)).json, last_used_at: null }, item);
  assert.equal((await call(key, 'GET', '/api/keys')).status, 403);
  assert.equal(await status(key, second), 200);
  assert.deepEqual((await call(account.key, 'DELETE', `/api/keys/${one.id}`)).json, { success: true });
  assert.equal(await status(key), 401);
  await until('the other server refuses it', async () => (await status(key, second)) === 401);
  assert.equal((await call(account.key, 'DELETE', `/api/keys/${one.id}`)).status, 200);
  assert.match((await call(account.key, 'GET', '/api/keys')).json.items[0].revoked_at, /^20/);
  assert.match((await call(account.key, 'GET', `/api/keys/${one.id}`)).json.revoked_at, /^20/);
});

test('pages of the list', async () => {
  const all = (await call(account.key, 'GET', '/api/keys')).json.items.map(({ id }) => id);
  for (let at = 0; at < 3; at++) all.unshift((await made()).id);
  const got = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = (await call(account.key, 'GET', `/api/keys?limit=2${cursor && `&cursor=${cursor}`}`)).json;
    assert.ok(page.items.length > 0 && page.items.length <= 2);
    got.push(...page.items.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  assert.deepEqual(got, all);
});

test('what cannot be a key is refused', async () => {
  const bad = [
    { name: '' }, { name: 'a'.repeat(201) }, { name: 'two\nlines' }, { name: 1 }, { scopes: [] }, { scopes: ['none'] }, { scopes: 'read' }, { scopes: [1] }, { scopes: null },
    { expires_at: '2001-01-01T00:00:00Z' }, { expires_at: 'soon' }, { expires_at: 1 }, { addresses: [] }, { addresses: [''] }, { addresses: ['10.1.2.3/8'] },
    { addresses: ['x'] }, { addresses: '10.0.0.0/8' }, { addresses: Array(65).fill('::1') }, { addresses: ['1'.repeat(5000)] },
    { user: '' }, { user: 'a b' }, { user: 'a'.repeat(256) }, { user: 1 }, { Scopes: ['read'] }, { expiresAt: FAR },
  ];
  for (const body of bad) assert.equal((await make(body)).status, 400, JSON.stringify(body));
  for (const overlap of [-1, 604801, 1.5, '1']) assert.equal((await roll((await self(account.key)).id, { overlap })).status, 400, String(overlap));
  const other = await stack.account('other keys', { apps: [] });
  const { id } = await self(other.key);
  for (const unknown of [id, account.id, 'x'])
    for (const reply of [await roll(unknown), await call(account.key, 'GET', `/api/keys/${unknown}`), await call(account.key, 'DELETE', `/api/keys/${unknown}`)])
      assert.deepEqual([reply.status, reply.json], [404, { error: 'Key not found' }], unknown);
  assert.equal(await status(other.key), 200);
  const user = { 'sluice-user': 'ada' };
  for (const [method, path] of [['GET', '/api/keys'], ['POST', '/api/keys'], ['GET', '/api/keys/self'], ['GET', `/api/keys/${id}`], ['POST', `/api/keys/${id}/roll`], ['DELETE', `/api/keys/${id}`]])
    assert.equal((await call(account.key, method, path, method === 'POST' ? {} : undefined, user)).status, 400, path);
});

test('a key gives only what it has', async () => {
  const soon = new Date(Date.now() + 3600e3).toISOString();
  const from = { 'x-forwarded-for': '10.1.2.3' };
  const limited = await made({ scopes: ['read', 'admin', 'execute:read'], expires_at: soon, addresses: ['10.1.0.0/16', '2001:db8::/32'] });
  refused(await make({ scopes: ['execute'] }, limited.key, from), /which lacks: execute:write/);
  refused(await make({ scopes: ['read', 'approve'] }, limited.key, from), /which lacks: approve/);
  refused(await make({ expires_at: FAR }, limited.key, from), /expires no later/);
  for (const addresses of [['10.0.0.0/15'], ['10.2.0.1'], ['10.1.0.1', '10.2.0.1'], ['2001:db9::1'], ['::/0']])
    refused(await make({ addresses }, limited.key, from), /works only from addresses/);
  const same = await made({}, limited.key, from); // left out: its maker's
  assert.deepEqual([same.expires_at, same.addresses, same.made_by], [soon, limited.addresses, limited.id]);
  const less = await made({ addresses: ['10.1.7.0/24', '10.1.8.1', '2001:db8:1::/48'], expires_at: new Date(Date.now() + 60e3).toISOString() }, limited.key, from);
  assert.deepEqual(less.addresses, ['10.1.7.0/24', '10.1.8.1', '2001:db8:1::/48']);
  // neither does it get more by rolling: the other has a later end, other addresses, more scopes
  for (const body of [{}, { addresses: ['10.1.0.0/16'] }, { expires_at: soon }, { scopes: ['approve'], expires_at: soon, addresses: ['10.1.0.1'] }]) {
    const { id, key } = await made(body);
    refused(await call(limited.key, 'POST', `/api/keys/${id}/roll`, {}, from), /Refused: /);
    assert.equal((await call(account.key, 'GET', '/api/keys')).json.items[0].id, id);
    if (!body.addresses) assert.equal(await status(key), 200);
  }
  const careful = await stack.key(account.id, ['--unattended-writes', 'refuse']);
  assert.equal((await made({}, careful)).unattended_writes, 'refuse');
});

test('a rolled key has the same rights and line; the old one ends after the overlap', async () => {
  const maker = await self(account.key);
  const first = await made({ name: 'to roll', scopes: ['read', 'admin'], expires_at: FAR, addresses: ['127.0.0.1'] });
  const next = await roll(first.id, { overlap: 0 });
  assert.equal(next.status, 201, next.text);
  const { key, ...item } = next.json;
  assert.deepEqual(item, { ...item, name: 'to roll', scopes: ['read', 'admin'], expires_at: FAR, addresses: ['127.0.0.1'], line: first.id, made_by: maker.id });
  assert.notEqual(item.id, first.id);
  assert.deepEqual([await status(first.key), await status(key)], [401, 200]);
  assert.equal((await roll(first.id)).status, 409);
  // one that rolls itself is not made by itself, and may keep the old one for a while
  const third = (await roll(item.id, { overlap: null }, key)).json;
  assert.deepEqual([third.line, third.made_by], [first.id, maker.id]);
  const { expires_at } = await self(key);
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 86400e3) < 60e3, expires_at);
  assert.equal(await status(third.key), 200);
  // another one's roll is a making
  const helper = await made({ scopes: ['read', 'admin'] });
  const fourth = (await roll(third.id, { overlap: 604800 }, helper.key)).json;
  assert.deepEqual([fourth.line, fourth.made_by], [first.id, helper.id]);
  assert.equal((await call(account.key, 'DELETE', `/api/keys/${fourth.id}`)).status, 200);
  assert.match((await roll(fourth.id)).json.error, /is revoked and cannot be rolled/);
  // the command is the same change
  const text = (await stack.must(['keys', 'roll', account.id, third.id])).trim();
  const { made_by, line } = await self(text);
  assert.deepEqual([made_by, line], [maker.id, first.id]);
});

test('a roll is not repeated, and a key that has ended makes none', async () => {
  const one = await made({ scopes: ['read', 'admin'] });
  const next = (await roll(one.id)).json; // its answer may be lost
  const again = await roll(one.id);
  assert.deepEqual([again.status, /a newer key of its line is valid/.test(again.json.error)], [409, true], again.text);
  assert.equal((await call(account.key, 'DELETE', `/api/keys/${next.id}`)).status, 200);
  assert.equal((await roll(one.id)).status, 201);
  // no notification: the server's cache has the key as it was
  const maker = await made({ scopes: ['read', 'admin'] });
  assert.equal(await status(maker.key), 200);
  await stack.cluster.sql(`update sluice.api_key set revoked_at = now() where id = '${maker.id}'`);
  const late = await make({ user: 'made-by-none' }, maker.key);
  assert.deepEqual([late.status, late.json], [401, { error: 'Missing or invalid API key' }]);
  assert.equal((await roll(one.id, {}, maker.key)).status, 401);
});

test('what a key refuses over MCP, the keys that it makes refuse, too', async () => {
  const ci = (await stack.key(account.id, ['--forms', 'never', '--unattended-writes', 'refuse'])).trim();
  const child = await made({}, ci);
  assert.deepEqual([child.forms, child.unattended_writes], ['never', 'refuse']);
  refused(await make({ unattended_writes: 'allow' }, ci), /refuses writes that no person/);
  const chosen = await made({ forms: 'never', unattended_writes: 'allow' });
  assert.deepEqual([chosen.forms, chosen.unattended_writes], ['never', 'allow']);
  for (const body of [{ forms: 'always' }, { forms: 1 }, { unattended_writes: 'never' }]) assert.equal((await make(body)).status, 400, JSON.stringify(body));
});

test('an account has a maximum of valid keys, and the newest can always be revoked', async () => {
  const many = await stack.account('with many keys', { apps: [] });
  await stack.cluster.sql(`insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at)
    select '${many.id}', gen_random_uuid(), sha256(n::text::bytea || 'many'), 'sk_many', 'many', 'read', now() from generate_series(1, 19998) n`);
  const last = await made({}, many.key);
  const over = await make({}, many.key);
  assert.deepEqual([over.status, over.json.error], [409, 'No key was made: the account has the maximum of 20000 valid keys: revoke one first']);
  assert.equal((await roll(last.id, { overlap: 0 }, many.key)).status, 201);
  const pages = new Pages(server.base);
  await pages.signIn(many.key);
  assert.match((await pages.go(`/keys/${last.id}/revoke`)).text, /Revoke/);
  await stack.must(['keys', 'revoke', many.id, last.id]);
});

test('a key of an account that does not exist is refused', async () => {
  const text = `sk_${'a'.repeat(43)}`;
  for (const owner of ['01a228bc-b92e-7458-a6a5-3fc99781ae5e', '00000000-0000-0000-0000-000000000000']) {
    await stack.cluster.sql(`insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at) values ('${owner}', gen_random_uuid(), sha256('${text}'), 'sk_a', 'unowned', 'read', now())`);
    const fresh = await stack.serve();
    assert.equal(await status(text, fresh), 401);
    await fresh.stop();
    await stack.cluster.sql(`delete from sluice.api_key where account_id = '${owner}'`);
  }
});

// ---- keys of users ----

const run = (key, headers) => call(key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 } }, headers);

test('a user’s key acts for that user, without a header', async () => {
  const all = ['read', 'execute', 'approve', 'admin'];
  const ada = await made({ scopes: all, user: 'ada' });
  assert.deepEqual([ada.user, ada.expires_at, ada.line], ['ada', null, ada.id]);
  const header = { 'sluice-user': 'ada' };
  assert.equal((await run(ada.key)).status, 409); // nothing is connected
  const link = await call(ada.key, 'POST', '/api/connect/sessions', { integration_id: 'probe' });
  assert.equal(link.status, 201, link.text);
  const person = new Pages(server.base);
  const page = await person.press(await person.ask(new URL(link.json.url).pathname), 'Continue');
  assert.equal((await person.press(page, 'Connect Probe', { token: 'ya29.demo-gmail-full' })).status, 200);
  const ran = await run(ada.key);
  assert.equal(ran.status, 200, ran.text);
  assert.equal((await run(account.key)).json.error_code, 'integration_not_connected');
  // the same user as the header's
  const path = `/api/executions/${ran.json.execution_id}`;
  assert.deepEqual([(await call(account.key, 'GET', path, undefined, header)).status, (await call(account.key, 'GET', path)).status], [200, 404]);
  assert.equal((await call(ada.key, 'GET', path, undefined, header)).status, 200);
  for (const user of ['bob', 'Ada', 'never-seen']) refused(await call(ada.key, 'GET', path, undefined, { 'sluice-user': user }), /acts for another user/);
  assert.equal((await call(ada.key, 'GET', path, undefined, { 'sluice-user': 'a b' })).status, 400);
  const mcp = new Mcp(server.base, ada.key);
  assert.ok((await mcp.ask('resources/read', { uri: `sluice://executions/${ran.json.execution_id}` })).result);
  assert.equal((await mcp.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'sluice-user': 'bob' })).status, 403);
});

test('its requests are noted as those of the user, and it reads no names of keys', async () => {
  const seen = async () => Date.parse((await call(account.key, 'GET', '/api/users/dora')).json.last_seen_at);
  const dora = await made({ scopes: ['read', 'execute'], user: 'dora' });
  await stack.cluster.sql(`update sluice.account_user set created_at = now() - interval '2 hours' where external_id = 'dora'`);
  assert.ok((await seen()) < Date.now() - 3600e3);
  await run(dora.key);
  await until('it is noted', async () => (await seen()) > Date.now() - 60e3);
  const ada = await made({ scopes: ['read', 'execute'], user: 'ada', name: 'name-of-a-key' });
  const ran = await run(ada.key);
  assert.equal(ran.status, 200, ran.text);
  const listed = await call(ada.key, 'GET', '/api/executions');
  assert.ok(listed.text.includes(ran.json.execution_id) && !listed.text.includes('name-of-a-key'), listed.text);
  // a refused request makes no user
  const reader = await made({ scopes: ['read', 'admin'] });
  refused(await make({ scopes: ['execute'], user: 'not-made' }, reader.key), /lacks: execute/);
  assert.equal((await call(account.key, 'GET', '/api/users/not-made')).status, 404);
});

test('it reaches nothing of the account, makes no keys, and opens no dashboard', async () => {
  const { key, id } = await made({ scopes: ['read', 'execute', 'approve', 'admin'], user: 'bob' });
  for (const [method, path] of [['GET', '/api/keys'], ['POST', '/api/keys'], ['GET', `/api/keys/${id}`], ['POST', `/api/keys/${id}/roll`], ['DELETE', `/api/keys/${id}`], ['GET', '/api/users'], ['GET', '/api/users/bob'], ['PATCH', '/api/users/bob'], ['GET', '/api/stats']])
    for (const headers of [{}, { 'sluice-user': 'bob' }])
      refused(await call(key, method, path, method === 'GET' || method === 'DELETE' ? undefined : {}, headers), /for the account alone/);
  const { user } = await self(key, { 'sluice-user': 'bob' });
  assert.equal(user, 'bob');
  const pages = new Pages(server.base);
  const page = await pages.ask('/sign-in', { method: 'POST', fields: { key }, headers: { Origin: server.base } });
  assert.equal(page.status, 403);
  assert.match(page.text, /acts for one end user/);
  assert.equal((await pages.ask('/keys')).location, '/sign-in?next=%2Fkeys');
});

test('its expiry, its end, its line', async () => {
  const soon = new Date(Date.now() + 2000).toISOString();
  const brief = await made({ user: 'ada', expires_at: soon });
  assert.equal(brief.expires_at, soon);
  const one = await made({ user: 'ada' });
  assert.equal(await status(one.key, second), 200);
  const rolled = (await roll(one.id, { overlap: 0 })).json;
  assert.deepEqual([rolled.user, rolled.line], ['ada', one.id]);
  assert.deepEqual([await status(one.key), await status(rolled.key)], [401, 200]);
  await until('the other server refuses the old one', async () => (await status(one.key, second)) === 401);
  assert.equal((await call(account.key, 'DELETE', `/api/keys/${rolled.id}`)).status, 200);
  assert.equal(await status(rolled.key), 401);
  await until('it has expired', async () => (await status(brief.key)) === 401);
  const listed = JSON.parse(await stack.must(['keys', 'list', account.id, '--json']));
  assert.deepEqual(listed.filter(({ user }) => user === 'bob').map(({ expires_at }) => expires_at), [null]);
  // disabling the account refuses its users' keys, too
  const last = await made({ user: 'ada' });
  assert.equal(await status(last.key, second), 200);
  await stack.must(['accounts', 'disable', account.id]);
  for (const at of [server, second]) await until('it is refused', async () => (await status(last.key, at)) === 401);
  await stack.must(['accounts', 'enable', account.id]);
});

// The database has made the change, and the connection ends before its answer.
test('a change whose answer was lost has been made once, and holds at once', async (t) => {
  if (stack.isSharded) return t.skip('the servers ask each node at its own address');
  const lossy = await Lossy.start(stack);
  t.after(() => lossy.stop());
  const at = await stack.serve({ args: ['--cache-time', '1h'], env: { DATABASE_URL: lossy.url } });
  const lose = async (method, path, body) => {
    lossy.text = `lost-${lossy.lost}`;
    const reply = await call(account.key, method, path, body, { 'x-request-id': lossy.text }, at);
    return { ...reply, id: `lost-${lossy.lost - 1}` };
  };
  const events = (id) => stack.cluster.sql(`select string_agg(kind, ' ') from sluice.audit_event where request_id = '${id}'`);
  const keys = async () => (await call(account.key, 'GET', '/api/keys?limit=100')).json.items;
  const before = await keys();
  const create = await lose('POST', '/api/keys', { name: 'whose answer is lost', scopes: ['read'] });
  assert.equal(create.status, 500, create.text);
  assert.match(create.json.error, /may have been made\. List the keys before you try again, and revoke a new key/);
  const [one] = await keys();
  assert.deepEqual([(await keys()).length, one.name, one.revoked_at], [before.length + 1, 'whose answer is lost', null]);
  assert.equal(await events(create.id), 'key.created');
  // this server hears of no change: what it has cached for an hour, only its own changes drop
  const [unheard, old, last] = [await made(), await made(), await made()];
  for (const { key } of [unheard, old, last]) assert.equal(await status(key, at), 200);
  assert.equal((await call(account.key, 'DELETE', `/api/keys/${unheard.id}`)).status, 200);
  assert.equal(await status(unheard.key, at), 200);
  // the old key ends although the reply does not have the new one
  const rolled = await lose('POST', `/api/keys/${old.id}/roll`, { overlap: 0 });
  assert.equal(rolled.status, 500, rolled.text);
  assert.equal(await status(old.key, at), 401);
  assert.deepEqual((await keys()).filter(({ line }) => line === old.id).map(({ id }) => id === old.id), [false, true]);
  assert.equal(await events(rolled.id), 'key.rolled');
  // so does a revoked one
  assert.equal(await status(last.key, at), 200);
  const revoked = await lose('DELETE', `/api/keys/${last.id}`);
  assert.ok([200, 500].includes(revoked.status), revoked.text);
  assert.equal(await status(last.key, at), 401);
  assert.equal(await events(revoked.id), 'key.revoked');
  assert.equal(lossy.lost, 3);
  await at.stop();
});

// The program before decides by expires_at and revoked_at, which it knows, and knows no policies.
test('the program before refuses a user’s key, and its commands keep lines and policies', async () => {
  const { id } = await made({ user: 'ada' });
  const sees = (key) => stack.cluster.sql(`select revoked_at is null and (expires_at is null or expires_at > now()) from sluice.api_key where id = '${key}'`);
  assert.equal(await sees(id), 'f');
  const first = await made();
  assert.equal(await sees(first.id), 't');
  await stack.cluster.sql(`update sluice.api_key set policy = 'careful' where id = '${first.id}'`);
  const fresh = crypto.randomUUID();
  const create = (maker) => stack.cluster.sql(`select sluice.key_create(account_id => '${account.id}', id => '${fresh}', hash => sha256('x'), prefix => 'sk_x', name => 'x', scopes => 'read',
    created_at => now(), expires_at => null, addresses => null, forms => null, unattended_writes => null, user_id => null, external_id => null,
    made_by => '${first.made_by}', line => '${first.id}', maker_account => '${account.id}', maker_id => ${maker}, keys_max => 10000, replaces => '${first.id}', replaced_until => now(),
    event_id => sluice.uuid_floor(current_date), kind => 'key.rolled', actor => 'operator:x', request_id => null, address => null, means => null)`);
  assert.equal(await create(`'${first.id}'`), 'maker'); // a key with a policy makes none
  assert.equal(await create('null'), 'made');
  const row = await stack.cluster.sql(`select line || ' ' || made_by || ' ' || policy from sluice.api_key where id = '${fresh}'`);
  assert.equal(row, `${first.id} ${first.made_by} careful`);
});
