// Failures during the return from an app's consent page, in headless Chromium with an authorization
// server that misbehaves. Each failure is reported clearly, with advice. Nothing is connected that
// should not be, and no code, token or secret is in a page or in the log. Also the links for end
// users (POST /api/connect/sessions): each is for one app, can be used once, and leads back to
// where the user came from.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { CLIENT, Consent } from './support/consent.mjs';
import { Dashboard, PHONE } from './support/dashboard.mjs';
import { clientOf } from './support/oidc.mjs';
import { credentials } from './support/stack.mjs';

let consent, dashboard, account;

before(async () => {
  consent = await Consent.start();
  dashboard = await Dashboard.start({ oidc: true, apps: [consent.manifest('picky')] });
  account = await dashboard.account('consent', { apps: [] });
});
after(async () => {
  try {
    const elsewhere = [consent.url, dashboard.oidc.url, 'https://fonts.googleapis.com:443'];
    const secrets = { client: CLIENT.secret, mail: clientOf('sluice').client_secret, key: account.key, probe: credentials.probe.token };
    for (const [i, token] of (dashboard.tokens ?? []).entries()) secrets[`token ${i}`] = token;
    // the callback's URL in the browser has the code; that page and later pages do not show it
    const shown = (one, name) => name.startsWith('sentinel-code') && new URL(one.url).pathname === '/connect/callback' && !`${JSON.stringify(one.headers)}${one.body}`.includes(name);
    dashboard.judge({ ...secrets, ...consent.secrets }, { elsewhere, shown });
    for (const [name, secret] of Object.entries({ ...secrets, ...consent.secrets })) assert.ok(!dashboard.server.log.includes(secret), `${name} is in the log`);
  } finally {
    await dashboard?.stop();
    await consent?.stop();
  }
});

