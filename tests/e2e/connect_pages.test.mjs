// The connection pages of the dashboard without a browser: apps, forms that are tested before
// anything is stored, OAuth through oidc-provider's real consent pages, links for end users, and
// keys. Also requests that must be refused: forms of other sites, other accounts, links used twice,
// and too many sign-ins.
import assert from 'node:assert/strict';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { clientOf, Oidc, PUBLIC } from './support/oidc.mjs';
import { formsOf, linkOf, Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const GOOD = 'ya29.demo-gmail-full';
const BAD = 'sentinel-wrong-token-55';
const HOSTILE = `"><img src=x onerror=alert(1)>'`;

let stack, oidc, server, one, two;

before(async () => {
  oidc = await Oidc.start({ ttl: 3600 });
  stack = await Stack.start();
  const catalog = join(stack.dir, 'catalog');
  await mkdir(catalog);
  const manifests = [
    oidc.manifest('strict'),
    oidc.manifest('bare'),
    {
      ...oidc.manifest('who', { auth: { login_hint: { login_hint: 'email' }, test: { method: 'GET', path: '/me' } } }),
      identity: { email: 'body.account', subject: "join('-', ['id', body.account])" },
    },
    { ...oidc.manifest('claimed'), identity: { from: 'id_token', subject: 'claims.sub' } },
    oidc.manifest('machine', { type: 'oauth2_client_credentials', auth: { test: { method: 'GET', path: '/me' } } }),
  ];
  for (const manifest of manifests)
    await writeFile(join(catalog, `${manifest.integration_id}.json`), JSON.stringify(manifest));
  await copyFile(join(import.meta.dirname, 'support/catalog/probe.json'), join(catalog, 'probe.json'));
  const env = { SLUICE_CATALOG: catalog };
  for (const app of ['strict', 'who', 'claimed'])
    await stack.must(['oauth-clients', 'set', app, '--client-id', 'sluice', '--client-secret-file', '-'], {
      env,
      input: `${clientOf('sluice').client_secret}\n`,
    });
  server = await stack.serve({ args: ['--allow-host', '127.0.0.1', '--public-url', PUBLIC, '--trusted-proxy', '127.0.0.1'], env });
  one = await stack.account('one', { apps: [] });
  two = await stack.account('two', { apps: [] });
});
after(async () => {
  await oidc?.stop();
  await stack?.stopWell(assert);
});

async function signedIn(account) {
  const pages = new Pages(server.base);
  let page;
  // the tests sign in more often than people do
  await until('this address may sign in again', async () => (page = await pages.signIn(account.key)).status !== 429);
  assert.equal(page.status, 200, page.text);
  return pages;
}

const count = async (account, what = '') =>
  Number(await stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${account.id}' ${what}`));
// The page of a connection, found by its label on its app's page.
const connectionOf = (pages, app, label) => pages.go(linkOf(app.text, label));
const events = (account, kind) =>
  stack.cluster
    .sql(`select count(*) from sluice.audit_event where account_id = '${account.id}' and kind = '${kind}'`)
    .then(Number);

test('without a session every page redirects to the sign-in, and a wrong key is refused', async () => {
  const pages = new Pages(server.base);
  for (const path of ['/integrations', '/integrations/probe', '/connect/callback?state=x&code=y']) {
    const reply = await pages.ask(path);
    assert.equal(reply.status, 303);
    assert.match(reply.location, /^\/sign-in\?next=/);
  }
  assert.equal((await pages.signIn(`sk_${'a'.repeat(43)}`)).status, 401);
});

test('apps: searched, by category, escaped', async () => {
  const pages = await signedIn(one);
  const all = await pages.go('/integrations');
  assert.equal(all.status, 200);
  assert.match(all.headers.get('cache-control'), /no-store/);
  assert.ok(all.text.includes('href="/integrations/gmail"') && all.text.includes('href="/integrations/strict"'));
  const found = await pages.go('/integrations?q=gmail');
  assert.ok(found.text.includes('href="/integrations/gmail"') && !found.text.includes('href="/integrations/strict"'));
  const category = await pages.go('/integrations?category=test');
  assert.ok(category.text.includes('href="/integrations/strict"') && !category.text.includes('href="/integrations/gmail"'));
  const hostile = await pages.go(`/integrations?q=${encodeURIComponent(HOSTILE)}`);
  assert.ok(!hostile.text.includes('<img') && hostile.text.includes('&lt;img'), hostile.text);
  assert.equal((await pages.go('/integrations/nosuchapp')).status, 404);
});

test('a key app through its form: a credential that the app refuses is not stored, one that it accepts works', async () => {
  const pages = await signedIn(one);
  const page = await pages.go('/integrations/probe');
  const refused = await pages.press(page, 'Connect Probe', { token: BAD });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /Nothing was stored/);
  assert.ok(!refused.text.includes(BAD));
  assert.equal(await count(one), 0);
  assert.equal((await pages.press(page, 'Connect Probe', { token: '' })).status, 400);
  // A login page answers the test request with 200, whatever the credential.
  await stack.provider.faults([{ match: { path_prefix: '/gmail/v1/users/me/profile' }, count: -1, action: { status: 200, body: '<html><title>Sign in</title></html>' } }]);
  const portal = await pages.press(page, 'Connect Probe', { token: GOOD });
  await stack.provider.faults([]);
  assert.match(portal.text, /Nothing was stored.*web page/s);
  assert.equal(await count(one), 0);
  const done = await pages.press(page, 'Connect Probe', { token: GOOD, label: HOSTILE });
  assert.equal(done.status, 200, done.text);
  assert.match(done.text, /role="status">Connected/);
  assert.ok(!done.text.includes('<img') && done.text.includes('&lt;img') && !done.text.includes(GOOD));
  assert.equal(await count(one, 'and is_default'), 1);
  assert.equal(await events(one, 'connection.added'), 1);
  const run = await server.execute(one.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(run.status, 200, run.text);
  const tested = await pages.press(await connectionOf(pages, done, HOSTILE), 'Test it');
  assert.match(tested.path, /^\/connections\/\d+\?/);
  assert.match(tested.text, /the connection works/);
});

test('the last use and the last failure are reported soon, and at a clean shutdown', async () => {
  const listed = async (node) => (await node.call(one.key, 'GET', '/api/connections?integration_id=probe')).json.connections[0];
  await until('the use is reported', async () => (await listed(server)).last_used_at);
  const first = await listed(server);
  assert.deepEqual([first.failed_at, first.failure], [null, null]);
  const bad = await server.execute(one.key, 'probe', 'read_label', { id: 'NONE' });
  assert.equal(bad.status, 500, bad.text);
  // Within a minute of the last write, the server writes this only when it shuts down.
  const node = await stack.serve({ args: ['--allow-host', '127.0.0.1'], env: { SLUICE_CATALOG: join(stack.dir, 'catalog') } });
  assert.equal((await node.execute(one.key, 'probe', 'read_label', { id: 'NONE' })).status, 500);
  await node.stop();
  const last = await listed(server);
  assert.ok(last.last_used_at > first.last_used_at, JSON.stringify(last));
  assert.equal(last.failed_at, last.last_used_at);
  assert.equal(last.failure, bad.json.message);
  const [row] = JSON.parse(await stack.must(['connections', 'list', one.id, '--json']));
  assert.equal(row.last_used_at, last.last_used_at);
});

test('a second connection: default, label, a new credential, disconnected', async () => {
  const pages = await signedIn(one);
  let page = await pages.press(await pages.go('/integrations/probe'), 'Connect Probe', { token: GOOD, label: 'second' });
  assert.equal(await count(one, 'and is_default'), 1);
  page = await connectionOf(pages, page, 'second');
  page = await pages.press(page, 'Make it the default');
  assert.match(page.text, /Connection changed/);
  assert.equal(await count(one, `and is_default and label = 'second'`), 1);
  page = await pages.press(page, 'Save the label', { label: 'renamed' });
  assert.equal(await count(one, `and label = 'renamed'`), 1);
  const refused = await pages.press(page, 'Reconnect renamed', { token: BAD });
  assert.equal(refused.status, 400, refused.text);
  page = await pages.press(page, 'Reconnect renamed', { token: GOOD });
  assert.match(page.text, /Reconnected/);
  assert.match(page.path, /^\/connections\//);
  page = await pages.go(linkOf(page.text, 'Disconnect'));
  page = await pages.press(page, 'Disconnect');
  assert.match(page.text, /Connection deleted/);
  assert.equal(await count(one), 1);
  for (const kind of ['default_set', 'renamed', 'reconnected', 'removed'])
    assert.equal(await events(one, `connection.${kind}`), 1, kind);
});

test('client credentials are tried at the token endpoint before they are stored', async () => {
  const pages = await signedIn(one);
  const page = await pages.go('/integrations/machine');
  const refused = await pages.press(page, 'Connect App machine', { client_id: 'sluice', client_secret: 'wrong' });
  assert.equal(refused.status, 400, refused.text);
  const done = await pages.press(page, 'Connect App machine', {
    client_id: 'sluice',
    client_secret: clientOf('sluice').client_secret,
  });
  assert.match(done.text, /role="status">Connected/, done.text);
  const run = await server.execute(one.key, 'machine', 'write_note', {}, { confirm: true });
  assert.equal(run.status, 200, run.text);
});

test('OAuth: consent connects; a state is valid once and for its session; a denial is reported', async () => {
  const pages = await signedIn(one);
  const page = await pages.go('/integrations/strict');
  const sent = await pages.press(page, 'Connect App strict', { label: 'by consent' }, { follow: false });
  assert.equal(sent.status, 303, sent.text);
  assert.ok(sent.location.startsWith(`${oidc.url}/auth?`));
  const policy = page.headers.get('content-security-policy');
  assert.ok(policy.includes(`form-action 'self' ${oidc.url}`), policy);
  const back = await oidc.consent(sent.location, { login: 'sam' });
  const path = `/connect/callback${new URL(back.url).search}`;

  const stranger = await signedIn(two);
  const stolen = await stranger.go(path);
  assert.equal(stolen.status, 400);
  assert.match(stolen.text, /was not started here/);
  assert.equal(await count(two), 0);

  const done = await pages.go(path);
  assert.equal(done.path, '/integrations/strict?notice=connected', done.text);
  const granted = await connectionOf(pages, done, 'by consent');
  assert.match(granted.text, /<code>notes\.read<\/code><\/span><span class="badge ok">granted/);
  assert.match(granted.text, /automatic, before the token expires/);
  assert.equal((await server.execute(one.key, 'strict', 'read_me', {})).status, 200);
  assert.equal((await pages.go(path)).status, 400);

  const again = await pages.press(granted, 'Reconnect by consent', {}, { follow: false });
  const second = await oidc.consent(again.location, { login: 'sam' });
  const reconnected = await pages.go(`/connect/callback${new URL(second.url).search}`);
  assert.match(reconnected.text, /Reconnected/);
  assert.equal(await count(one, `and integration_id = 'strict'`), 1);

  const third = await pages.press(done, 'Connect App strict', {}, { follow: false });
  const no = await oidc.consent(third.location, { login: 'sam', deny: true });
  const denied = await pages.go(`/connect/callback${new URL(no.url).search}`);
  assert.equal(denied.status, 400);
  assert.match(denied.text, /access_denied/);
});

test('OAuth for an end user: the callback connects the app for the user of the page', async () => {
  const as = (method, path, body) => server.call(one.key, method, path, body, { 'sluice-user': 'ada/&' });
  assert.equal((await as('POST', '/api/connect/sessions', { integration_id: 'strict' })).status, 201); // makes the user
  const [pages, before] = [await signedIn(one), await count(one)];
  const page = await pages.go('/integrations/strict?user=ada%2F%26');
  const sent = await pages.press(page, 'Connect App strict', { label: 'of ada' }, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'kim' });
  const search = new URL(back.url).search;
  // neither another account's session, nor the state without its user, or with another one
  assert.equal((await (await signedIn(two)).go(`/connect/callback${search}`)).status, 400);
  const state = new URLSearchParams(search).get('state');
  for (const wrong of [state.slice(37), `${one.id}.${state.slice(37)}`]) assert.equal((await pages.go(`/connect/callback${search.replace(encodeURIComponent(state), wrong)}`)).status, 400, wrong);
  const done = await pages.go(`/connect/callback${search}`);
  assert.equal(done.path, '/integrations/strict?notice=connected&user=ada%2F%26', done.text);
  const { connections } = (await as('GET', '/api/connections')).json;
  assert.deepEqual(connections.map(({ label, status }) => [label, status]), [['of ada', 'live']]);
  assert.equal(await count(one), before);
  assert.equal((await as('POST', '/api/executions', { integration_id: 'strict', action_id: 'read_me', input: {} })).status, 200);
  const own = await pages.go(`/connections/${connections[0].id}?user=ada%2F%26`);
  // calls are counted for the account, so the page of a user has no numbers
  assert.doesNotMatch(own.text, /last 24 hours/);
  const app = await pages.go('/integrations/strict?user=ada%2F%26');
  assert.deepEqual([app.status, app.text.includes('Nothing was counted')], [200, false]);
  const again = await pages.press(own, 'Reconnect of ada', {}, { follow: false });
  const second = await oidc.consent(again.location, { login: 'kim' });
  const reconnected = await pages.go(`/connect/callback${new URL(second.url).search}`);
  assert.equal(reconnected.path, `/connections/${connections[0].id}?notice=reconnected&user=ada%2F%26`);
  assert.equal(await count(one), before);
});

test('an account brings an OAuth client of its own; its secret is in no page', async () => {
  const pages = await signedIn(two);
  let page = await pages.go('/integrations/bare');
  assert.match(page.text, /this server does not have one yet/);
  assert.ok(page.text.includes(`<code>${PUBLIC}/connect/callback</code>`));
  const own = formsOf(page.text).flatMap((form) => form.buttons);
  assert.ok(!own.includes('Connect App bare') && own.includes('Save the client'), 'there is no button that could only fail');
  const { fields } = formsOf(page.text).find((form) => form.fields.csrf);
  const forced = await pages.go('/integrations/bare/connect', { method: 'POST', fields: { csrf: fields.csrf } });
  assert.equal(forced.status, 400, forced.text);
  const { client_id, client_secret } = clientOf('sluice');
  page = await pages.press(page, 'Save the client', { client_id, client_secret });
  assert.match(page.text, /client saved/);
  assert.ok(!page.text.includes(client_secret));
  const sent = await pages.press(page, 'Connect App bare', {}, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'kim' });
  const done = await pages.go(`/connect/callback${new URL(back.url).search}`);
  assert.match(done.text, /Connected/);
  // a page first asks for confirmation and lists what the client was granted
  const question = await pages.go(linkOf(done.text, 'Delete the client'));
  assert.ok(question.text.includes(`<code>${client_id}</code>`) && !question.text.includes(client_secret));
  assert.match(question.text, /1 connection was made by signing in to App bare\..*You will not be able to sign in to App bare from here/s);
  assert.equal((await (await signedIn(one)).go(question.path)).status, 404);
  page = await pages.press(question, 'Delete the client');
  assert.match(page.text, /this server does not have one yet/);
  assert.equal(await events(two, 'oauth_client.set'), 1);
});

test('forms of other sites, without the token, or by another account change nothing', async () => {
  const pages = await signedIn(one);
  const page = await connectionOf(pages, await pages.go('/integrations/probe'), HOSTILE);
  const question = await pages.go(linkOf(page.text, 'Disconnect'));
  const form = formsOf(question.text).find((each) => each.action.endsWith('/delete'));
  const before = await count(one);
  const evil = [
    { fields: form.fields, headers: { origin: 'https://evil.example' } },
    { fields: form.fields, headers: { 'sec-fetch-site': 'cross-site' } },
    { fields: {} },
    { fields: { csrf: '0'.repeat(32) } },
  ];
  for (const one of evil) assert.equal((await pages.ask(form.action, { method: 'POST', ...one })).status, 403);
  const stranger = await signedIn(two);
  const own = formsOf((await stranger.go('/integrations/probe')).text).find((each) => each.fields.csrf);
  assert.equal((await stranger.go(form.action.replace('/delete', ''))).status, 404);
  for (const verb of ['delete', 'default', 'test', 'label']) {
    const path = form.action.replace('/delete', `/${verb}`);
    const reply = await stranger.ask(path, { method: 'POST', fields: { csrf: own.fields.csrf, label: 'mine now' } });
    assert.equal(reply.status, 404, `${verb}: ${reply.text}`);
  }
  assert.equal(await count(one), before);
});

test('a session without the scope sees pages, and changes nothing', async () => {
  const reader = { id: one.id, key: await stack.key(one.id, ['--scopes', 'read']) };
  const pages = await signedIn(reader);
  const page = await connectionOf(pages, await pages.go('/integrations/probe'), HOSTILE);
  assert.equal(page.status, 200);
  assert.ok(!formsOf(page.text).some((form) => /connect|delete/.test(form.action)));
  const csrf = formsOf(page.text).find((form) => form.fields.csrf).fields.csrf;
  const reply = await pages.ask('/integrations/probe/connect', { method: 'POST', fields: { csrf, token: GOOD } });
  assert.equal(reply.status, 403);
});

test('keys: shown once, marked, revoked at once; no key has more scopes than its creator', async () => {
  const pages = await signedIn(two);
  const list = await pages.go('/keys');
  assert.match(list.text, /you are signed in with this key/);
  const made = await pages.press(await pages.go('/keys/new'), 'Create the key', { name: HOSTILE, 'scope.read': 'yes', expires: '30' });
  assert.equal(made.status, 201, made.text);
  const key = made.text.match(/sk_[\w-]{43}/)[0];
  assert.equal((await server.call(key, 'GET', '/api/integrations')).status, 200);
  const page = await pages.go('/keys');
  assert.ok(!page.text.includes(key) && page.text.includes(key.slice(0, 10)) && !page.text.includes('<img'));
  const question = await pages.go(linkOf(page.text, `Revoke ${HOSTILE} ${key.slice(0, 10)}`));
  assert.ok(!question.text.includes('<img'));
  const gone = await pages.press(question, 'Revoke the key');
  assert.match(gone.text, /The key was revoked/);
  assert.equal((await server.call(key, 'GET', '/api/integrations')).status, 401);
  for (const kind of ['created', 'revoked']) assert.equal(await events(two, `key.${kind}`), kind === 'created' ? 2 : 1);

  const limited = await signedIn({ key: await stack.key(two.id, ['--scopes', 'read,admin']) });
  const form = formsOf((await limited.go('/keys/new')).text).find((each) => each.action === '/keys/new');
  assert.ok(form.names.includes('scope.read') && !form.names.some((name) => name.startsWith('scope.execute')));
  const fields = { csrf: form.fields.csrf, name: 'more', 'scope.execute:read': 'yes', expires: 'never' };
  assert.equal((await limited.ask('/keys/new', { method: 'POST', fields })).status, 400);
  const stranger = await signedIn(one);
  const csrf = formsOf((await stranger.go('/keys/new')).text).find((each) => each.action === '/keys/new').fields.csrf;
  assert.equal((await stranger.ask(question.path, { method: 'POST', fields: { csrf } })).status, 404);
  assert.equal((await stranger.ask(question.path)).status, 404);
  for (const path of ['/keys/x', `/keys/${one.id}`, `/keys/${one.id}/events`, '/keys?after=x']) assert.equal((await pages.ask(path)).status, 404, path);

  // pages of the list: 150 older keys
  await stack.cluster.sql(`insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at)
    select '${two.id}', ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, sha256(n::text::bytea), 'sk_old', 'old ' || n, 'read', now() from generate_series(1, 150) n`);
  const named = (text) => [...text.matchAll(/href="\/keys\/[0-9a-f-]{36}" title="([^"]*)"/g)].map(([, name]) => name);
  const first = await pages.go('/keys');
  const rest = await pages.go(linkOf(first.text, 'More keys'));
  assert.deepEqual([named(first.text).length, named(rest.text).at(-1), rest.text.includes('More keys')], [100, 'old 1', false]);
  assert.equal(new Set([...named(first.text), ...named(rest.text)].filter((name) => name.startsWith('old '))).size, 150);
});

const link = (key, body) => server.call(key, 'POST', '/api/connect/sessions', body);

async function made(account, body) {
  const reply = await link(account.key, body);
  assert.equal(reply.status, 201, reply.text);
  assert.ok(reply.json.url.startsWith(`${PUBLIC}/connect/`));
  return { ...reply.json, path: new URL(reply.json.url).pathname };
}
// A browser that has opened the link, and the page that it shows.
async function taken(path) {
  const person = new Pages(server.base);
  const page = await person.press(await person.ask(path), 'Continue');
  assert.equal(page.path, path, page.text);
  return { person, page };
}
// Follows the button to the app's consent page, consents, and returns to the callback.
async function consent(person, page, button, login) {
  const sent = await person.press(page, button, {}, { follow: false });
  assert.equal(sent.status, 303, sent.text);
  const back = await oidc.consent(sent.location, { login });
  return person.go(`/connect/callback${new URL(back.url).search}`);
}
const ROW = ['rev', 'label', 'status', 'is_default', 'octet_length(sealed)', 'md5(sealed)', 'identity_email', 'identity_subject'];
const row = (id) =>
  stack.cluster
    .sql(`select json_build_object(${ROW.map((of) => `'${of}', ${of}`)}) from sluice.connection where id = ${id}`)
    .then(JSON.parse);
const trail = (account, kind) =>
  stack.cluster
    .sql(`select coalesce(json_agg(to_json(e) order by e.id), '[]') from (select id, kind, reason, actor, details from sluice.audit_event where account_id = '${account.id}' and (kind like 'link.%' or kind like 'connection.%') and kind like '${kind}') e`)
    .then(JSON.parse);

test('a link shows and changes only what it makes, and nothing else of the account', async () => {
  const owner = await stack.account('Acme & Sons', { apps: [] });
  const own = await stack.connect(owner.id, 'probe', { token: GOOD }, ['--label', 'private one']);
  await stack.must(['accounts', 'set', owner.id, '--mark', 'AS', '--colour', '#ffcc00']);
  const before = await row(own);
  const { id, path } = await made(owner, { integration_id: 'probe', return_url: 'https://agent.example/done' });
  const scanner = new Pages(server.base);
  for (let looks = 0; looks < 3; looks++) {
    const page = await scanner.ask(path);
    assert.equal(page.status, 200);
    assert.ok(page.text.includes('You are giving <strong>Acme &amp; Sons</strong> access to <strong>Probe</strong>'), page.text);
    assert.match(page.text, /<rect [^>]*fill="#ffcc00"\/?>.*<text [^>]*fill="#000">AS<\/text>/s);
    assert.match(page.text, /<strong>Read<\/strong>: Echo; Read a label; Wait.*<strong>Write<\/strong>: Send/);
    assert.match(page.text, /https:\/\/agent\.example\/done/);
    assert.equal(scanner.cookies.size, 0);
  }
  for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }])
    assert.equal((await scanner.ask(path, { method: 'POST', headers })).status, 403);
  assert.equal((await trail(owner, 'link.used')).length, 0);
  const { person, page } = await taken(path);
  const form = formsOf(page.text).find((one) => one.fields.csrf);
  assert.ok(!page.text.includes('private one') && !page.text.includes(own), page.text);
  assert.deepEqual(form.names, ['csrf', 'token'], 'the page asks neither for a label nor for a connection');
  // the cookie opens no other page, whatever its name is
  const [[name, value]] = person.cookies;
  const thief = new Pages(server.base);
  thief.cookies.set('sluice', value);
  for (const each of ['/', '/integrations', '/integrations/probe', `/connections/${own}`, '/flows', '/executions', '/keys'])
    for (const pages of [person, thief]) assert.match((await pages.go(each)).path, /^\/sign-in/, each);
  for (const each of [`/connections/${own}/label`, `/connections/${own}/delete`, `/connections/${own}/test`, `/connections/${own}/default`, '/integrations/probe/connect', '/keys/new']) {
    const fields = { csrf: form.fields.csrf, label: 'mine now', connection: own, token: GOOD };
    for (const pages of [person, thief]) assert.equal((await pages.ask(each, { method: 'POST', fields })).status, 401, each);
  }
  // nor with its own form
  const refused = await person.go(form.action, { method: 'POST', fields: { ...form.fields, token: BAD } });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /Nothing was stored/);
  assert.equal((await person.ask(form.action, { method: 'POST', fields: { token: GOOD } })).status, 403, 'no csrf');
  const fields = { ...form.fields, token: GOOD, connection: own, label: 'mine now', other: 'yes' };
  const done = await person.go(form.action, { method: 'POST', fields });
  assert.equal(done.path, path, done.text);
  assert.match(done.text, /Acme &amp; Sons now has access to Probe/);
  assert.match(done.text, /href="https:\/\/agent\.example\/done"/);
  assert.ok(!done.text.includes('private one'));
  assert.deepEqual(await row(own), before);
  assert.equal(await count(owner), 2);
  assert.equal(await count(owner, `and label = 'mine now'`), 0);
  // the link has already made its one connection
  assert.equal((await person.go(form.action, { method: 'POST', fields })).path, path);
  assert.equal(await count(owner), 2);
  person.cookies.set(name, `${value.slice(0, -6)}AAAAAA`);
  assert.equal((await person.ask(path)).status, 410, 'a cookie that was tampered with');
  for (const [each, status, title] of [[path, 410, 'This link has been used'], [`${path.slice(0, -4)}AAAA`, 404, 'This link is not valid'], ['/connect/x', 404, 'This link is not valid']])
    for (const method of ['GET', 'POST']) {
      const reply = await scanner.ask(each, { method });
      assert.equal(reply.status, status, `${method} ${each}`);
      assert.ok(reply.text.includes(`<h1>${title}</h1>`), reply.text);
    }
  // the audit trail names the link's id everywhere, and never its token
  const events = await trail(owner, '%');
  const mine = events.filter((one) => one.details.link_id);
  assert.deepEqual(mine.map((one) => one.kind), ['link.created', 'link.used', 'connection.added']);
  const { key_id } = mine[0].details;
  assert.deepEqual(mine.map((one) => one.actor), [`key:${key_id}`, `link:${id}`, `link:${id}`]);
  for (const one of mine) assert.deepEqual([one.details.link_id, one.details.key_id], [id, key_id]);
  assert.ok(!JSON.stringify(events).includes(path.split('/').at(-1)));
});

