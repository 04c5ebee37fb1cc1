// Connections over HTTP with credentials that the caller has already: POST /api/connections. The app
// decides whether a credential is stored, one user of an app has one connection, and no credential is
// shown.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { Stack, credentials } from './support/stack.mjs';

const SECRET = 'secret-of-the-client-5Tq1';
const TOKEN = 'ya29.token-of-the-caller-7Gk2';
const OTHER = 'ya29.another-of-the-caller-9Pd4';
const WRONG = 'ya29.refused-of-the-caller-3Vb8';
const PROFILE = '/gmail/v1/users/me/profile';
let stack, server, account, other;
const replies = [];

before(async () => {
  stack = await Stack.start({ tokens: [`gmail=${TOKEN}`, `gmail=${OTHER}`] });
  const catalog = join(stack.dir, 'catalog');
  await mkdir(catalog);
  const probe = JSON.parse(await readFile(join(import.meta.dirname, 'support/catalog/probe.json'), 'utf8'));
  const apps = {
    probe: {},
    // it reports who the credential's user is
    known: { identity: { email: 'body.emailAddress', subject: 'body.emailAddress' } },
    hosted: { identity: { subject: 'body.emailAddress' }, connection_params: { type: 'object', required: ['site'], properties: { site: { type: 'string', description: 'The site.', maxLength: 20 } } } },
    either: { auth: [{ type: 'bearer', name: 'A token' }, { type: 'basic', name: 'A password' }] },
    seats: { identity: { subject: "join('/', [body.team, body.user])" } },
    desks: { identity: { email: 'body.emailAddress', subject: "join('/', [body.team, body.user])" } },
    team: { identity: { email: 'body.emailAddress', subject: 'body.team' } },
    oauth: { auth: { type: 'oauth2', authorize_url: 'https://127.0.0.1/authorize', token_url: 'https://127.0.0.1/token', scopes: [] } },
    untested: { auth: { type: 'api_key', send: { in: 'header', name: 'Authorization', value: 'Bearer ${credential.api_key}' } } },
  };
  for (const [id, more] of Object.entries(apps)) await writeFile(join(catalog, `${id}.json`), JSON.stringify({ ...probe, integration_id: id, name: id, ...more }));
  server = await stack.serve({ env: { SLUICE_CATALOG: catalog, SLUICE_LOG_LEVEL: 'debug' } });
  account = await stack.account('adds', { apps: [] });
  other = await stack.account('other', { apps: [] });
});
beforeEach(() => stack.provider.faults([]));
after(() => stack?.stopWell(assert));

