// An app that can be connected in several ways, and scopes that a person ticks
// (contrib/integrations/README.md "auth"): a connection keeps the way in which it was connected,
// reconnecting can change it, and the refusal of an action without its scope quotes the checkbox.
// In headless Chromium, with an authorization server that shows checkboxes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CLIENT, Consent } from './support/consent.mjs';
import { Dashboard } from './support/dashboard.mjs';

const KEY = 'sentinel-choice-key-47';
const basic = `Basic ${Buffer.from(`sam:${KEY}`).toString('base64')}`;
let consent, dashboard, account;

function manifest() {
  const app = consent.manifest('choice');
  const { test: _, ...oauth } = app.auth;
  app.name = 'Choice';
  app.auth = [
    { ...oauth, name: 'Sign in', optional_scopes: { 'files.purge': 'Purge files for good' } },
    {
      type: 'basic', name: 'API token', test: { method: 'GET', path: '/file' },
      form: {
        username: { label: 'Login <email>' },
        password: { label: 'API token', help: 'Made under "Settings" & kept there.', placeholder: 'ct_"0"', docs_url: 'https://docs.example/tokens?a=1&b=2' },
      },
    },
  ];
  app.actions.push({ ...app.actions[0], action_id: 'purge', title: 'Purge a file', scopes: ['files.purge'] });
  return app;
}

before(async () => {
  consent = await Consent.start();
  consent.key = basic;
  dashboard = await Dashboard.start({ oidc: true, apps: [manifest()] });
  account = await dashboard.account('choice', { apps: [] });
});
after(async () => {
  try {
    const shown = (one, name) => name.startsWith('sentinel-code') && new URL(one.url).pathname === '/connect/callback';
    dashboard.judge({ key: KEY, client: CLIENT.secret, ...consent.secrets }, { elsewhere: [consent.url, dashboard.oidc.url, 'https://fonts.googleapis.com:443'], shown });
  } finally {
    await dashboard?.stop();
    await consent?.stop();
  }
});

const env = () => ({ SLUICE_CATALOG: `${dashboard.stack.dir}/catalog` });
const rows = () => dashboard.stack.cluster.sql(`select auth_kind, coalesce(scopes, '-') from sluice.connection where account_id = '${account.id}' and integration_id = 'choice' order by id`);
const run = (action_id) => dashboard.call(account, 'POST', '/api/executions', { integration_id: 'choice', action_id, input: {} });

test('the ways to connect and their forms are in the detail of an action', async () => {
  const { auth } = (await dashboard.call(account, 'GET', '/api/actions/choice/look')).json;
  assert.deepEqual(auth.map(({ type, name, form }) => [type, name, form.map((one) => one.name)]), [
    ['oauth2', 'Sign in', []], ['basic', 'API token', ['username', 'password']],
  ]);
  const empty = { help: null, placeholder: null, docs_url: null };
  assert.deepEqual(auth[1].form, [
    { name: 'username', label: 'Login <email>', ...empty, required: true },
    { name: 'password', label: 'API token', help: 'Made under "Settings" & kept there.', placeholder: 'ct_"0"', docs_url: 'https://docs.example/tokens?a=1&b=2', required: false },
  ]);
});

test('without an OAuth client the other ways are offered, and a typed credential works', async () => {
  const visit = await dashboard.signIn(account);
  await visit.goto('/integrations/choice');
  await visit.sees('this server does not have one yet');
  await visit.isAccessible();
  assert.equal(await visit.page.getByRole('button', { name: 'Connect Choice (Sign in)' }).count(), 0);
  const token = visit.page.getByLabel('API token');
  assert.equal(await token.getAttribute('placeholder'), 'ct_"0"');
  assert.equal(await token.getAttribute('type'), 'password');
  await visit.sees('Made under "Settings" & kept there.');
  assert.equal(await visit.page.getByRole('link', { name: 'Where to find it' }).getAttribute('href'), 'https://docs.example/tokens?a=1&b=2');
  await visit.page.getByLabel('Login <email>').fill('sam');
  await token.fill(KEY);
  await visit.press('Connect Choice (API token)');
  await visit.sees('Connected.');
  assert.equal((await run('look')).json.status, 'succeeded');
  assert.equal(consent.sent, basic);
  assert.equal((await run('purge')).json.status, 'succeeded', 'the app decides what a key may do');
  consent.key = 'Basic none';
  const refused = await run('look');
  assert.deepEqual([refused.json.status, refused.json.error_code], ['blocked', 'unauthorized'], 'a key is not renewed');
  await visit.end();
});