test('a link works in one browser; its form sent twice counts once', async () => {
  const { path } = await made(two, { integration_id: 'probe' });
  const person = new Pages(server.base), other = new Pages(server.base);
  const page = await person.ask(path), theirs = await other.ask(path);
  const [form] = formsOf(page.text);
  for (let sent = 0; sent < 2; sent++) {
    person.cookies.clear(); // a click before the answer to the first has arrived
    assert.equal((await person.go(path, { method: 'POST', fields: form.fields })).status, 200);
  }
  assert.match((await person.ask(path)).text, /Connect Probe<\/button>/);
  const again = { method: 'POST', fields: form.fields, headers: { 'sec-fetch-site': 'same-origin' } };
  assert.equal((await person.go(path, again)).path, path);
  assert.equal((await trail(two, 'link.used')).length, 1);
  const late = await other.press(theirs, 'Continue');
  assert.equal(late.status, 410);
  assert.ok(late.text.includes('<h1>This link has already been opened</h1>'), late.text);
});

// The app may consent without asking, so a form that another site could have sent shows the page first.
test('where nothing is to be chosen, the button of a link leads to the app', async () => {
  const ways = { claimed: true, probe: false, bare: false };
  for (const [integration_id, isDirect] of Object.entries(ways)) {
    const { path } = await made(one, { integration_id });
    const [form] = formsOf((await new Pages(server.base).ask(path)).text);
    assert.equal(form?.fields.go, isDirect ? '1' : undefined, integration_id);
  }
  // permissions by what they are for, each with the app's name for it
  const { text } = await new Pages(server.base).ask((await made(one, { integration_id: 'slack' })).path);
  const [read, write] = ['Read', 'Write'].map((verb) => text.match(new RegExp(`<summary>${verb}: \\d+ permissions</summary>(.*?)</details>`, 's'))[1]);
  assert.match(text, /It may then read and write:/);
  assert.ok(read.includes('<code>channels:history</code>') && write.includes('<code>chat:write</code>'), text);
  assert.ok(read.includes('<strong>Read</strong>') && !write.includes('<strong>Read</strong>'));
  // an app whose actions name no permissions: any of them may be for writing
  const other = await new Pages(server.base).ask((await made(one, { integration_id: 'trello' })).path);
  assert.match(other.text, /<summary>Write: 6 permissions<\/summary>.*<strong>Read<\/strong>.*<strong>Delete<\/strong>/s);
  for (const [headers, isSent] of [[{}, false], [{ 'sec-fetch-site': 'same-origin' }, true], [{ origin: new URL(server.base).origin }, true]]) {
    const { path } = await made(one, { integration_id: 'claimed' });
    const person = new Pages(server.base);
    const [{ fields }] = formsOf((await person.ask(path)).text);
    const reply = await person.ask(path, { method: 'POST', fields, headers });
    assert.equal(reply.status, 303, reply.text);
    assert.equal(reply.location.startsWith(oidc.url), isSent, reply.location);
    if (!isSent) continue;
    const again = await person.ask(path, { method: 'POST', fields, headers });
    assert.ok(again.location.startsWith(oidc.url), 'sent twice');
    const back = await oidc.consent(reply.location, { login: 'kim' });
    assert.match((await person.go(`/connect/callback${new URL(back.url).search}`)).text, /now has access to App claimed, as <strong>kim<\/strong>/);
  }
});