async function call(method, path, body, { key = account.key, user } = {}) {
  const reply = await server.call(key, method, path, body, user ? { 'sluice-user': user } : {});
  replies.push(reply.text);
  return reply;
}
const add = (integration_id, credential, more = {}, options) => call('POST', '/api/connections', { integration_id, credential, ...more }, options);
async function added(...args) {
  const reply = await add(...args);
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}
const rows = async (of = account) => Number(await stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${of.id}'`));
const run = (integration_id, options) => call('POST', '/api/executions', { integration_id, action_id: 'echo', input: { value: 1 } }, options);
// the app says that the credential is this person's
const actsAs = (emailAddress) => stack.provider.faults([{ match: { path_prefix: PROFILE }, count: -1, action: { status: 200, body: JSON.stringify({ emailAddress }) } }]);

test('a credential becomes a connection, once the app has accepted it', async () => {
  const made = await added('probe', { token: TOKEN }, { label: 'By HTTP', scopes: ' a  b ' });
  const own = (await call('GET', `/api/connections/${made.id}`)).json;
  assert.deepEqual(made, own);
  assert.deepEqual([own.label, own.scopes, own.auth, own.default, own.status, own.identity], ['By HTTP', 'a b', 'bearer', true, 'live', null]);
  assert.equal((await run('probe')).status, 200);
  const [event] = (await call('GET', '/api/audit?kind=connection')).json.events;
  assert.deepEqual([event.kind, event.actor.slice(0, 4), event.details], ['connection.added', 'key:', { connection_id: made.id, integration_id: 'probe' }]);
  // an app that has no request for a test
  const untested = await added('untested', { api_key: TOKEN });
  assert.deepEqual([untested.label, untested.auth], ['untested', 'api_key']);
  // the account may have several connections of an app that does not name its users
  const second = await added('probe', { token: TOKEN });
  assert.deepEqual([second.default, second.id === made.id], [false, false]);
  assert.equal((await added('probe', { token: TOKEN }, { default: true })).default, true);
  assert.equal((await call('GET', `/api/connections/${made.id}`)).json.default, false);
});

test('a refused credential is not stored, nor one that cannot be tested', async () => {
  const before = await rows();
  const refused = await add('known', { token: WRONG });
  assert.deepEqual([refused.status, refused.json.error.split('.')[0]], [409, 'Nothing was stored'], refused.text);
  await stack.provider.faults([{ match: { path_prefix: PROFILE }, count: -1, action: { status: 500 } }]);
  const outage = await add('known', { token: TOKEN });
  assert.equal(outage.status, 503, outage.text);
  assert.ok(outage.headers.get('retry-after'));
  assert.equal(await rows(), before);
});

test('one user of an app has one connection', async () => {
  const first = await added('known', { token: TOKEN }, { label: 'Mine' });
  assert.equal(first.identity.subject, 'sam.rivera@example.com');
  const again = await added('known', { token: OTHER }, { label: 'not used' });
  assert.deepEqual([again.id, again.label], [first.id, 'Mine']);
  assert.ok(again.updated_at > first.updated_at);
  const [event] = (await call('GET', '/api/audit?kind=connection')).json.events;
  assert.deepEqual([event.kind, event.details.connection_id], ['connection.reconnected', first.id]);
  // a connection that has ended works again
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'x' where id = ${first.id}`);
  assert.equal((await added('known', { token: TOKEN })).status, 'live');
  await actsAs('eve@example.com');
  const eve = await added('known', { token: TOKEN });
  assert.notEqual(eve.id, first.id);
  // params name the site, where the same user is another one
  await stack.provider.faults([]);
  const sites = [];
  for (const site of ['one', 'two', 'one', 'two']) sites.push((await added('hosted', { token: TOKEN }, { params: { site } })).id);
  assert.deepEqual([sites[0] === sites[1], sites[2], sites[3]], [false, sites[0], sites[1]]);
});

test('members of one workspace, and scopes of another credential', async () => {
  // the subject is the workspace's
  const member = async (emailAddress, more) => {
    await stack.provider.faults([{ match: { path_prefix: PROFILE }, count: -1, action: { status: 200, body: JSON.stringify({ emailAddress, team: 't1' }) } }]);
    return added('team', { token: TOKEN }, more);
  };
  const ada = await member('ada@example.com', { scopes: 'read' });
  const bob = await member('bob@example.com');
  assert.notEqual(ada.id, bob.id);
  const again = await member('ADA@example.com');
  assert.deepEqual([again.id, again.scopes], [ada.id, null]); // not those of the former credential
});

test('a workspace that an earlier version stored for its user, with an address', async () => {
  const member = async (user, emailAddress) => {
    await stack.provider.faults([{ match: { path_prefix: PROFILE }, count: -1, action: { status: 200, body: JSON.stringify({ emailAddress, team: 'w1', user }) } }]);
    return added('desks', { token: TOKEN });
  };
  const [ada, bob] = [await member('u1', 'ada@example.com'), await member('u2', 'bob@example.com')];
  await stack.cluster.sql(`update sluice.connection set identity_subject = 'w1', rev = rev + 1 where id in (${ada.id}, ${bob.id})`);
  assert.equal((await member('u2', 'Bob@example.com')).id, bob.id);
  const eve = await member('u3', 'eve@example.com');
  assert.ok(![ada.id, bob.id].includes(eve.id));
  const again = await member('u1', 'ada@example.com');
  assert.deepEqual([again.id, again.identity.subject], [ada.id, 'w1/u1']);
});

test('users of one workspace, which the app names without an address', async () => {
  const seat = async (user, more, wanted = 201, team = 't1') => {
    await stack.provider.faults([{ match: { path_prefix: PROFILE }, count: -1, action: { status: 200, body: JSON.stringify({ team, user }) } }]);
    const reply = await add('seats', { token: TOKEN }, more);
    assert.equal(reply.status, wanted, reply.text);
    return reply.json;
  };
  const [ada, bob] = [await seat('u1'), await seat('u2')];
  assert.deepEqual([ada.identity.subject, bob.identity.subject, ada.id === bob.id], ['t1/u1', 't1/u2', false]);
  assert.equal((await seat('u1')).id, ada.id);
  assert.match((await seat('u2', { connection_id: ada.id }, 409)).error, /acts as t1\/u1/);
  // one of a version that knew only the workspace; a link for the workspace
  await stack.cluster.sql(`update sluice.connection set identity_subject = 't1', rev = rev + 1 where id = ${ada.id}`);
  assert.equal((await seat('u1', { connection_id: ada.id })).identity.subject, 't1/u1');
  const former = (row, subject = 't1') => stack.cluster.sql(`update sluice.connection set identity_subject = '${subject}', rev = rev + 1 where id = ${row.id}`);
  // a new credential without connection_id is that connection's if there is one such row; the exact one comes first
  await former(ada);
  assert.equal((await seat('u2')).id, bob.id);
  const rotated = await seat('u1');
  assert.deepEqual([rotated.id, rotated.identity.subject], [ada.id, 't1/u1']);
  // if there are two, neither is taken
  await Promise.all([former(ada, 't2'), former(bob, 't2')]);
  const third = await seat('u3', {}, 201, 't2');
  assert.ok(![ada.id, bob.id].includes(third.id));
  await Promise.all([former(ada, 't1/u1'), former(bob, 't1/u2')]);
  const link = (subject) => call('POST', '/api/connect/sessions', { integration_id: 'seats', subject, force_reconnect: true, connection_id: ada.id });
  assert.deepEqual([(await link('t1')).status, (await link('t1/u1')).status, (await link('t')).status, (await link('t1/u2')).status], [201, 201, 409, 409]);
  await former(ada); // a link for one user may reconnect it
  assert.deepEqual([(await link('t1/u1')).status, (await link('t2/u1')).status], [201, 409]);
});

test('the same at the same moment', async () => {
  const third = await stack.account('at once', { apps: [] });
  const second = await stack.serve({ env: { SLUICE_CATALOG: join(stack.dir, 'catalog') } });
  const done = await Promise.all(Array.from({ length: 8 }, (_, at) =>
    (at % 2 ? server : second).call(third.key, 'POST', '/api/connections', { integration_id: 'known', credential: { token: TOKEN } })));
  assert.deepEqual(done.map(({ status, text }) => (status === 201 ? status : text)), Array(8).fill(201));
  const { connections } = (await call('GET', '/api/connections', undefined, { key: third.key })).json;
  assert.deepEqual(connections.map(({ integration_id, status }) => [integration_id, status]), [['known', 'live']]);
  assert.ok(done.some(({ json }) => json.id === connections[0].id));
  await until('it acts', async () => (await run('known', { key: third.key })).status === 200);
  await second.stop();
});

test('a credential for a connection that is named', async () => {
  const named = (await added('probe', { token: TOKEN })).id;
  const before = await rows();
  assert.equal((await added('probe', { token: OTHER }, { connection_id: named })).id, named);
  assert.equal((await added('probe', { token: OTHER }, { connection_id: Number(named), default: true })).default, true);
  const known = (await added('known', { token: TOKEN })).id;
  await actsAs('mallory@example.com');
  const wrong = await add('known', { token: TOKEN }, { connection_id: known });
  assert.equal(wrong.status, 409);
  assert.match(wrong.json.error, /acts as sam\.rivera@example\.com.*Nothing was stored/);
  await stack.provider.faults([]);
  for (const [app, connection_id, options] of [['known', named], ['probe', '1'], ['probe', 'x'], ['probe', named, { key: other.key }], ['probe', named, { user: 'ada' }]]) {
    const reply = await add(app, { token: TOKEN }, { connection_id }, options);
    assert.deepEqual([reply.status, reply.json], [404, { error: 'Connection not found' }], String(connection_id));
  }
  assert.equal(await rows(), before + 0);
});

test('a user’s connection is the user’s', async () => {
  const own = (await added('known', { token: TOKEN })).id;
  const ada = await added('known', { token: TOKEN }, {}, { user: 'ada' });
  const bob = await added('known', { token: TOKEN }, { default: true }, { user: 'bob' });
  assert.equal(new Set([own, ada.id, bob.id]).size, 3);
  assert.equal((await added('known', { token: OTHER }, {}, { user: 'ada' })).id, ada.id);
  for (const user of [undefined, 'bob', 'nobody']) assert.equal((await call('GET', `/api/connections/${ada.id}`, undefined, { user })).status, 404, user);
  assert.equal((await run('known', { user: 'ada' })).status, 200);
  assert.equal((await run('known', { user: 'eve' })).json.error_code, 'integration_not_connected');
  const all = (await call('GET', '/api/connections?users=all&integration_id=known')).json.connections;
  assert.deepEqual(all.filter(({ id }) => [own, ada.id, bob.id].includes(id)).map(({ user }) => user).sort(), ['ada', 'bob', null].sort());
});

test('a connection that the account shares with its users', async () => {
  const { key, id: accountId } = await stack.account('shares', { apps: [] });
  const ask = (user, method, path, body) => call(method, path, body, { key, user });
  const act = async (user, more) => (await ask(user, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'echo', input: { value: 1 }, ...more })).json;
  const acted = async (user) => (await ask(user, 'GET', '/api/executions?limit=1')).json.executions[0].connection_id;
  const through = async (user, connectionId) => (await ask(user, 'POST', '/api/tools/probe_echo/execute', { arguments: { value: 1 }, connectionId })).json;
  const states = async (user) => {
    const [item] = (await ask(user, 'GET', '/api/integrations?query=probe')).json.items.filter((one) => one.integration_id === 'probe');
    const [hit] = (await ask(user, 'GET', '/api/search?query=probe')).json.items.filter((one) => one.integration_id === 'probe');
    assert.deepEqual([hit.connection_state, hit.shared], [item.connection_state, item.shared]);
    return [item.connection_state, item.shared];
  };
  const share = async (shared) => {
    const reply = await ask(undefined, 'PATCH', `/api/connections/${team}`, { shared });
    assert.deepEqual([reply.status, reply.json.shared], [200, shared || undefined], reply.text);
  };
  const team = (await added('probe', { token: TOKEN }, { label: 'Team' }, { key })).id;
  const alone = (await added('probe', { token: TOKEN }, { label: 'Alone' }, { key })).id;
  assert.equal((await act('ada')).error_code, 'integration_not_connected');
  await share(true);
  for (const user of ['ada', 'bob', undefined]) assert.equal((await act(user)).status, 'succeeded', user);
  assert.deepEqual([await acted('ada'), await states('ada'), await states(undefined)], [team, ['connected', true], ['connected', undefined]]);
  await until('its use counts for the account', async () => (await ask(undefined, 'GET', `/api/connections/${team}`)).json.last_used_at);

  // a user knows its label and state, and cannot change it
  const seen = (await ask('ada', 'GET', '/api/connections')).json.connections;
  assert.deepEqual(seen.map(({ id, label, status, shared }) => [id, label, status, shared]), [[team, 'Team', 'live', true]]);
  for (const member of ['identity', 'scopes', 'error', 'last_used_at', 'failure']) assert.equal(seen[0][member], null, member);
  assert.deepEqual((await ask('ada', 'GET', `/api/connections/${team}`)).json, seen[0]);
  assert.equal((await ask('ada', 'PATCH', `/api/connections/${team}`, { label: 'mine' })).status, 404);
  assert.equal((await ask('ada', 'PATCH', `/api/connections/${team}`, { shared: false })).status, 400);
  assert.equal((await ask('ada', 'DELETE', `/api/connections/${team}`)).status, 404);
  assert.equal((await add('probe', { token: TOKEN }, { connection_id: team }, { key, user: 'ada' })).status, 404);
  assert.equal((await ask('ada', 'GET', `/api/connections/${alone}`)).status, 404);
  assert.equal((await through('bob', team)).ok, true);
  assert.equal((await through('bob', alone)).error.type, 'connection');
  assert.equal((await ask(undefined, 'PATCH', `/api/connections/${team}`, { shared: 1 })).status, 400);

  // over MCP, too, where it is named by its label, and no other is taken instead
  await stack.cluster.sql(`update sluice.connection set identity_email = 'boss@corp.example', rev = rev + 1 where id = ${team}`);
  const mcp = new Mcp(server.base, key);
  const tool = (name, args) => mcp.call(name, args, { headers: { 'sluice-user': 'ada' } });
  const [{ text }] = (await tool('list_connections', {})).content;
  assert.ok(text.includes('"Team"') && !text.includes('boss@corp'), text);
  const named = async (connection_id) => contentOf(await tool('run_action', { integration_id: 'probe', action_id: 'echo', input: { value: 1 }, connection_id }));
  assert.equal((await named('Team')).status, 'succeeded');
  for (const label of ['Alone', 'Typo']) assert.match((await named(label)).error, /No connection of probe has this label/, label);
  await stack.cluster.sql(`update sluice.connection set identity_email = null, rev = rev + 1 where id = ${team}`);

  // the user's own connection comes first, even if it no longer works
  const own = (await added('probe', { token: TOKEN }, {}, { key, user: 'ada' })).id;
  assert.equal((await act('ada')).status, 'succeeded');
  assert.deepEqual([await acted('ada'), await states('ada')], [own, ['connected', undefined]]);
  const pages = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = (await ask('ada', 'GET', `/api/connections?limit=1${cursor && `&cursor=${cursor}`}`)).json;
    pages.push(page.connections.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  assert.deepEqual(pages, [[team], [own]]);
  assert.equal((await named('Team')).status, 'succeeded');
  assert.equal(await acted('ada'), team);
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'x', rev = rev + 1 where id = ${own}`);
  await until('it no longer works', async () => (await act('ada')).error_code === 'reauth_required');

  // other accounts, and their users of the same name, are not served
  for (const options of [{ key: other.key }, { key: other.key, user: 'bob' }]) {
    assert.equal((await run('probe', options)).json.error_code, 'integration_not_connected');
    assert.equal((await call('GET', `/api/connections/${team}`, undefined, options)).status, 404);
    assert.equal((await call('PATCH', `/api/connections/${team}`, { shared: true }, { key: other.key })).status, 404);
    assert.ok(!(await call('GET', '/api/connections', undefined, options)).text.includes(team));
  }

  // the app refuses it in a call of a user: the account is informed
  await stack.provider.faults([{ match: { path_prefix: '/echo' }, count: -1, action: { status: 401 } }]);
  for (const again of [1, 2]) {
    const refused = await act('bob');
    assert.deepEqual([refused.status, refused.error_code, refused.execution_id], ['blocked', 'integration_not_connected', null], String(again));
    assert.equal(refused.recommended_next_action.input.connection_id, undefined);
  }
  await stack.provider.faults([]);
  const [lost] = (await ask(undefined, 'GET', '/api/audit?kind=connection.reauth_required')).json.events;
  assert.equal(lost.details.connection_id, team);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${accountId}' and parent_id is not null`), '0');
  assert.deepEqual((await ask('bob', 'GET', '/api/audit?kind=connection')).json.events, []);
  assert.deepEqual(await states('bob'), ['not_connected', undefined]);
  assert.equal((await ask('bob', 'GET', `/api/connections/${team}`)).json.status, 'reauth_required');
  await added('probe', { token: OTHER }, { connection_id: team }, { key });
  await until('it acts again', async () => (await act('bob')).status === 'succeeded');
  await share(false);
  await until('it no longer acts', async () => (await act('bob')).error_code === 'integration_not_connected');
  assert.deepEqual((await ask('bob', 'GET', '/api/connections')).json.connections, []);
  assert.deepEqual((await ask(undefined, 'GET', '/api/audit?kind=connection')).json.events.map(({ kind }) => kind).filter((kind) => /shared/.test(kind)), ['connection.unshared', 'connection.shared']);
});

