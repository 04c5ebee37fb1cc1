// The dashboard's connecting half without a browser: apps, forms tested before anything is stored,
// OAuth through oidc-provider's real consent pages, links for end users, keys; and what must be
// refused: other sites' forms, other accounts, links used twice, too many sign-ins.
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
    oidc.manifest('machine', { type: 'oauth2_client_credentials', auth: { test: { method: 'GET', path: '/me' } } }),
  ];
  for (const manifest of manifests)
    await writeFile(join(catalog, `${manifest.integration_id}.json`), JSON.stringify(manifest));
  await copyFile(join(import.meta.dirname, 'support/catalog/probe.json'), join(catalog, 'probe.json'));
  const env = { SLUICE_CATALOG: catalog };
  await stack.must(['oauth-clients', 'set', 'strict', '--client-id', 'sluice', '--client-secret-file', '-'], {
    env,
    input: `${clientOf('sluice').client_secret}\n`,
  });
  server = await stack.serve({ args: ['--allow-host', '127.0.0.1', '--public-url', PUBLIC], env });
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
// The page of a connection, by its label on its app's page.
const connectionOf = (pages, app, label) => pages.go(linkOf(app.text, label));
const events = (account, kind) =>
  stack.cluster
    .sql(`select count(*) from sluice.audit_event where account_id = '${account.id}' and kind = '${kind}'`)
    .then(Number);