test('the key of a link is bound to addresses, its holder is not', async () => {
  const key = await stack.key(one.id, ['--allow-address', '10.1.0.0/16']);
  const reply = await server.call(key, 'POST', '/api/connect/sessions', { integration_id: 'claimed' }, { 'x-forwarded-for': '10.1.2.3' });
  assert.equal(reply.status, 201, reply.text);
  const { person, page } = await taken(new URL(reply.json.url).pathname);
  assert.match((await consent(person, page, 'Connect App claimed', 'kim')).text, /now has access to App claimed, as <strong>kim<\/strong>/);
});

test('two links in one browser do not disturb each other, or the dashboard', async () => {
  const pages = await signedIn(two);
  const [one, other] = [await made(two, { integration_id: 'probe' }), await made(two, { integration_id: 'claimed' })];
  const first = await pages.press(await pages.ask(one.path), 'Continue');
  const second = await pages.press(await pages.ask(other.path), 'Continue');
  assert.match((await pages.press(first, 'Connect Probe', { token: GOOD })).text, /now has access to Probe/);
  assert.match((await consent(pages, second, 'Connect App claimed', 'kim')).text, /now has access to App claimed, as <strong>kim<\/strong>/);
  assert.equal((await pages.ask('/integrations')).status, 200, 'still signed in');
});

