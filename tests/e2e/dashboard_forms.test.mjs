// Forms and buttons of the dashboard, in headless Chromium with JavaScript and without: choices and
// fields that suit their purpose, confirmations before irreversible actions, forms that are sent
// twice, and sessions that end while a person types.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Dashboard, PHONE } from './support/dashboard.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('Forms');
});
after(() => dashboard?.stop());

const WAYS = [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]];
const execute = (integration_id, action_id, input) => dashboard.call(account, 'POST', '/api/executions', { integration_id, action_id, input });

/* ---- what is shown ---- */

test('"Needs you" shows what waits for a decision, and no timer', async () => {
  const visit = await dashboard.signIn(account);
  const timer = await dashboard.start(account, 'probe_wait', { seconds: 3600 });
  await dashboard.reaches(account, timer, 'waiting');
  const approval = await dashboard.startTasks(account);
  const linked = (id) => visit.page.locator(`main a[href="/flows/${id}"]`).count();
  await visit.goto('/');
  const needed = (id) => visit.page.locator(`#waiting .what[href="/flows/${id}"]`).count();
  assert.deepEqual([await needed(approval), await needed(timer)], [1, 0]);
  // an approval that makes no call shows no count
  const gate = await dashboard.start(account, 'api_gate', { id: 'INBOX', skip: true });
  await dashboard.reaches(account, gate, 'waiting');
  await visit.goto('/');
  assert.match(await visit.page.locator(`#wait-${gate} .tag.bad`).innerText(), /^expires in (\d+ min|1 h)$/);
  assert.equal(await visit.page.locator(`#wait-${gate} .tag`).count(), 1);
  await visit.goto(`/flows/${gate}`);
  assert.deepEqual(await visit.page.locator('.decide').getByRole('button').allInnerTexts(), ['Reject', 'Approve', 'Approve and show next']);
  await visit.goto('/flows?status=waiting');
  assert.deepEqual([await linked(approval), await linked(timer)], [1, 1]);
  await visit.page.getByLabel('Status').selectOption('waiting for approval');
  await visit.press('Show');
  assert.deepEqual([await linked(approval), await linked(timer)], [1, 0]);
  assert.equal(await visit.page.getByLabel('Status').inputValue(), 'approval');
  for (const id of [timer, approval, gate]) await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  await visit.end();
});

test('the app of executions is chosen, not typed', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/executions');
  const names = await visit.page.getByLabel('App').locator('option').allInnerTexts();
  const { json } = await dashboard.call(account, 'GET', '/api/integrations?page_size=100');
  assert.deepEqual(names.sort(), ['any', ...json.items.map(({ name }) => name)].sort());
  await visit.page.getByLabel('App').selectOption('Notion');
  await visit.press('Show');
  assert.equal(new URL(visit.page.url()).searchParams.get('app'), 'notion');
  assert.equal(await visit.page.getByLabel('App').inputValue(), 'notion');
  await visit.goto('/executions?app=gone');
  assert.equal(await visit.page.getByLabel('App').inputValue(), 'gone', 'an app that the catalog does not have is still shown');
  await visit.end();
});

test('a search of apps has the order of /api/search', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  for (const query of ['send', 'mail', 'task', 'message', 'issue', 'create page', 'invoice']) {
    const { json } = await dashboard.call(account, 'GET', `/api/search?limit=100&query=${encodeURIComponent(query)}`);
    const fitting = json.items.filter(({ relevance }) => relevance === 'high'); // a poor match is not an app to choose
    const expected = [...new Set(fitting.map(({ integration_id }) => integration_id))];
    assert.ok(expected.length > 0, query);
    await visit.goto(`/integrations?q=${encodeURIComponent(query)}`);
    const links = await visit.page.locator('main .list h2 a').evaluateAll((all) => all.map((one) => one.getAttribute('href').split('/').at(-1)));
    assert.deepEqual(links.slice(0, expected.length), expected, query);
  }
  await visit.end();
});