test('what is wrong is named, and nothing is stored', async () => {
  const before = [await rows(), replies.length];
  const GOOD = { token: TOKEN };
  const cases = [
    [400, /^integration_id and an object credential are required$/, { credential: GOOD }],
    [400, /^integration_id and an object credential are required$/, { integration_id: 'probe' }],
    [400, /^integration_id must be a string$/, { integration_id: 1, credential: GOOD }],
    [400, /^credential must be an object$/, { integration_id: 'probe', credential: TOKEN }],
    [400, /lacks token; the members are token/, { integration_id: 'probe', credential: {} }],
    [400, /has a member "api_key"/, { integration_id: 'probe', credential: { ...GOOD, api_key: 'x' } }],
    [400, /token must be a string without control characters/, { integration_id: 'probe', credential: { token: `${TOKEN}\n` } }],
    [400, /credential must have at most 49152 bytes/, { integration_id: 'probe', credential: { token: 'x'.repeat(50000) } }],
    [400, /^auth must be bearer or basic for either$/, { integration_id: 'either', auth: 'oauth2', credential: GOOD }],
    [400, /lacks username/, { integration_id: 'either', auth: 'basic', credential: {} }],
    [400, /^label must be/, { integration_id: 'probe', credential: GOOD, label: ' ' }],
    [400, /^label must be/, { integration_id: 'probe', credential: GOOD, label: 7 }],
    [400, /^default can only be true$/, { integration_id: 'probe', credential: GOOD, default: false }],
    [400, /^scopes are words/, { integration_id: 'probe', credential: GOOD, scopes: 'a\tb' }],
    [400, /^scopes must be a string$/, { integration_id: 'probe', credential: GOOD, scopes: ['a'] }],
    [400, /takes no params/, { integration_id: 'probe', credential: GOOD, params: { site: 'x' } }],
    [400, /site/, { integration_id: 'hosted', credential: GOOD }],
    [400, /site/, { integration_id: 'hosted', credential: GOOD, params: { site: 'x'.repeat(21) } }],
    [400, /^params must be an object$/, { integration_id: 'hosted', credential: GOOD, params: [] }],
    [400, /^label and params are for a new connection/, { integration_id: 'probe', credential: GOOD, label: 'x', connection_id: '1' }],
    [400, /^connection_id must be/, { integration_id: 'probe', credential: GOOD, connection_id: {} }],
    [400, /use connection_id$/, { integration_id: 'probe', credential: GOOD, connectionId: '1' }],
    [400, /use integration_id$/, { integrationId: 'probe', credential: GOOD }],
    [404, /did you mean/, { integration_id: 'prob', credential: GOOD }],
  ];
  for (const [status, words, body] of cases) {
    const reply = await call('POST', '/api/connections', body);
    assert.equal(reply.status, status, `${JSON.stringify(body)}: ${reply.text}`);
    assert.match(reply.json.error, words);
  }
  const reader = await stack.key(account.id, ['--scopes', 'read,execute,approve']);
  assert.equal((await add('probe', GOOD, {}, { key: reader })).status, 403);
  assert.equal(await rows(), before[0]);
});