const connections = async (what = '') => Number(await dashboard.stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${account.id}' ${what}`));
const run = (action_id) => dashboard.call(account, 'POST', '/api/executions', { integration_id: 'picky', action_id, input: {} });

async function toConsent(visit) {
  await visit.goto('/integrations/picky');
  assert.deepEqual(await visit.page.locator('.may li').allInnerTexts(), ['See your <b>files</b>', 'Change your files']);
  await visit.press('Connect Picky Files');
  assert.ok(visit.page.url().startsWith(consent.url), visit.page.url());
}

// Checks that the page says what happened and what to do, and that nothing is connected.
async function fails(visit, ...texts) {
  assert.equal(await visit.title(), 'Not connected');
  for (const text of texts) await visit.sees(text);
  assert.equal(await connections(`and integration_id = 'picky'`), 0);
}

test('an app without an OAuth client: the page says so, the client is entered there, then the app connects', async () => {
  const visit = await dashboard.signIn(account);
  await visit.goto('/integrations/picky');
  await visit.sees('this server does not have one yet');
  await visit.sees(`${dashboard.base}/connect/callback`);
  assert.equal(await visit.page.getByRole('button', { name: 'Connect Picky' }).count(), 0);
  await visit.isAccessible();
  await visit.page.getByLabel('Client id').fill(CLIENT.id);
  await visit.page.getByLabel('Client secret').fill(CLIENT.secret);
  await visit.press('Save the client');
  await visit.sees('OAuth client saved.');
  await toConsent(visit);
  await visit.end();
});

test('refused at the consent page', async () => {
  const visit = await dashboard.signIn(account);
  await toConsent(visit);
  await visit.press('Deny');
  await fails(visit, 'the permission was refused there', 'try again and allow it');
  await visit.isAccessible();
  assert.ok(!(await visit.page.content()).includes('told you'), 'text of the redirect is not repeated'); // words: ok
  await visit.press('Try again');
  assert.equal(new URL(visit.page.url()).pathname, '/integrations/picky');
  await visit.end();
});

test('an answer of another issuer is not used', async () => {
  const visit = await dashboard.signIn(account);
  const before = consent.asked;
  for (const iss of ['https://evil.example', 'nonsense', `${consent.url}.evil.example`]) {
    consent.behave({ iss });
    await toConsent(visit);
    await visit.press('Allow');
    await fails(visit, 'did not come from Picky Files', 'Start again');
  }
  consent.behave();
  assert.equal(consent.asked, before, 'no code was sent');
  await visit.end();
});

test('a token endpoint that refuses, fails or talks nonsense', async () => {
  const visit = await dashboard.signIn(account);
  for (const [status, text] of [[400, '{"error":"invalid_grant","error_description":"<img src=x onerror=alert(1)>"}'], [401, '{"error":"invalid_client"}'], [200, '{"access_token": nonsense'], [200, '{}']]) {
    consent.behave({ token: [status, text] });
    await toConsent(visit);
    await visit.press('Allow');
    await fails(visit, 'Picky Files could not be connected');
  }
  consent.behave();
  await visit.end();
});

test('a state is good once, and only for the session that began', async () => {
  const visit = await dashboard.signIn(account);
  const other = await dashboard.signIn(account);
  await toConsent(visit);
  // another session of the account opens the callback's URL first
  consent.behave({ isSlow: true });
  await visit.press('Allow');
  consent.behave();
  const { pathname, search } = new URL(await visit.page.getByRole('link', { name: 'On' }).getAttribute('href'));
  await other.goto(pathname + search);
  await fails(other, 'was not started here', 'Connect the app again');
  for (const wrong of ['/connect/callback', '/connect/callback?code=x', `/connect/callback?state=${'A'.repeat(43)}&code=x`]) {
    await other.goto(wrong);
    await fails(other, 'was not started here');
  }
  await visit.press('On');
  await visit.sees('Connected.');
  assert.equal(await connections(`and integration_id = 'picky'`), 1);
  await visit.goto(pathname + search);
  assert.equal(await visit.title(), 'Not connected');
  await visit.sees('was already finished');
  assert.equal(await connections(`and integration_id = 'picky'`), 1);
  await dashboard.stack.cluster.sql(`delete from sluice.connection where account_id = '${account.id}'`);
  await visit.end();
  await other.end();
});

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]])
  test(`a box unticked, no refresh token: reported, shown, fixed by reconnecting; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    consent.behave({ hasRefresh: false });
    await toConsent(visit);
    await visit.page.getByLabel('files.write').uncheck();
    await visit.press('Allow');
    assert.equal(await visit.title(), 'Connected, but not everything was granted');
    await visit.sees('Missing: Change your files.');
    await visit.sees('issued no refresh token');
    await visit.fits();
    await visit.press('Continue');
    assert.match(new URL(visit.page.url()).pathname, /^\/connections\/\d+$/);
    await visit.sees(/files\.read\s+granted/);
    await visit.sees(/files\.write\s+not granted/);
    await visit.sees('Actions refused without these permissions (1 of 2): Change a file.');
    await visit.sees('the app issued no refresh token');
    const page = new URL(visit.page.url()).pathname;
    await visit.goto('/integrations/picky/actions/change');
    await visit.sees(/lacks a permission for this action[\s\S]*Change your files files\.write/);
    await visit.goto('/integrations/picky');
    await visit.sees(/Change a file\s+not granted\s+read/);
    await visit.goto(page);
    await visit.sees('not used yet');
    await visit.fits();
    assert.equal((await run('look')).json.status, 'succeeded');
    const refused = await run('change');
    assert.deepEqual([refused.json.status, refused.json.error_code], ['blocked', 'forbidden']);
    consent.behave();
    await visit.press('Reconnect');
    await visit.press('Allow');
    await visit.sees('Reconnected.');
    await visit.sees('automatic, before the token expires');
    assert.ok(!(await visit.text()).includes('not granted'));
    await until('its use is reported', async () => {
      await visit.page.reload();
      return !(await visit.text()).includes('not used yet');
    });
    assert.equal((await run('change')).json.status, 'succeeded');
    await visit.press('Disconnect');
    await visit.press('Disconnect');
    await visit.sees('Connection deleted.');
    await visit.end();
  });

for (const [how, options] of [['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]])
  test(`the client was deleted before a reconnect: reported, entered on that page, and continued; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    await toConsent(visit);
    await visit.press('Allow');
    await visit.sees('Connected.');
    const id = await dashboard.stack.cluster.sql(`select id from sluice.connection where account_id = '${account.id}'`);
    const page = `/connections/${String(id).trim()}`;
    await dashboard.stack.cluster.sql(`delete from sluice.oauth_client where account_id = '${account.id}'`);
    await visit.goto(page);
    await visit.press('Reconnect');
    await visit.sees('Nothing was changed. This server has no working OAuth client for Picky Files');
    await visit.sees(`${dashboard.base}/connect/callback`);
    await visit.fits();
    if (options === PHONE) await visit.isAccessible();
    await visit.press(/^Back to /);
    assert.equal(new URL(visit.page.url()).pathname, page);
    await visit.press('Reconnect');
    await visit.page.getByLabel('Client id').fill(CLIENT.id);
    await visit.page.getByLabel('Client secret').fill(CLIENT.secret);
    await visit.press('Save the client');
    assert.equal(new URL(visit.page.url()).pathname, page);
    await visit.sees('OAuth client saved.');
    await visit.press('Reconnect');
    await visit.press('Allow');
    await visit.sees('Reconnected.');
    assert.equal(await connections(`and integration_id = 'picky'`), 1);
    await visit.press('Disconnect');
    await visit.press('Disconnect');
    await visit.end();
  });