test('a text of several lines gets a field of several lines', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/flows/new?template=mail_with_reminder');
  const fields = await visit.page.locator('[name^="input."]').evaluateAll((all) => Object.fromEntries(all.map((one) => [one.name.slice(6), one.localName])));
  assert.deepEqual(fields, { to: 'input', subject: 'input', text: 'textarea', remindAfter: 'input', mailConnectionId: 'select' });
  assert.equal(await visit.page.getByLabel('Mail connection (optional)').evaluate(({ name }) => name), 'input.mailConnectionId');
  await visit.page.locator('[name="input.subject"]').fill('x');
  await visit.page.locator('[name="input.to"]').fill('y');
  await visit.page.locator('[name="input.text"]').fill('One line\n\n  and another <&>');
  await visit.page.locator('[name="input.to"]').evaluate((field) => field.removeAttribute('required'));
  await visit.page.locator('[name="input.to"]').fill('');
  await visit.press('Start');
  await visit.page.getByRole('alert').waitFor();
  assert.equal(await visit.page.locator('[name="input.text"]').inputValue(), 'One line\n\n  and another <&>', 'the typed text is shown again');
  await visit.page.locator('[name="input.to"]').fill('ada@example.com');
  await visit.press('Start');
  await visit.sees('The flow has started.');
  const id = visit.page.url().match(/\/flows\/([0-9a-f-]{36})/)[1];
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${id}`);
  assert.equal(json.flow.input.text, 'One line\n\n  and another <&>');
  await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  await visit.end();
});

test('the fields of a start are those of its schema, and errors are shown at their fields', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/flows/new');
  const about = async (name) => (await visit.page.locator('main .list > li').filter({ has: visit.page.getByRole('link', { name, exact: true }) }).innerText()).replace(/\s+/g, ' ');
  assert.match(await about('Unread mail to tasks'), /Uses Gm Gmail connected No Notion connected write Notion: Create a page, once for each item, after a person has approved it/);
  assert.match(await about('Unread mail digest to Slack'), /Sl Slack not connected write Slack: Post a message, without asking again/);
  assert.match(await about('Unread mail summary'), /It writes nothing\./);
  await visit.goto('/flows/new?template=reschedule_tasks');
  const field = (name) => visit.page.locator(`[name="input.${name}"]`);
  const kinds = await visit.page.locator('[name^="input."]').evaluateAll((all) => Object.fromEntries(all.map((one) => [one.name.slice(6), one.type])));
  assert.deepEqual(kinds, { pages: 'textarea', due: 'date', status: 'text', connectionId: 'select-one' });
  const { connections } = (await dashboard.call(account, 'GET', '/api/connections?integration_id=notion')).json;
  assert.deepEqual(await field('connectionId').locator('option').evaluateAll((all) => all.map((one) => [one.value, one.textContent])), [['', 'the default one'], ...connections.map(({ id, label }) => [`${id}`, label])]);
  const pages = ['001', '00c'].map((end) => `b3d5f7a9-1c2e-4a6b-8d0f-000000000${end}`);
  await field('pages').fill(`${pages[0]}\n\n  no page  \n`);
  await field('status').fill('In progress');
  await field('connectionId').selectOption(`${connections[0].id}`);
  await field('due').evaluate((one) => one.removeAttribute('required'));
  await visit.press('Start');
  assert.match(await visit.page.getByRole('alert').innerText(), /Nothing was started/);
  assert.match(await visit.page.locator('#fault-pages').innerText(), /^Pages: 1 must match/);
  assert.equal(await visit.page.locator('#fault-due').innerText(), 'Due: this field is required');
  assert.deepEqual(await visit.page.locator('[aria-invalid=true]').evaluateAll((all) => all.map(({ name }) => name)), ['input.pages', 'input.due']);
  assert.deepEqual([await field('status').inputValue(), await field('connectionId').inputValue()], ['In progress', `${connections[0].id}`]);
  // a link that ends with an id is as good as the id
  await field('pages').fill(`https://www.notion.so/team/Tasks-${pages[0].replaceAll('-', '')}?v=1#top\nhttps://notes.example/${pages[1]}`);
  await field('due').fill('2031-12-06');
  await visit.press('Start');
  await visit.sees('The flow has started.');
  const started = async () => (await dashboard.call(account, 'GET', `/api/flows/${visit.page.url().match(/[0-9a-f-]{36}/)[0]}`)).json.flow;
  assert.deepEqual((await started()).input, { pages: [pages[0].replaceAll('-', ''), pages[1]], due: '2031-12-06', status: 'In progress', connectionId: `${connections[0].id}` });
  await dashboard.call(account, 'POST', `/api/flows/${(await started()).id}/cancel`, {});
  // a number with its limits, and a box that must be ticked
  await visit.goto('/flows/new?template=unread_mail_to_slack');
  assert.deepEqual(await field('maxResults').evaluate(({ type, min, max, step }) => [type, min, max, step]), ['number', '1', '20', '1']);
  await field('maxResults').fill('2');
  await field('channel').fill('C1');
  await field('confirm').check();
  await visit.press('Start');
  await visit.sees('The flow has started.');
  assert.deepEqual((await started()).input, { maxResults: 2, channel: 'C1', confirm: true });
  await visit.end();
});