test('the account’s OAuth client', async () => {
  const path = '/api/oauth-clients/oauth';
  const none = { error: 'OAuth client not found' };
  assert.deepEqual((await call('GET', path)).json, none);
  const set = await call('PUT', path, { client_id: 'own', client_secret: SECRET });
  assert.deepEqual([set.status, { ...set.json, created_at: 0, updated_at: 0 }], [200, { integration_id: 'oauth', client_id: 'own', has_secret: true, created_at: 0, updated_at: 0 }], set.text);
  assert.deepEqual((await call('GET', path)).json, set.json);
  assert.deepEqual(JSON.parse(await stack.must(['oauth-clients', 'list', '--account', account.id, '--json'])).map((one) => one.client_id), ['own']);
  assert.equal((await call('GET', path, undefined, { key: other.key })).status, 404);
  const changed = await call('PUT', path, { client_id: 'public', client_secret: null });
  assert.deepEqual([changed.json.client_id, changed.json.has_secret, changed.json.created_at], ['public', false, set.json.created_at]);
  for (const [status, words, body, at = path] of [
    [400, /^client_id must be/, {}], [400, /^client_id must be/, { client_id: 1 }], [400, /^client_id must be/, { client_id: 'a b' }], [400, /^client_id must be/, { client_id: 'x'.repeat(1001) }],
    [400, /^client_secret must be/, { client_id: 'own', client_secret: 7 }], [400, /^client_secret must be/, { client_id: 'own', client_secret: `${SECRET}\n` }],
    [400, /use client_id$/, { clientId: 'own' }], [400, /^probe does not use OAuth: its auth is bearer$/, { client_id: 'own' }, '/api/oauth-clients/probe'],
    [404, /did you mean "oauth"/, { client_id: 'own' }, '/api/oauth-clients/oaut'],
  ]) {
    const reply = await call('PUT', at, body);
    assert.equal(reply.status, status, reply.text);
    assert.match(reply.json.error, words);
  }
  for (const method of ['GET', 'PUT', 'DELETE']) assert.equal((await call(method, path, method === 'PUT' ? { client_id: 'x' } : undefined, { user: 'ada' })).status, 400, method);
  const reader = await stack.key(account.id, ['--scopes', 'read,execute,approve']);
  assert.equal((await call('GET', path, undefined, { key: reader })).status, 403);
  assert.deepEqual((await call('DELETE', path)).json, { success: true });
  assert.deepEqual((await call('DELETE', path)).json, none);
  assert.deepEqual((await call('GET', '/api/audit?kind=oauth_client')).json.events.map(({ kind }) => kind), ['oauth_client.removed', 'oauth_client.set', 'oauth_client.set']);
  // no statement gets bytes that are not UTF-8
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const odd = await call(method, '/api/oauth-clients/%FF', method === 'PUT' ? { client_id: 'x' } : undefined);
    assert.deepEqual([odd.status, odd.json], [400, { error: 'the path is not UTF-8' }], method);
  }
});

test('no credential was shown', async () => {
  const places = { replies: replies.join('\n'), log: stack.servers.map((one) => one.log).join('\n'), dump: await stack.cluster.dump(), metrics: await server.metrics() };
  for (const [place, text] of Object.entries(places))
    for (const secret of [TOKEN, OTHER, WRONG, SECRET, credentials.probe.token]) assert.ok(!text.includes(secret), place);
});