test('only the named identity can be connected', async () => {
  const owner = await stack.account('demanding', { apps: [] });
  const { id, path } = await made(owner, { integration_id: 'who', email: 'Ada@example.com' });
  const { person, page } = await taken(path);
  assert.match(page.text, /Only <strong>Ada@example\.com<\/strong> can be connected/);
  const hinted = await person.press(page, 'Connect App who', {}, { follow: false });
  assert.equal(new URL(hinted.location).searchParams.get('login_hint'), 'Ada@example.com');
  const bob = await consent(person, page, 'Connect App who', 'bob@example.com');
  assert.equal(bob.status, 409);
  assert.match(bob.text, /This link is for Ada@example\.com, but the login at App who is bob@example\.com/);
  oidc.isDeaf = true; // the app does not say who signed in
  const nobody = await consent(person, page, 'Connect App who', 'ada@example.com');
  oidc.isDeaf = false;
  assert.equal(nobody.status, 409);
  assert.match(nobody.text, /could not be determined/);
  assert.equal(await count(owner), 0);
  const [other, unknown] = await trail(owner, 'link.refused');
  assert.deepEqual([other.reason, unknown.reason, other.actor], ['other_identity', 'unknown_identity', `link:${id}`]);
  assert.deepEqual([other.details.came.email, other.details.expected.email], ['bob@example.com', 'Ada@example.com']);
  // of two attempts that begin at the same time, one makes the connection
  const begun = await person.press(page, 'Connect App who', {}, { follow: false });
  const late = await oidc.consent(begun.location, { login: 'ada@example.com' });
  const ada = await consent(person, page, 'Connect App who', 'ada@example.com');
  assert.match(ada.text, /demanding now has access to App who, as <strong>ada@example\.com<\/strong>/);
  assert.equal((await person.go(`/connect/callback${new URL(late.url).search}`)).path, path);
  assert.equal(await count(owner), 1);
  const [connection] = (await server.call(owner.key, 'GET', '/api/connections')).json.connections;
  assert.deepEqual([connection.label, connection.identity], ['ada@example.com', { email: 'ada@example.com', subject: 'id-ada@example.com', label: null }]);
});