test('text that Gmail escapes as HTML goes into other apps unescaped', async () => {
  const text = `"Quoted" it's <b> AT&T &amp; co`;
  await dashboard.provider.control('POST', '/mail', { from: 'a@b.example', subject: 'escapes here', text });
  const found = await execute('gmail', 'list_messages', { query: 'subject:"escapes here"' });
  const [{ id, threadId }] = found.json.output.messages;
  const message = await execute('gmail', 'get_message', { id, format: 'metadata' });
  assert.equal(message.json.output.snippet, text);
  assert.equal(message.json.output.subject, 'escapes here');
  assert.equal((await execute('gmail', 'get_message', { id, format: 'minimal' })).json.output.snippet, text);
  const thread = await execute('gmail', 'get_thread', { id: threadId });
  assert.deepEqual(thread.json.output.messages.map(({ snippet, subject }) => [snippet, subject]), [[text, 'escapes here']]);
  const threads = await execute('gmail', 'list_threads', { query: 'subject:"escapes here"' });
  assert.deepEqual(threads.json.output.threads.map(({ snippet }) => snippet), [text]);
  const flow = await dashboard.startTasks(account, { query: 'subject:"escapes here"' });
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${flow}`);
  const [{ input }] = json.steps.find((step) => step.status === 'waiting').input.items;
  assert.equal(input.children[1].paragraph.rich_text[0].text.content, text);
  await dashboard.call(account, 'POST', `/api/flows/${flow}/approve`, {});
  await dashboard.reaches(account, flow, 'completed');
});

/* ---- questions ---- */

const countOf = async (what) => Number(await dashboard.stack.cluster.sql(`select count(*) from sluice.${what}`));

async function newKey(name = 'spare', scopes = 'read,execute,approve,admin') {
  return JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--name', name, '--scopes', scopes, '--json']));
}

for (const [how, options] of WAYS) {
  test(`revoking a key asks first, and lists what depends on it; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    const { id, key } = await newKey(`asked ${how}`);
    const works = async () => (await dashboard.call({ key }, 'GET', '/api/integrations?page_size=1')).status;
    for (let i = 0; i < 2; i++)
      assert.equal((await dashboard.call({ key }, 'POST', '/api/connect/sessions', { integration_id: 'probe' })).status, 201);
    await visit.goto('/keys');
    await visit.press(new RegExp(`^Revoke asked ${how} sk_`));
    assert.equal(new URL(visit.page.url()).pathname, `/keys/${id}/revoke`);
    await visit.sees('2 connect links made with it are still open');
    await visit.sees('session that was opened with it ends');
    assert.ok(!(await visit.text()).includes('You are signed in with this key'));
    await visit.fits();
    if (how !== 'without JavaScript') await visit.isAccessible();
    await visit.press('Keep the key');
    assert.equal(await works(), 200);
    await visit.goto(`/keys/${id}/revoke`);
    await visit.press('Revoke the key');
    await visit.sees('The key was revoked');
    assert.equal(await works(), 401);
    await visit.goto(`/keys/${id}/revoke`);
    await visit.sees('This key is already revoked.');
    await visit.end();
  });

  test(`revoking one's own key warns about the sign-out, and signs out; ${how}`, async () => {
    const own = await newKey(`own ${how}`);
    const visit = await dashboard.signIn({ key: own.key }, options);
    await visit.goto(`/keys/${own.id}/revoke`);
    await visit.sees('you will be signed out');
    await visit.press('Revoke the key');
    assert.equal(await visit.title(), 'Sign in');
    await visit.sees('Your key was revoked. You are signed out.');
    await visit.end();
  });

  test(`disconnecting asks first, and names the flows that use the connection; ${how}`, async () => {
    const other = await dashboard.account(`disconnects ${how}`);
    const visit = await dashboard.signIn(other, options);
    const { connections } = (await dashboard.call(other, 'GET', '/api/connections')).json;
    const [mail, notes] = ['gmail', 'notion'].map((app) => connections.find((one) => one.integration_id === app).id);
    const waiting = await dashboard.startTasks(other);
    const links = () => visit.page.locator(`main a[href="/flows/${waiting}"]`).count();
    await visit.goto(`/connections/${mail}`);
    await visit.press('Disconnect');
    await visit.sees('No running or waiting flow uses it.'); // the flow has already read its mail
    assert.doesNotMatch(await visit.text(), /There may be more/);
    assert.equal(await links(), 0);
    await visit.goto(`/connections/${notes}`);
    await visit.press('Disconnect');
    await visit.sees('1 running or waiting flow still has a step that uses it');
    assert.equal(await links(), 1);
    await visit.fits();
    if (how !== 'without JavaScript') await visit.isAccessible();
    await visit.press('Keep the connection');
    assert.equal(new URL(visit.page.url()).pathname, `/connections/${notes}`);
    assert.equal(await countOf(`connection where id = ${notes}`), 1);
    await visit.press('Disconnect');
    await visit.press('Disconnect');
    await visit.sees('Connection deleted.');
    assert.equal(await countOf(`connection where id = ${notes}`), 0);
    await visit.goto(`/connections/${notes}/delete`);
    assert.equal(await visit.title(), 'Not found');
    await visit.end();
  });

  test(`cancelling asks first, and says what was done and what will not be done; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    const id = await dashboard.startTasks(account);
    await visit.goto(`/flows/${id}`);
    await visit.press('Cancel the flow');
    assert.equal(new URL(visit.page.url()).pathname, `/flows/${id}/cancel`);
    await visit.sees(/Already done\s+Nothing has been written yet\./);
    await visit.sees(/Will not be done\s+Create a page \(Notion\) create$/m);
    await visit.sees(/requested by \S+ .*\s+its approval expires .*\d/);
    await visit.sees('It will be cancelled with the key');
    assert.doesNotMatch(await visit.text(), /\b0 times/);
    await visit.fits();
    if (how !== 'without JavaScript') await visit.isAccessible();
    await visit.press('Back to the flow');
    assert.equal((await dashboard.reaches(account, id, 'waiting')).flow.status, 'waiting');
    await visit.press('Cancel the flow');
    await visit.press('Cancel the flow');
    await visit.sees(/You cancelled the flow, /);
    await dashboard.reaches(account, id, 'cancelled');
    await visit.goto(`/flows/${id}/cancel`);
    await visit.sees('There is nothing to cancel');
    const done = await dashboard.startTasks(account);
    await dashboard.call(account, 'POST', `/api/flows/${done}/approve`, {});
    await dashboard.reaches(account, done, 'completed');
    await visit.goto(`/flows/${done}/cancel`);
    await visit.sees(/Already done\s+Create a page \(Notion\), 2 times/);
    await visit.end();
  });
}

test('a flow uses the default connection, or the one that its input names', async () => {
  const other = await dashboard.account('two mailboxes');
  const visit = await dashboard.signIn(other, { javaScriptEnabled: false });
  const second = await dashboard.stack.connect(other.id, 'gmail', { access_token: 'second' }, ['--label', 'second']);
  const { connections } = (await dashboard.call(other, 'GET', '/api/connections?integration_id=gmail')).json;
  const first = connections.find((one) => one.id !== `${second}`).id;
  const start = (input) => dashboard.start(other, 'mail_with_reminder', { to: 'a@b.example', subject: 's', text: 't', ...input });
  const [byDefault, named] = [await start({}), await start({ mailConnectionId: `${second}` })];
  for (const id of [byDefault, named]) await dashboard.reaches(other, id, 'waiting');
  for (const [connection, yes, no] of [[first, byDefault, named], [second, named, byDefault]]) {
    await visit.goto(`/connections/${connection}/delete`);
    assert.equal(await visit.page.locator(`main a[href="/flows/${yes}"]`).count(), 1);
    assert.equal(await visit.page.locator(`main a[href="/flows/${no}"]`).count(), 0);
  }
  await visit.end();
});

/* ---- forms that are sent twice ---- */

// Posts a form as the browser would.
async function post(visit, path, body) {
  const cookie = (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  return fetch(dashboard.base + path, { method: 'POST', redirect: 'manual', headers: { cookie, origin: dashboard.base, 'content-type': 'application/x-www-form-urlencoded' }, body });
}

const keysNamed = (name) => countOf(`api_key where name = '${name}'`);

for (const [how, options] of WAYS)
  test(`a double click and a reload start one flow and make one key; ${how}`, async () => {
    const other = await dashboard.account(`twice ${how}`);
    const visit = await dashboard.signIn(other, options);
    const flows = () => countOf(`flow where account_id = '${other.id}'`);
    const posts = [];
    visit.page.on('request', (request) => request.method() === 'POST' && posts.push(request));
    await visit.goto('/flows/new?template=unread_mail_summary');
    await visit.page.getByRole('button', { name: 'Start' }).dblclick();
    await visit.page.getByText('The flow has started.').waitFor();
    assert.equal(await flows(), 1);
    // sent again from a page in the browser's history, or by reloading the answer to the form
    const sent = posts[0].postData();
    for (let i = 0; i < 2; i++) {
      const again = await post(visit, '/flows/new', sent);
      assert.equal(again.status, 303);
      assert.equal(again.headers.get('location').split('?')[0], new URL(visit.page.url()).pathname);
    }
    assert.equal(await flows(), 1);

    const name = `double ${how}`;
    await visit.goto('/keys/new');
    await visit.page.getByLabel('Name', { exact: true }).fill(name);
    await visit.page.getByRole('checkbox', { name: /^read/ }).check();
    posts.length = 0;
    await visit.page.getByRole('button', { name: 'Create the key' }).dblclick();
    await visit.page.locator('#new-key').waitFor();
    const key = (await visit.page.locator('#new-key').innerText()).trim();
    assert.equal((await dashboard.call({ key }, 'GET', '/api/integrations?page_size=1')).status, 200);
    await visit.page.reload();
    assert.equal((await visit.page.locator('#new-key').innerText()).trim(), key);
    await visit.sees('within one minute');
    assert.equal(await keysNamed(name), 1);
    // With other values, this is not the request that the form made.
    const changed = new URLSearchParams(posts[0].postData());
    changed.set('name', `${name}, changed`);
    const reply = await post(visit, '/keys/new', changed.toString());
    assert.deepEqual([reply.status, (await reply.text()).includes(key)], [409, false]);
    // the secret is not shown again after the minute that the page names
    await dashboard.stack.cluster.sql(`update sluice.api_key set created_at = now() - interval '1 minute' where name = '${name}'`);
    await visit.page.reload();
    assert.equal(await visit.title(), 'This key has already been created');
    assert.ok(!(await visit.page.content()).includes(key));
    await visit.fits();
    assert.equal(await keysNamed(name), 1);
    await visit.end();
  });

test('a form contains a seal: from another session, or changed, it makes nothing', async () => {
  const other = await dashboard.account('sealed');
  const session = async (person) => {
    const visit = await dashboard.signIn(person, { javaScriptEnabled: false });
    await visit.goto('/flows/new?template=unread_mail_summary');
    const [csrf, once] = await visit.page.evaluate(() => ['csrf', 'once'].map((name) => document.querySelector(`main [name=${name}]`).value));
    return { visit, once, send: (fields) => post(visit, '/flows/new', new URLSearchParams({ template: 'unread_mail_summary', csrf, once, ...fields }).toString()) };
  };
  const [mine, theirs] = [await session(account), await session(other)];
  const before = await countOf('flow');
  for (const once of [theirs.once, '', 'AAAA', mine.once.slice(0, -6) + 'AAAAAA']) {
    const reply = await mine.send({ once });
    assert.equal(reply.status, 400);
    assert.match(await reply.text(), /press Start again/);
  }
  assert.equal(await countOf('flow'), before);
  assert.equal((await mine.send({})).status, 303);
  for (const { visit } of [mine, theirs]) await visit.end();
});

/* ---- a session that ends while a person types ---- */

// An address may sign in ten times in a burst, then once per second. The stored form survives the
// wait.
const signsIn = (visit, key) =>
  until('the sign-in is answered', async () => {
    await visit.page.getByLabel('API key').fill(key);
    await visit.press('Sign in');
    return !(await visit.page.getByText('Too many attempts').count());
  });

// Signs in on the sign-in page that was shown instead of the form's page, and returns to the
// latter.
async function comesBack(visit, path, key = account.key) {
  assert.equal(await visit.title(), 'Sign in');
  await visit.sees('Nothing was done');
  await visit.fits();
  await signsIn(visit, 'sk_0000000000000000000000000000000000000000000');
  await visit.sees('unknown, expired or revoked');
  await signsIn(visit, key);
  await visit.sees('Nothing has been sent');
  await visit.fits();
  if (visit.hasScript) assert.equal(new URL(visit.page.url()).pathname, path);
}

for (const [how, options] of WAYS)
  test(`no input is lost if the session ends while a form is filled in, and none is sent by itself; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    visit.hasScript = options.javaScriptEnabled !== false;
    const ends = () => visit.context.clearCookies();
    const value = (name) => visit.page.locator(`main form:not([action="/sign-in"]) [name="${name}"]`).first().inputValue();

    // a flow's inputs
    const flows = await countOf('flow');
    const text = 'Dear Ada,\n\n  "quoted" & <b>\n\nSam';
    await visit.goto('/flows/new?template=mail_with_reminder');
    for (const [name, typed] of Object.entries({ to: 'ada@example.com', subject: 'Hello & <you>', text })) await visit.page.locator(`[name="input.${name}"]`).fill(typed);
    await ends();
    await visit.press('Start');
    await comesBack(visit, '/flows/new');
    assert.deepEqual(await Promise.all(['input.to', 'input.subject', 'input.text'].map(value)), ['ada@example.com', 'Hello & <you>', text]);
    assert.equal(await countOf('flow'), flows);
    await visit.press('Start');
    await visit.sees('The flow has started.');
    const started = visit.page.url().match(/\/flows\/([0-9a-f-]{36})/)[1];
    assert.equal((await dashboard.reaches(account, started, 'waiting')).flow.input.text, text);

    // an approval's note
    await visit.page.reload();
    await visit.page.getByLabel('Note').fill('two\nlines');
    await ends();
    await visit.press('Reject');
    await comesBack(visit, `/flows/${started}`);
    assert.equal(await visit.page.getByLabel('Note').inputValue(), 'two\nlines');
    assert.equal((await dashboard.reaches(account, started, 'waiting')).flow.status, 'waiting');
    await visit.press('Reject');
    await visit.sees('Rejected');
    const { steps } = await dashboard.reaches(account, started, 'cancelled');
    assert.match(JSON.stringify(steps), /two(\\r)?\\nlines/);

    // a key to be made
    const name = `kept ${how}`;
    await visit.goto('/keys/new');
    await visit.page.getByLabel('Name', { exact: true }).fill(name);
    for (const scope of [/^read/, /^approve/]) await visit.page.getByRole('checkbox', { name: scope }).check();
    await visit.page.getByLabel('Expires after').selectOption('one year');
    await ends();
    await visit.press('Create the key');
    await comesBack(visit, '/keys/new');
    assert.deepEqual(await Promise.all(['name', 'expires'].map(value)), [name, '365']);
    assert.deepEqual(await visit.page.locator('main [type=checkbox]:checked').evaluateAll((all) => all.map((one) => one.name)), ['scope.read', 'scope.approve']);
    assert.equal(await keysNamed(name), 0);

    // a credential: the person has to type secrets again
    const connections = await countOf('connection');
    await visit.goto('/integrations/probe');
    await visit.page.getByLabel('Token', { exact: true }).fill('secret-that-is-not-kept');
    await visit.page.getByLabel('Label').fill('the label');
    await ends();
    await visit.press('Connect Probe');
    assert.ok(!(await visit.page.content()).includes('secret-that-is-not-kept'));
    await comesBack(visit, '/integrations/probe');
    await visit.sees('enter secrets');
    assert.ok(!(await visit.page.content()).includes('secret-that-is-not-kept'));
    assert.deepEqual(await Promise.all(['label', 'token'].map(value)), ['the label', '']);
    assert.equal(await countOf('connection'), connections);

    // the form had no typed text, so its page is shown again
    const waits = await dashboard.startTasks(account, { maxResults: 1 });
    await visit.goto(`/flows/${waits}/cancel`);
    await ends();
    await visit.press('Cancel the flow');
    await signsIn(visit, account.key);
    assert.equal(new URL(visit.page.url()).pathname, `/flows/${waits}/cancel`);
    assert.equal((await dashboard.reaches(account, waits, 'waiting')).flow.status, 'waiting');
    await visit.end();
  });