test('without a session every page leads to the sign-in, and a wrong key is refused', async () => {
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

test('a key app through its form: what the app refuses is not stored, what it takes works', async () => {
  const pages = await signedIn(one);
  const page = await pages.go('/integrations/probe');
  const refused = await pages.press(page, 'Connect Probe', { token: BAD });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /Nothing was stored/);
  assert.ok(!refused.text.includes(BAD));
  assert.equal(await count(one), 0);
  assert.equal((await pages.press(page, 'Connect Probe', { token: '' })).status, 400);
  // A login page answers 200 to the test request, whatever the credential.
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

test('the last use and the last failure are told soon, and on a clean way down', async () => {
  const listed = async (node) => (await node.call(one.key, 'GET', '/api/connections?integration_id=probe')).json.connections[0];
  await until('the use is told', async () => (await listed(server)).last_used_at);
  const first = await listed(server);
  assert.deepEqual([first.failed_at, first.failure], [null, null]);
  const bad = await server.execute(one.key, 'probe', 'read_label', { id: 'NONE' });
  assert.equal(bad.status, 500, bad.text);
  // within the minute only a server that leaves tells it
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
  assert.match(page.text, /The connection is changed/);
  assert.equal(await count(one, `and is_default and label = 'second'`), 1);
  page = await pages.press(page, 'Save the label', { label: 'renamed' });
  assert.equal(await count(one, `and label = 'renamed'`), 1);
  const refused = await pages.press(page, 'Reconnect renamed', { token: BAD });
  assert.equal(refused.status, 400, refused.text);
  page = await pages.press(page, 'Reconnect renamed', { token: GOOD });
  assert.match(page.text, /Connected again/);
  assert.match(page.path, /^\/connections\//);
  page = await pages.go(linkOf(page.text, 'Disconnect'));
  page = await pages.press(page, 'Disconnect');
  assert.match(page.text, /The connection is deleted/);
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

test('OAuth: consent connects; a state is good once and for its session; a denial is told', async () => {
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
  assert.match(stolen.text, /was not begun here/);
  assert.equal(await count(two), 0);

  const done = await pages.go(path);
  assert.equal(done.path, '/integrations/strict?notice=connected', done.text);
  const granted = await connectionOf(pages, done, 'by consent');
  assert.match(granted.text, /<code>notes\.read<\/code><span class="badge ok">granted/);
  assert.match(granted.text, /by itself, before the token ends/);
  assert.equal((await server.execute(one.key, 'strict', 'read_me', {})).status, 200);
  assert.equal((await pages.go(path)).status, 400);

  const again = await pages.press(granted, 'Reconnect by consent', {}, { follow: false });
  const second = await oidc.consent(again.location, { login: 'sam' });
  const reconnected = await pages.go(`/connect/callback${new URL(second.url).search}`);
  assert.match(reconnected.text, /Connected again/);
  assert.equal(await count(one, `and integration_id = 'strict'`), 1);

  const third = await pages.press(done, 'Connect App strict', {}, { follow: false });
  const no = await oidc.consent(third.location, { login: 'sam', deny: true });
  const denied = await pages.go(`/connect/callback${new URL(no.url).search}`);
  assert.equal(denied.status, 400);
  assert.match(denied.text, /access_denied/);
});

test('an account brings an OAuth client of its own; its secret is in no page', async () => {
  const pages = await signedIn(two);
  let page = await pages.go('/integrations/bare');
  assert.match(page.text, /needs an OAuth client there, and has none yet/);
  assert.ok(page.text.includes(`<code>${PUBLIC}/connect/callback</code>`));
  const own = formsOf(page.text).flatMap((form) => form.buttons);
  assert.ok(!own.includes('Connect App bare') && own.includes('Save the client'), 'no button that could only fail');
  const { fields } = formsOf(page.text).find((form) => form.fields.csrf);
  const forced = await pages.go('/integrations/bare/connect', { method: 'POST', fields: { csrf: fields.csrf } });
  assert.equal(forced.status, 400, forced.text);
  const { client_id, client_secret } = clientOf('sluice');
  page = await pages.press(page, 'Save the client', { client_id, client_secret });
  assert.match(page.text, /client is saved/);
  assert.ok(!page.text.includes(client_secret));
  const sent = await pages.press(page, 'Connect App bare', {}, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'kim' });
  const done = await pages.go(`/connect/callback${new URL(back.url).search}`);
  assert.match(done.text, /Connected/);
  page = await pages.press(done, 'Delete the client');
  assert.match(page.text, /has none yet/);
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

test('keys: shown once, marked, revoked at once; none has more scopes than its maker', async () => {
  const pages = await signedIn(two);
  const list = await pages.go('/keys');
  assert.match(list.text, /you are signed in with it/);
  const made = await pages.press(list, 'Create the key', { name: HOSTILE, 'scope.read': 'yes', expires: '30' });
  assert.equal(made.status, 201, made.text);
  const key = made.text.match(/sk_[\w-]{43}/)[0];
  assert.equal((await server.call(key, 'GET', '/api/integrations')).status, 200);
  const page = await pages.go('/keys');
  assert.ok(!page.text.includes(key) && page.text.includes(key.slice(0, 10)) && !page.text.includes('<img'));
  const question = await pages.go(linkOf(page.text, `Revoke ${HOSTILE} ${key.slice(0, 10)}`));
  assert.ok(!question.text.includes('<img'));
  const gone = await pages.press(question, 'Revoke the key');
  assert.match(gone.text, /The key is revoked/);
  assert.equal((await server.call(key, 'GET', '/api/integrations')).status, 401);
  for (const kind of ['created', 'revoked']) assert.equal(await events(two, `key.${kind}`), kind === 'created' ? 2 : 1);

  const limited = await signedIn({ key: await stack.key(two.id, ['--scopes', 'read,admin']) });
  const form = formsOf((await limited.go('/keys')).text).find((each) => each.action === '/keys');
  assert.ok(!form.names.includes('scope.execute'));
  const fields = { csrf: form.fields.csrf, name: 'more', 'scope.execute': 'yes', expires: 'never' };
  assert.equal((await limited.ask('/keys', { method: 'POST', fields })).status, 400);
  const stranger = await signedIn(one);
  const csrf = formsOf((await stranger.go('/keys')).text).find((each) => each.action === '/keys').fields.csrf;
  assert.equal((await stranger.ask(question.path, { method: 'POST', fields: { csrf } })).status, 404);
  assert.equal((await stranger.ask(question.path)).status, 404);
  assert.equal((await pages.go('/keys')).status, 200);
});

const link = (key, body) => server.call(key, 'POST', '/api/connect/sessions', body);

test('a connect link: looked at, followed once, good for one app only', async () => {
  const made = await link(two.key, { integration_id: 'probe', return_url: 'https://agent.example/done' });
  assert.equal(made.status, 201, made.text);
  assert.ok(made.json.url.startsWith(`${PUBLIC}/connect/`));
  const { pathname } = new URL(made.json.url);
  const scanner = new Pages(server.base);
  for (let looks = 0; looks < 3; looks++) assert.equal((await scanner.ask(pathname)).status, 200);
  const person = new Pages(server.base);
  const page = await person.ask(pathname);
  assert.match(page.text, /https:\/\/agent\.example\/done/);
  const evil = await person.ask(pathname, { method: 'POST', headers: { origin: 'https://evil.example' } });
  assert.equal(evil.status, 403);
  let app = await person.press(page, 'Go on');
  assert.equal(app.path, '/integrations/probe');
  const token = pathname.split('/').at(-1);
  assert.ok(!app.text.includes(token));
  for (const path of ['/', '/integrations', '/integrations/strict', '/flows', '/keys'])
    assert.equal((await person.go(path)).status, 403, path);
  app = await person.press(app, 'Connect Probe', { token: GOOD });
  assert.match(app.text, /role="status">Connected/);
  assert.match(app.text, /href="https:\/\/agent\.example\/done"/);
  assert.equal(await count(two, `and integration_id = 'probe'`), 1);
  // a thief who has the link now, and a thief who had only guessed
  for (const path of [pathname, `/connect/${token.slice(0, -4)}AAAA`, '/connect/x']) {
    assert.equal((await scanner.ask(path)).status, 404);
    assert.equal((await scanner.ask(path, { method: 'POST' })).status, 404);
  }
  const stored = await stack.cluster.sql('select count(*) from sluice.connect_session');
  assert.equal(stored, '0');
});

test('a link for OAuth; one that is too old; one whose key is revoked', async () => {
  const made = await link(one.key, { integration_id: 'strict', force_reconnect: true });
  const person = new Pages(server.base);
  const first = await person.ask(new URL(made.json.url).pathname);
  assert.match(first.text, /<h1>Reconnect App strict/);
  const app = await person.press(first, 'Go on');
  const sent = await person.press(app, 'Connect App strict', {}, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'pat' });
  const done = await person.go(`/connect/callback${new URL(back.url).search}`);
  assert.match(done.text, /Connected/);

  const old = new URL((await link(one.key, { integration_id: 'probe' })).json.url).pathname;
  await stack.cluster.sql(`update sluice.connect_session set expires_at = now() - interval '1 second'`);
  assert.equal((await person.ask(old)).status, 404);

  const short = await stack.key(one.id);
  const { pathname } = new URL((await link(short, { integration_id: 'probe' })).json.url);
  const other = new Pages(server.base);
  await other.press(await other.ask(pathname), 'Go on');
  assert.equal((await other.ask('/integrations/probe')).status, 200);
  await stack.must(['keys', 'revoke', one.id, short.slice(0, 10)]);
  await until('the session has ended with its key', async () => (await other.ask('/integrations/probe')).status === 303);
});

test('what a link is refused for', async () => {
  const cases = [
    [{}, 400],
    [{ integration_id: 'nosuchapp' }, 404],
    [{ integration_id: 'probe', force_reconnect: 'yes' }, 400],
    ...['http://agent.example/', 'javascript:alert(1)', '//agent.example', 'https://a b', 7, ''].map((return_url) => [
      { integration_id: 'probe', return_url },
      400,
    ]),
    [{ integration_id: 'probe', return_url: 'http://127.0.0.1:3000/back' }, 201],
  ];
  for (const [body, status] of cases) assert.equal((await link(two.key, body)).status, status, JSON.stringify(body));
  const reader = await stack.key(two.id, ['--scopes', 'read']);
  assert.equal((await link(reader, { integration_id: 'probe' })).status, 403);
});

test('connections by the interface: listed without credentials, changed, deleted', async () => {
  const all = await server.call(one.key, 'GET', '/api/connections');
  assert.equal(all.status, 200);
  assert.ok(all.json.connections.length >= 3 && !all.text.includes(GOOD));
  const { connections } = (await server.call(one.key, 'GET', '/api/connections?integration_id=probe')).json;
  assert.deepEqual(connections.map((each) => [each.integration_id, each.default, each.status]), [['probe', false, 'live']]);
  const path = `/api/connections/${connections[0].id}`;
  const changed = await server.call(one.key, 'PATCH', path, { label: 'by hand', default: true });
  assert.deepEqual([changed.status, changed.json.label, changed.json.default], [200, 'by hand', true]);
  const { events } = (await server.call(one.key, 'GET', '/api/audit?limit=2')).json; // each change is one
  assert.deepEqual(events.map((event) => event.kind), ['connection.default_set', 'connection.renamed']);
  for (const body of [{}, { label: '' }, { label: 'a\nb' }, { label: 7 }, { default: false }, { label: 'x'.repeat(201) }])
    assert.equal((await server.call(one.key, 'PATCH', path, body)).status, 400, JSON.stringify(body));
  for (const key of [two.key]) {
    assert.equal((await server.call(key, 'PATCH', path, { label: 'mine' })).status, 404);
    assert.equal((await server.call(key, 'DELETE', path)).status, 404);
  }
  const executor = await stack.key(one.id, ['--scopes', 'read,execute']);
  assert.equal((await server.call(executor, 'DELETE', path)).status, 403);
  assert.equal((await server.call(one.key, 'DELETE', path)).status, 200);
  assert.equal((await server.call(one.key, 'DELETE', path)).status, 404);
  assert.equal((await server.call(one.key, 'DELETE', '/api/connections/x')).status, 404);
  const run = await server.execute(one.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(run.json.error_code, 'integration_not_connected');
});

// Last: the address that is slowed down is that of all tests here.
test('guessing keys is slowed down', async () => {
  const pages = new Pages(server.base);
  const page = await pages.ask('/sign-in');
  const tries = await Promise.all(Array.from({ length: 40 }, () => pages.press(page, 'Sign in', { key: 'sk_wrong' })));
  const slowed = tries.filter((one) => one.status === 429);
  assert.ok(slowed.length > 10, `${slowed.length} of 40`);
  assert.equal(slowed[0].headers.get('retry-after'), '1');
});