test('reconnecting by signing in makes it an OAuth connection; optional scopes are ticked', async () => {
  await dashboard.stack.must(['oauth-clients', 'set', 'choice', '--client-id', CLIENT.id, '--client-secret-file', '-'], { env: env(), input: `${CLIENT.secret}\n` });
  const visit = await dashboard.signIn(account);
  await visit.goto('/integrations/choice');
  await visit.press(/sam|Choice/, visit.page.locator('.list'));
  await visit.press(/^Reconnect .*\(Sign in\)/);
  assert.ok(visit.page.url().startsWith(consent.url), visit.page.url());
  assert.equal(await visit.page.getByLabel('files.purge').count(), 0, 'it is not requested');
  await visit.press('Allow');
  await visit.sees('Reconnected.');
  assert.equal((await rows()).trim(), 'oauth2|files.read files.write');
  assert.equal((await run('look')).json.status, 'succeeded');
  assert.match(consent.sent, /^Bearer /);
  const refused = await run('purge');
  assert.deepEqual([refused.json.status, refused.json.error_code], ['blocked', 'forbidden']);
  assert.match(refused.json.hint, /tick "Purge files for good"/);
  assert.deepEqual(refused.json.recommended_next_action, { tool: 'sluice.connect_app', input: { integration_id: 'choice', force_reconnect: true } });
  await visit.page.getByLabel(/Purge files for good/).check();
  await visit.page.getByRole('button', { name: /^Reconnect .*\(Sign in\)/ }).click();
  await visit.press('Allow');
  await visit.sees(/files\.purge\s+granted/);
  assert.ok(await visit.page.getByLabel(/Purge files for good/).isChecked(), 'it is still requested');
  assert.equal((await run('purge')).json.status, 'succeeded');
  await visit.isAccessible();
  await visit.end();
});

test('a link also offers the choice', async () => {
  const { json } = await dashboard.call(account, 'POST', '/api/connect/sessions', { integration_id: 'choice' });
  const visit = await dashboard.browser.visit(dashboard.base);
  await visit.goto(new URL(json.url).pathname);
  await visit.sees('Requested only if ticked on the next page: Purge files for good.');
  await visit.press('Continue');
  assert.doesNotMatch(await visit.text(), /Requested only if/);
  assert.equal(await visit.page.getByRole('button', { name: 'Connect Choice (API token)' }).count(), 1);
  await visit.page.getByLabel(/Purge files for good/).check();
  await visit.press('Connect Choice (Sign in)');
  await visit.press('Allow');
  await visit.sees('now has access to Choice');
  assert.equal((await rows()).trim().split('\n').at(-1), 'oauth2|files.read files.write files.purge');
  await visit.end();
});

test('the command line names the way', async () => {
  const add = (auth, credential) => dashboard.stack.sluice(['connections', 'add', account.id, 'choice', ...auth, '--credential-file', '-'], { env: env(), input: JSON.stringify(credential) });
  const wrong = await add(['--auth', 'api_key'], { api_key: 'x' });
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /--auth must be oauth2 or basic for Choice/);
  assert.match((await add([], { username: 'sam', password: KEY })).stderr, /access_token/);
  const good = await add(['--auth', 'basic'], { username: 'sam', password: KEY });
  assert.equal(good.code, 0, good.stderr);
  assert.match((await rows()).trim().split('\n').at(-1), /^basic/);
});