test('the client was deleted: a user who may not set one learns who may', async () => {
  const admin = await dashboard.signIn(account);
  await admin.goto('/integrations/picky');
  const reader = await dashboard.browser.visit(dashboard.base);
  await reader.goto(await link('picky'));
  await dashboard.stack.cluster.sql(`delete from sluice.oauth_client where account_id = '${account.id}'`);
  await admin.press('Connect Picky Files');
  await admin.sees('This server has no working OAuth client for Picky Files');
  await reader.press('Continue');
  await reader.sees('This server has no working OAuth client for Picky Files');
  await reader.sees('Ask the sender of this link to set up the client');
  assert.equal(await reader.page.getByLabel('Client id').count(), 0);
  await reader.press('Back to Picky Files');
  await reader.sees('You are giving consent access to Picky Files');
  await admin.page.getByLabel('Client id').fill(CLIENT.id);
  await admin.page.getByLabel('Client secret').fill(CLIENT.secret);
  await admin.press('Save the client');
  assert.equal(new URL(admin.page.url()).pathname, '/integrations/picky');
  await reader.end();
  await admin.end();
});

/* ---- links for end users ---- */

async function link(integration_id, body = {}) {
  const reply = await dashboard.call(account, 'POST', '/api/connect/sessions', { integration_id, ...body });
  assert.equal(reply.status, 201, reply.text);
  return new URL(reply.json.url).pathname;
}