test('two forms whose session ended are both restored, though the sign-in was for the other', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  const second = await visit.context.newPage();
  for (const [page, note] of [[visit.page, 'first'], [second, 'second']]) {
    await page.goto(`/flows/${id}`);
    await page.getByLabel('Note').fill(note);
  }
  await visit.context.clearCookies();
  for (const page of [visit.page, second]) await Promise.all([page.waitForNavigation(), page.getByRole('button', { name: 'Reject' }).click()]);
  for (const [page, note] of [[visit.page, 'first'], [second, 'second']]) {
    await signsIn({ page, press: (name) => Promise.all([page.waitForNavigation(), page.getByRole('button', { name }).click()]) }, account.key);
    assert.equal(await page.getByLabel('Note').inputValue(), note);
  }
  await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  await visit.end();
});

test('a form of an earlier session is restored, too, and does nothing', async () => {
  const visit = await dashboard.signIn(account);
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  await visit.goto(`/flows/${id}`);
  await visit.page.getByLabel('Note').fill('typed before');
  // the person signed out and in again in another window
  const other = await visit.context.newPage();
  await visit.context.clearCookies();
  await other.goto('/sign-in');
  await until('the sign-in is answered', async () => {
    await other.getByLabel('API key').fill(account.key);
    await Promise.all([other.waitForNavigation(), other.getByRole('button', { name: 'Sign in' }).click()]);
    return !(await other.getByText('Too many attempts').count());
  });
  await visit.press('Approve');
  await visit.sees('to an earlier session');
  assert.equal(await visit.page.getByLabel('Note').inputValue(), 'typed before');
  assert.equal((await dashboard.reaches(account, id, 'waiting')).flow.status, 'waiting');
  await visit.press('Approve');
  const flow = await dashboard.reaches(account, id, 'completed');
  assert.equal(flow.steps.find((step) => step.stepType === 'approval').output.note, 'typed before');
  await visit.end();
});