test('a link to reconnect gives one connection a new grant, and never another login', async () => {
  const owner = await stack.account('mender', { apps: [] });
  const first = await taken((await made(owner, { integration_id: 'who' })).path);
  await consent(first.person, first.page, 'Connect App who', 'ada@example.com');
  const [{ id }] = (await server.call(owner.key, 'GET', '/api/connections')).json.connections;
  const before = await row(id);
  const { path } = await made(owner, { integration_id: 'who', force_reconnect: true });
  const { person, page } = await taken(path);
  assert.match(page.text, /<h1>[^<]* asks you to reconnect App who/);
  assert.match(page.text, /acts as <strong>ada@example\.com<\/strong>/);
  const hinted = await person.press(page, 'Reconnect ada@example.com', {}, { follow: false });
  assert.equal(new URL(hinted.location).searchParams.get('login_hint'), 'ada@example.com');
  const bob = await consent(person, page, 'Reconnect ada@example.com', 'bob@example.com');
  assert.equal(bob.status, 409);
  assert.match(bob.text, /This connection acts as ada@example\.com, but the login at App who is bob@example\.com/);
  oidc.isDeaf = true;
  assert.equal((await consent(person, page, 'Reconnect ada@example.com', 'ada@example.com')).status, 409);
  oidc.isDeaf = false;
  assert.deepEqual(await row(id), before);
  const done = await consent(person, page, 'Reconnect ada@example.com', 'ada@example.com');
  assert.match(done.text, /as <strong>ada@example\.com<\/strong>/);
  assert.equal((await row(id)).rev, before.rev + 1);
  assert.equal(await count(owner), 1);

  // a person who is signed in may change the user, and confirms it
  const pages = await signedIn(owner);
  const own = await pages.go(`/connections/${id}`);
  assert.match(own.text, /Acts as<\/dt><dd>ada@example\.com/);
  const refused = await consent(pages, own, 'Reconnect ada@example.com', 'bob@example.com');
  assert.equal(refused.status, 409);
  assert.match(refused.text, /reconnect it and tick the box/);
  const sent = await pages.press(own, 'Reconnect ada@example.com', { other: 'yes' }, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'bob@example.com' });
  const changed = await pages.go(`/connect/callback${new URL(back.url).search}`);
  assert.match(changed.text, /Acts as<\/dt><dd>bob@example\.com/);
  // the user cannot be found out: the grant is stored, and the page says so
  oidc.isDeaf = true;
  const kept = await consent(pages, changed, 'Reconnect ada@example.com', 'bob@example.com');
  oidc.isDeaf = false;
  assert.match(kept.text, /Acts as<\/dt><dd>not known/);
  assert.match((await pages.press(kept, 'Test it')).text, /Acts as<\/dt><dd>bob@example\.com/);
  assert.equal((await server.execute(owner.key, 'who', 'read_me', {})).status, 200);

  // a link for one connection cannot replace another connection of the same app
  const other = await stack.connect(owner.id, 'who', await oidc.tokens({ login: 'eve' }), ['--label', 'other'], { env: { SLUICE_CATALOG: join(stack.dir, 'catalog') } });
  const named = await taken((await made(owner, { integration_id: 'who', connection_id: other })).path);
  assert.ok(named.page.text.includes('<strong>other</strong>') && !named.page.text.includes(id), named.page.text);
  const was = await row(id);
  const mended = await consent(named.person, named.page, 'Reconnect other', 'eve');
  assert.match(mended.text, /as <strong>id-eve<\/strong>|as <strong>eve/);
  assert.deepEqual(await row(id), was);
});