async function isConfined(visit) {
  const { id } = JSON.parse(await dashboard.stack.must(['keys', 'list', account.id, '--json']))[0];
  for (const path of ['/', '/flows', '/flows/new', '/executions', '/integrations', '/integrations/probe', '/keys', '/connections/1', `/keys/${id}/revoke`]) {
    await visit.goto(path);
    assert.match(await visit.title(), /^Sign in$|^Method not allowed$/, path);
  }
}

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]])
  test(`a link, ${how}: an OAuth app, a key app, and back to where it came from`, async () => {
    const back = `${consent.url}/back`;
    for (const integration_id of ['picky', 'probe']) {
      const name = integration_id === 'picky' ? 'Picky Files' : 'Probe';
      const path = await link(integration_id, { return_url: back });
      const visit = await dashboard.browser.visit(dashboard.base, options);
      for (let looks = 0; looks < 3; looks++) await visit.goto(path);
      assert.equal(await visit.title(), `consent asks you to connect ${name}`);
      const ends = await dashboard.stack.cluster.sql('select floor(extract(epoch from expires_at)) from sluice.connect_session order by created_at desc limit 1');
      assert.equal(Math.floor(Date.parse(await visit.page.locator('main time').getAttribute('datetime')) / 1000), Number(ends), 'until when it works');
      await visit.sees(`You are giving consent access to ${name} on your behalf.`);
      if (integration_id === 'picky') {
        await visit.page.getByText('Read: 2 permissions').click();
        assert.deepEqual(await visit.page.locator('.may li').allInnerTexts(), ['See your <b>files</b> files.read', 'Change your files files.write']);
        await visit.sees('Next, Picky Files will ask for your permission at 127.0.0.1.');
        assert.doesNotMatch(await visit.text(), /Requested only if/, 'it has no optional scopes');
      }
      await visit.sees(integration_id === 'picky' ? /Read: Change a file; Look at a file$/m : /Write: Send$/m);
      assert.equal(await visit.page.getByRole('link', { name: 'No', exact: true }).getAttribute('href'), back);
      await visit.sees(`You can return to ${back}`);
      await visit.fits();
      if (how === 'with JavaScript') await visit.isAccessible();
      consent.behave({ login: 'bob@example.com' });
      await visit.press('Continue');
      // where nothing is to be chosen, the button leads to the app
      if (integration_id === 'picky') {
        await visit.press('Allow');
      } else {
        assert.equal(new URL(visit.page.url()).pathname, path);
        assert.equal(await visit.page.getByRole('navigation').count(), 0);
        await visit.page.getByLabel('Token', { exact: true }).fill(credentials.probe.token);
        await visit.press('Connect Probe');
      }
      assert.equal(await visit.title(), `Connected: ${name}`);
      await visit.sees(integration_id === 'picky' ? 'consent now has access to Picky Files, as bob@example.com.' : 'consent now has access to Probe');
      await visit.sees(`To end this access, ask consent to disconnect it, or revoke it in ${name} itself.`);
      await visit.fits();
      if (how === 'with JavaScript') await visit.isAccessible();
      assert.equal(await visit.page.getByRole('button').count(), 0);
      if (integration_id === 'probe' && how === 'without JavaScript') await isConfined(visit);
      await visit.goto(path);
      await visit.press('Go back');
      assert.equal(visit.page.url(), back);
      // the link was opened once, so it does not work in another browser
      const other = await dashboard.browser.visit(dashboard.base, options);
      await other.goto(path);
      assert.equal(await other.title(), 'This link has been used');
      await other.sees('Ask consent for a new link.');
      await other.end();
      await visit.end();
    }
    const late = await link('probe');
    await dashboard.stack.cluster.sql(`update sluice.connect_session set expires_at = now() - interval '1 second'`);
    const visit = await dashboard.browser.visit(dashboard.base, options);
    await visit.goto(late);
    assert.equal(await visit.title(), 'This link has expired');
    await visit.end();
    consent.behave();
    await dashboard.stack.cluster.sql(`delete from sluice.connection where account_id = '${account.id}'`);
  });

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }]])
  test(`a link for one mailbox, ${how}: another one is refused, and the right one is connected and later reconnected`, async () => {
    const visit = await dashboard.browser.visit(dashboard.base, options);
    const connect = async (login, button) => {
      consent.behave({ login });
      await visit.press(button);
      await visit.press('Allow');
    };
    await visit.goto(await link('picky', { email: 'ada@example.com' }));
    await visit.sees('Only ada@example.com can be connected with this link.');
    await connect('bob@example.com', 'Continue');
    assert.equal(await visit.title(), 'Not connected');
    await visit.sees('This link is for ada@example.com, but the login at Picky Files is bob@example.com.');
    await visit.fits();
    assert.equal(await connections(), 0);
    await visit.press('Try again');
    await connect(null, 'Connect Picky Files');
    await visit.sees('but the login at Picky Files could not be determined');
    assert.equal(await connections(), 0);
    await visit.press('Try again');
    await connect('ada@example.com', 'Connect Picky Files');
    await visit.sees('consent now has access to Picky Files, as ada@example.com.');
    assert.equal(await connections(`and identity_email = 'ada@example.com'`), 1);
    // the same connection again, with another login
    await visit.goto(await link('picky', { force_reconnect: true }));
    await visit.sees('which acts as ada@example.com');
    await connect('bob@example.com', 'Continue');
    await visit.sees('This connection acts as ada@example.com, but the login at Picky Files is bob@example.com.');
    await visit.press('Try again');
    await connect('ada@example.com', 'Reconnect');
    await visit.sees('consent now has access to Picky Files, as ada@example.com.');
    assert.equal(await connections(), 1);
    consent.behave();
    await dashboard.stack.cluster.sql(`delete from sluice.connection where account_id = '${account.id}'`);
    await visit.end();
  });