test('a new key gets one of the account’s policies; a key with one makes none', async () => {
  const other = await dashboard.account('With policies');
  const call = async (method, path, body, status = 200) => {
    const reply = await dashboard.call(other, method, path, body);
    assert.equal(reply.status, status, reply.text);
    return reply.json;
  };
  const visit = await dashboard.signIn(other, { javaScriptEnabled: false });
  let sent;
  visit.page.on('request', (request) => (sent = request.postData() ?? sent));
  const policy = visit.page.getByLabel('Policy'), options = () => policy.locator('option').allInnerTexts();
  const fill = async (name) => {
    await visit.page.getByLabel('Name', { exact: true }).fill(name);
    await policy.selectOption(name);
  };
  await visit.goto('/keys/new');
  assert.equal(await policy.count(), 0);
  for (const name of ['brief', 'careful']) await call('PUT', `/api/policies/${name}`, { policy: { default: 'allow' } });
  await visit.goto('/keys/new');
  assert.deepEqual(await options(), ['none', 'brief', 'careful']);
  await call('PUT', '/api/policies/default', { policy: { default: 'allow' } });
  await visit.goto('/keys/new');
  assert.deepEqual(await options(), ['none of its own: default applies', 'brief', 'careful', 'default']);
  // a fault keeps the choice; one that was deleted in the meantime is refused
  await fill('careful');
  await visit.press('Create the key');
  await visit.sees('Choose at least one of the scopes');
  assert.equal(await policy.inputValue(), 'careful');
  await fill('brief');
  await visit.page.getByRole('checkbox', { name: /^read/ }).check();
  await call('DELETE', '/api/policies/brief');
  await visit.press('Create the key');
  await visit.sees('Refused: the account has no policy "brief".');
  assert.equal(await keysNamed('brief'), 0);
  await fill('careful');
  await visit.press('Create the key');
  const key = (await visit.page.locator('#new-key').innerText()).trim();
  const self = async (one) => (await dashboard.call({ key: one }, 'GET', '/api/keys/self')).json;
  assert.equal((await self(key)).policy, 'careful');
  // the same form with another policy is not the request that made the key
  const changed = new URLSearchParams(sent);
  changed.set('policy', 'default');
  assert.equal((await post(visit, '/keys/new', changed.toString())).status, 409);
  const { key: strict } = await call('POST', '/api/keys', { name: 'strict', scopes: ['read', 'admin'], policy: 'careful' }, 201);
  const limited = await dashboard.signIn({ key: strict }, { javaScriptEnabled: false });
  await limited.goto('/keys/new');
  assert.equal(await limited.page.getByLabel('Policy').count(), 0);
  await limited.sees('Your key has a policy of its own, so it makes no keys.');
  await limited.page.getByLabel('Name', { exact: true }).fill('by the strict one');
  await limited.page.getByRole('checkbox', { name: /^read/ }).check();
  await limited.press('Create the key');
  await limited.sees('Your key has a policy of its own, so it makes no keys.');
  assert.equal(await keysNamed('by the strict one'), 0);
  for (const one of [visit, limited]) await one.end();
});

