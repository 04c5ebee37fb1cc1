// Connecting apps in headless Chromium: the mail app through the real consent pages of npm
// oidc-provider, and an app with a key through its form. An action that was blocked then succeeds.
// With JavaScript, without it, and on a phone. Keys are shown once, revoked, and refused.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Dashboard, PHONE } from './support/dashboard.mjs';
import { clientOf } from './support/oidc.mjs';
import { credentials } from './support/stack.mjs';

const MAILBOX = 'sam.rivera@example.com'; // the user that the app reports
const WRONG = 'wrong-token-0123456789';

let dashboard;
const secrets = { client: clientOf('sluice').client_secret, probe: credentials.probe.token, wrong: WRONG };

before(async () => {
  dashboard = await Dashboard.start({ oidc: true });
});
after(async () => {
  try {
    // its pages load a Google font, which the recorder refuses
    const elsewhere = [dashboard.oidc.url, 'https://fonts.googleapis.com:443'];
    for (const [i, token] of dashboard.tokens.entries()) secrets[`token ${i}`] = token;
    // only the reply to the form of a new key shows the key
    const shown = (one, name) => name.startsWith('new key') && one.method === 'POST' && one.url.endsWith('/keys/new');
    dashboard.judge(secrets, { elsewhere, shown });
  } finally {
    await dashboard?.stop();
  }
});

const list = (account) =>
  dashboard.call(account, 'POST', '/api/executions', {
    integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 2 },
  });

async function connectMail(visit, account) {
  const blocked = await list(account);
  assert.deepEqual([blocked.json.status, blocked.json.error_code], ['blocked', 'integration_not_connected']);
  await visit.goto('/integrations');
  await visit.page.getByLabel('Search').fill('gmail');
  await visit.press('Show');
  await visit.fits();
  await visit.press('Gmail');
  await visit.fits();
  await visit.press('Connect Gmail');
  assert.ok(visit.page.url().startsWith(dashboard.oidc.url), visit.page.url());
  await visit.page.locator('[name=login]').fill('sam');
  await visit.page.locator('[name=password]').fill('any');
  await visit.press('Sign-in');
  await visit.press('Continue');
  assert.ok(visit.page.url().startsWith(`${dashboard.base}/integrations/gmail`), visit.page.url());
  await visit.sees('Connected.');
  await visit.fits();
  await visit.press(MAILBOX, visit.page.locator('.list'));
  await visit.sees(/Acts as\s+sam\.rivera@example\.com/);
  await visit.sees(/gmail\.modify\s+granted/);
  await visit.sees('automatic, before the token expires');
  await visit.sees('not used yet');
  await visit.fits();
  const done = await list(account);
  assert.equal(done.json.status, 'succeeded', done.text);
  await visit.goto(`/executions/${done.json.execution_id}`);
  await visit.sees('succeeded');
  await visit.goto('/');
  await visit.sees('Gmail');
  await visit.fits();
}

async function connectProbe(visit, account) {
  await visit.goto('/integrations/probe');
  await visit.page.getByLabel('Token', { exact: true }).fill(WRONG);
  await visit.press('Connect');
  await visit.sees('Nothing was stored.');
  await visit.page.getByLabel('Token', { exact: true }).fill(credentials.probe.token);
  await visit.page.getByLabel('Label').fill('Mine');
  await visit.press('Connect');
  await visit.sees('Connected.');
  await visit.sees('Mine');
  await visit.press('Mine');
  await visit.press('Test it');
  await visit.sees('the connection works');
  await visit.fits();
  const { json } = await dashboard.call(account, 'GET', '/api/integrations?query=probe');
  assert.equal(json.items.find((item) => item.integration_id === 'probe').connection_state, 'connected');
  await visit.press('Disconnect');
  await visit.sees('No running or waiting flow uses it.');
  await visit.press('Disconnect');
  await visit.sees('Connection deleted.');
  const gone = await dashboard.call(account, 'GET', '/api/integrations?query=probe');
  assert.equal(gone.json.items.find((item) => item.integration_id === 'probe').connection_state, 'not_connected');
}

// Checks that a key is shown once and works, and that after it is revoked it is refused, both in
// the API and in a session.
async function makeKey(visit, how) {
  await visit.goto('/keys');
  await visit.press('New key');
  await visit.page.getByLabel('Name', { exact: true }).fill(`for ${how}`);
  await visit.page.getByRole('checkbox', { name: /^read/ }).check();
  await visit.press('Create the key');
  const key = (await visit.page.locator('#new-key').innerText()).trim();
  secrets[`new key ${how}`] = key;
  await visit.fits();
  const ask = () => dashboard.call({ key }, 'GET', '/api/integrations?query=gmail');
  assert.equal((await ask()).status, 200);
  const mine = await dashboard.signIn({ key });
  await mine.sees('Needs you');
  await visit.press('Back to the keys');
  await visit.sees(`for ${how}`);
  assert.ok(!(await visit.page.content()).includes(key), 'it was shown once');
  await visit.fits();
  await visit.press(new RegExp(`^Revoke for ${how} sk_`));
  await visit.press('Revoke the key');
  await visit.sees('The key was revoked');
  await until('the key is refused', async () => (await ask()).status === 401);
  await mine.goto('/flows');
  assert.equal(await mine.title(), 'Sign in');
  await mine.page.getByLabel('API key').fill(key);
  await mine.press('Sign in');
  await mine.sees('unknown, expired or revoked');
  await mine.end();
}

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]])
  test(`${how}: connect an app by consent and one by a form, make a key and revoke it`, async () => {
    const account = await dashboard.account(`connect ${how}`, { apps: [] });
    secrets[`key ${how}`] = account.key;
    const visit = await dashboard.signIn(account, options);
    await connectMail(visit, account);
    await connectProbe(visit, account);
    await makeKey(visit, how);
    await visit.end();
  });

test('refused at the consent page: the page says so, and nothing is connected', async () => {
  const account = await dashboard.account('refused', { apps: [] });
  const visit = await dashboard.signIn(account);
  await visit.goto('/integrations/gmail');
  await visit.press('Connect Gmail');
  await visit.press('[ Cancel ]');
  assert.equal(await visit.title(), 'Not connected');
  assert.equal((await list(account)).json.error_code, 'integration_not_connected');
  await visit.end();
});