test('an OAuth state is only for the session, or the link, that began it', async () => {
  const { path } = await made(one, { integration_id: 'claimed' });
  const { person, page } = await taken(path);
  const sent = await person.press(page, 'Connect App claimed', {}, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'pat' });
  const callback = `/connect/callback${new URL(back.url).search}`;
  const before = await count(one);
  const thief = await taken((await made(two, { integration_id: 'claimed' })).path);
  const dashboard = await signedIn(one);
  for (const pages of [thief.person, dashboard, new Pages(server.base)]) {
    const reply = await pages.go(callback);
    assert.equal(reply.status, 400);
    assert.match(reply.text, /was not started in this browser/);
  }
  const theirs = await dashboard.press(await dashboard.go('/integrations/claimed'), 'Connect App claimed', {}, { follow: false });
  const mine = await oidc.consent(theirs.location, { login: 'pat' });
  assert.match((await person.go(`/connect/callback${new URL(mine.url).search}`)).path, /^\/sign-in/);
  assert.equal(await count(one), before);
  assert.match((await person.go(callback)).text, /as <strong>pat<\/strong>/);
});

test('a link does not offer a sign-in that this server cannot start', async () => {
  const { json } = await server.call(one.key, 'POST', '/api/connect/sessions', { integration_id: 'bare' });
  const person = new Pages(server.base);
  const page = await person.ask(new URL(json.url).pathname);
  assert.equal(page.status, 200, page.text);
  assert.deepEqual(formsOf(page.text).flatMap((form) => form.buttons), [], 'said before the press');
  assert.match(page.text, /needs an OAuth client for App bare and does not have one/);
  assert.match(page.text, /Ask one to set one up/);
});