/* ---- faults ---- */

// Each form with a wrong value: what is wrong is said once, at the field, and what was typed is
// still there, except secrets.
test('a wrong value is reported once, at its field, in every form', async () => {
  const own = await dashboard.account('Faults');
  const { json: ran } = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input: {} });
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=gmail')).json;
  const link = await dashboard.call(own, 'POST', '/api/connect/sessions', { integration_id: 'twilio' });
  assert.equal(link.status, 201, link.text);
  const sid = `AC${'0'.repeat(32)}`, named = /A key needs a name/, once = /^Fill in this field\.$/, line = /^The value must be on one line\.$/;
  const connect = 'form[action$="/connect"]', client = 'form[action$="/client"]';
  // page, form, what is typed, the field, what is said there
  const cases = [
    ['/keys/new', 'form.card', { name: '' }, 'name', named],
    ['/keys/new', 'form.card', { name: 'a' }, 'scopes', /Choose at least one of the scopes/],
    ['/keys/new', 'form.card', { name: 'a', 'scope.read': true, addresses: 'next door' }, 'addresses', /^Refused: "next" is not/],
    ['/keys/new', 'form.card', { name: 'a', 'scope.read': true, expires: 'soon' }, 'expires', /Choose when the key expires/],
    [`/connections/${connections[0].id}`, 'form[action$="/label"]', { label: '' }, 'label', /A label must have 1 to 200 characters/],
    ['/integrations/gmail', client, { client_id: 'a b', client_secret: 'c' }, 'client_id', /Only printable ASCII/],
    ['/integrations/gmail', client, { client_id: 'a', client_secret: 'b c' }, 'client_secret', /Only printable ASCII/],
    ['/integrations/sendgrid', connect, { token: '' }, 'token', once],
    ['/integrations/sendgrid', connect, { token: 'a\tb' }, 'token', line],
    ['/integrations/sendgrid', connect, { token: 'a', label: 'b'.repeat(201) }, 'label', /A label must have at most 200 characters/],
    ['/integrations/twilio', connect, { username: sid, password: 'a', 'param.account_sid': 'b' }, 'param.account_sid', /must match/],
    ['/integrations/twilio', connect, { username: sid, password: 'a', 'param.account_sid': '' }, 'param.account_sid', once],
    ['/integrations/twilio', connect, { username: '', password: 'a', 'param.account_sid': sid }, 'username', once],
    ['/integrations/zendesk', `${connect}:has([name=username])`, { username: 'a', password: 'b', 'param.subdomain': 'C!' }, 'param.subdomain', /must match/],
    ['/integrations/probe', connect, { token: 'sentinel-wrong-token-57' }, 'token', /^Nothing was stored\. /],
    [`/executions/${ran.execution_id}/again`, 'form.card', { input: '[1]' }, 'input', /The input must be a JSON object/],
    ['/flows/new?template=unread_mail_to_slack', 'form.card', { 'input.maxResults': '0', 'input.channel': 'C1', 'input.confirm': true }, 'input.maxResults', /must be/],
    [new URL(link.json.url).pathname, 'form[action$="/go"]', { username: sid, password: 'a', 'param.account_sid': 'b' }, 'param.account_sid', /must match/],
    ['/sign-in', 'form.card', { key: 'sk_no' }, 'key', /unknown, expired or revoked/],
  ];
  const signedIn = await dashboard.signIn(own, { javaScriptEnabled: false });
  const stranger = await dashboard.browser.visit(dashboard.base, { javaScriptEnabled: false });
  for (const [path, selector, typed, field, said] of cases) {
    const what = `${path} ${field}`, visit = /^\/(sign-in|connect\/)/.test(path) ? stranger : signedIn, { page } = visit;
    await visit.goto(path);
    if (path.startsWith('/connect/')) await visit.press('Continue');
    // a browser would refuse some of the values itself
    const fill = ([at, values]) => {
      const form = document.querySelector(at);
      form.noValidate = true;
      for (const fold of document.querySelectorAll('details')) fold.open = true;
      for (const [name, value] of Object.entries(values)) {
        const one = form.querySelector(`[name="${name}"]`);
        if (one.tagName === 'SELECT') one.add(new Option(value, value));
        if (value === true) one.checked = true;
        else one.value = value;
      }
    };
    assert.equal(await page.locator(selector).count(), 1, `${what}: ${await visit.text()}`);
    await page.evaluate(fill, [selector, typed]);
    await Promise.all([page.waitForNavigation(), page.evaluate((at) => document.querySelector(at).querySelector('button').click(), selector)]);
    const seen = await page.evaluate(() => ({
      faults: [...document.querySelectorAll('main .problem:not([role=alert])')].map(({ id, innerText }) => [id, innerText.trim()]),
      text: document.querySelector('main').innerText,
      fields: [...document.querySelectorAll('[aria-describedby^="fault-"]')].map((one) => [one.name || 'scopes', one.getAttribute('aria-describedby').split(' ')[0]]),
      values: Object.fromEntries([...document.querySelectorAll('main form [name]')].filter(({ type }) => !['hidden', 'checkbox'].includes(type)).map(({ name, value }) => [name, value])),
      alerts: document.querySelectorAll('[role=alert]').length,
    }));
    assert.equal(seen.faults.length, 1, `${what}: ${JSON.stringify(seen)}`);
    const [[id, text]] = seen.faults;
    assert.match(text.replace(/^Max results: /, ''), said, what);
    assert.equal(seen.text.split(text).length, 2, `${what} is said once`);
    assert.deepEqual(seen.fields, [[field, id]], what);
    assert.ok(seen.alerts <= 1, what);
    for (const [name, value] of Object.entries(typed))
      if (value !== true && value !== 'soon') assert.equal(seen.values[name], /token|password|client_secret|^key$/.test(name) ? '' : value, `${what}: ${name}`);
  }
  assert.equal(await dashboard.stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${own.id}' and integration_id in ('sendgrid', 'twilio', 'zendesk')`), '0');
  await signedIn.end();
  await stranger.end();
});