test('a link that is too old says so, and so does one whose key is revoked', async () => {
  const old = (await made(one, { integration_id: 'probe' })).path;
  await stack.cluster.sql(`update sluice.connect_session set expires_at = now() - interval '1 second' where taken_at is null`);
  for (const method of ['GET', 'POST']) {
    const reply = await new Pages(server.base).ask(old, { method });
    assert.equal(reply.status, 410);
    assert.ok(reply.text.includes('<h1>This link has expired</h1>'), reply.text);
  }
  const short = await stack.key(one.id);
  const [open, taking] = [await made({ key: short }, { integration_id: 'probe' }), await made({ key: short }, { integration_id: 'probe' })];
  const { person, page } = await taken(taking.path);
  await stack.must(['keys', 'revoke', one.id, short.slice(0, 10)]);
  const before = await count(one);
  for (const [pages, path] of [[new Pages(server.base), open.path], [person, taking.path]]) {
    await until('the link has ended with its key', async () => (await pages.ask(path)).status === 410);
    assert.match((await pages.ask(path)).text, /was revoked/);
  }
  assert.equal((await person.press(page, 'Connect Probe', { token: GOOD })).status, 410);
  assert.equal(await count(one), before);
});

test('links that are refused', async () => {
  const cases = [
    [{}, 400],
    [{ integration_id: 'nosuchapp' }, 404],
    [{ integration_id: 'probe', force_reconnect: 'yes' }, 400],
    ...['http://agent.example/', 'javascript:alert(1)', '//agent.example', 'https://a b', 7, ''].map((return_url) => [
      { integration_id: 'probe', return_url },
      400,
    ]),
    [{ integration_id: 'probe', return_url: 'http://127.0.0.1:3000/back' }, 201],
    ...['x', 0, -1, 1.5, '1e3', true].map((connection_id) => [{ integration_id: 'probe', connection_id }, 400]),
    [{ integration_id: 'probe', connection_id: '12345' }, 404],
    ...['ada', '@example.com', '', 7, `a@${'x'.repeat(320)}`].map((email) => [{ integration_id: 'who', email }, 400]),
    ...['', 7, 'x'.repeat(256)].map((subject) => [{ integration_id: 'who', subject }, 400]),
    [{ integration_id: 'probe', email: 'ada@example.com' }, 400], // it cannot say who signed in
    [{ integration_id: 'claimed', email: 'ada@example.com' }, 400], // it returns only a subject
    [{ integration_id: 'claimed', subject: 'ada' }, 201],
  ];
  for (const [body, status] of cases) assert.equal((await link(two.key, body)).status, status, JSON.stringify(body));
  const theirs = (await server.call(one.key, 'GET', '/api/connections?integration_id=strict')).json.connections[0].id;
  for (const [key, integration_id] of [[two.key, 'strict'], [one.key, 'probe']])
    assert.equal((await link(key, { integration_id, connection_id: theirs })).status, 404, 'of another account, of another app');
  const many = await stack.account('many', { apps: [] });
  assert.equal((await link(many.key, { integration_id: 'probe', force_reconnect: true })).status, 201, 'there is none, so it makes the first');
  const ids = [await stack.connect(many.id, 'probe', { token: GOOD }), await stack.connect(many.id, 'probe', { token: GOOD }, ['--label', 'second'])];
  assert.equal((await link(many.key, { integration_id: 'probe', force_reconnect: true })).status, 201, 'the default one');
  await stack.cluster.sql(`update sluice.connection set is_default = false where account_id = '${many.id}'`);
  const ambiguous = await link(many.key, { integration_id: 'probe', force_reconnect: true });
  assert.equal(ambiguous.status, 409);
  assert.ok(ids.every((id) => ambiguous.json.error.includes(id)), ambiguous.text);
  assert.doesNotMatch(ambiguous.text, /second/, 'a label is data from outside');
  assert.equal((await link(many.key, { integration_id: 'probe', connection_id: Number(ids[1]) })).status, 201);
  const reader = await stack.key(two.id, ['--scopes', 'read']);
  assert.equal((await link(reader, { integration_id: 'probe' })).status, 403);
});

test('connections through the API: listed without credentials, changed, deleted', async () => {
  const all = await server.call(one.key, 'GET', '/api/connections');
  assert.equal(all.status, 200);
  assert.ok(all.json.connections.length >= 3 && !all.text.includes(GOOD));
  const { connections } = (await server.call(one.key, 'GET', '/api/connections?integration_id=probe')).json;
  assert.deepEqual(connections.map((each) => [each.integration_id, each.default, each.status]), [['probe', false, 'live']]);
  const path = `/api/connections/${connections[0].id}`;
  const reader = await stack.key(one.id, ['--scopes', 'read']);
  assert.deepEqual((await server.call(reader, 'GET', path)).json, connections[0]);
  const foreign = await server.call(two.key, 'GET', path);
  assert.deepEqual([foreign.status, foreign.json], [404, { error: 'Connection not found' }]);
  for (const id of ['1', '0', '-1', 'x', '9223372036854775808', `${connections[0].id}%00`, `+${connections[0].id}`])
    assert.ok([404, 400].includes((await server.call(one.key, 'GET', `/api/connections/${id}`)).status), id);
  const executor = await stack.key(one.id, ['--scopes', 'execute']);
  assert.equal((await server.call(executor, 'GET', path)).status, 403);
  const changed = await server.call(one.key, 'PATCH', path, { label: 'by hand', default: true });
  assert.deepEqual([changed.status, changed.json.label, changed.json.default], [200, 'by hand', true]);
  const { events } = (await server.call(one.key, 'GET', '/api/audit?limit=2')).json; // each change is an event
  assert.deepEqual(events.map((event) => event.kind), ['connection.default_set', 'connection.renamed']);
  for (const body of [{}, { label: '' }, { label: 'a\nb' }, { label: 7 }, { default: false }, { label: 'x'.repeat(201) }])
    assert.equal((await server.call(one.key, 'PATCH', path, body)).status, 400, JSON.stringify(body));
  for (const key of [two.key]) {
    assert.equal((await server.call(key, 'PATCH', path, { label: 'mine' })).status, 404);
    assert.equal((await server.call(key, 'DELETE', path)).status, 404);
  }
  for (const key of [reader, executor]) assert.equal((await server.call(key, 'DELETE', path)).status, 403);
  assert.equal((await server.call(one.key, 'DELETE', path)).status, 200);
  for (const method of ['GET', 'DELETE']) assert.equal((await server.call(one.key, method, path)).status, 404);
  assert.equal((await server.call(one.key, 'DELETE', '/api/connections/x')).status, 404);
  const run = await server.execute(one.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(run.json.error_code, 'integration_not_connected');
});

// Must be the last test: it slows down the address that all tests here use.
test('guessing keys is slowed down', async () => {
  const pages = new Pages(server.base);
  const page = await pages.ask('/sign-in');
  const began = Date.now();
  const tries = await Promise.all(Array.from({ length: 40 }, () => pages.press(page, 'Sign in', { key: 'sk_wrong' })));
  const slowed = tries.filter((one) => one.status === 429);
  const most = 10 + Math.ceil((Date.now() - began) / 1000); // a burst of ten, then one per second
  assert.ok(slowed.length >= 40 - most, `${slowed.length} of 40`);
  for (const one of slowed) assert.equal(one.headers.get('retry-after'), '1');
});
