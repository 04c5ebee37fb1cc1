// What people read on the pages of approvals, and on the way to any page: the frame shows the place
// and what waits, and a decision shows whose account is used, what is done, how severe it is, the
// requester, and the deadline.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { APPROVE, Dashboard, menu } from './support/dashboard.mjs';
import { credentials } from './support/stack.mjs';
import { copyFlow, lengthen } from './support/waiting.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start({ args: ['--home-domains', 'example.com,other.example'] });
  account = await dashboard.account('Acme <b>&');
});
after(() => dashboard?.stop());

test('the frame: account and key, counts, and no link to what the key may not see', async () => {
  const lead = (await dashboard.keyOf(account, 'ops-lead', 'read,execute,approve,admin')).as;
  const id = await dashboard.startTasks(account);
  const visit = await dashboard.signIn(lead, { viewport: { width: 1280, height: 900 } });
  await visit.goto('/executions');
  assert.match(await visit.page.title(), /^\(1\) Executions - sluice$/);
  assert.equal(await visit.page.locator('.who').innerText(), 'Ac\nAcme <b>&\nwith the key ops-lead');
  assert.deepEqual((await menu(visit).getByRole('link').allInnerTexts()).map((text) => text.trim().replace(/\s+/g, ' ')), ['Overview', 'Approvals 1', 'Flows', 'Executions', 'Apps', 'Connections', 'API keys', 'Audit trail']);
  assert.equal(await menu(visit).locator('[aria-current=page]').innerText(), 'Executions');
  // with the keyboard: the skip link first, then the navigation in its order
  await visit.page.keyboard.press('Tab');
  assert.equal(await visit.page.evaluate(() => document.activeElement.className), 'skip');
  await visit.page.keyboard.press('Tab');
  await visit.page.keyboard.press('Tab');
  assert.equal(await visit.page.evaluate(() => document.activeElement.textContent), 'Overview');
  await visit.end();
  const reader = await dashboard.signIn((await dashboard.keyOf(account, 'reader', 'read')).as);
  for (const name of ['API keys', 'Audit trail']) assert.equal(await menu(reader).getByRole('link', { name }).count(), 0);
  await reader.goto('/audit.csv');
  assert.match(await reader.text(), /lacks the scope for this/);
  await reader.end();
  const rejected = await dashboard.call(account, 'POST', `/api/flows/${id}/reject`, {});
  assert.equal(rejected.status, 200, rejected.text);
});

test('a decision shows the connection, the action, its severity, the requester and the expiry', async () => {
  const agent = (await dashboard.keyOf(account, 'support-agent', 'read,execute')).as;
  const id = await dashboard.startTasks(agent);
  const visit = await dashboard.signIn(account, { viewport: { width: 1280, height: 900 } });
  await visit.goto(`/flows/${id}`);
  // the flow's name comes from flow_title of its template, and the decision's from flow_title of
  // the approval
  assert.equal(await visit.title(), 'Task pages in Notion for unread mails');
  assert.equal(await visit.page.locator('#decision').innerText(), 'Create 2 task pages in Notion');
  const decision = visit.page.locator('.decide');
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${id}`);
  const step = json.steps.find(({ status }) => status === 'waiting');
  assert.match(await decision.locator('.ask').innerText(), /Requested by support-agent, asked for approval/);
  assert.equal(await decision.locator('.ask > span time').count(), step.expiresAt ? 1 : 0);
  assert.match(await decision.locator('.impact').innerText(), /2 × Create a page\s+Notion/);
  const { connections } = (await dashboard.call(account, 'GET', '/api/connections?integration_id=notion')).json;
  for (const [i, { input, target }] of step.input.items.entries()) {
    const call = decision.locator('.items > li').nth(i);
    // where it goes: the name if the app gave one, and the id; not in a fold
    assert.deepEqual(target.map(({ id }) => id), [Object.values(input.parent).find((id) => id.length > 30)]);
    const { label, name, id: place, unread } = target[0];
    assert.equal((await call.locator('dl.facts').first().innerText()).replace(/\s+/g, ' '), [label, name, place, unread && '(name not read)'].filter(Boolean).join(' '));
    assert.match(await call.locator('.via').innerText(), new RegExp(`^create\\s+No\\s+Notion: Create a page, as ${connections[0].label}$`));
    assert.deepEqual(JSON.parse(await call.locator('details pre').last().textContent()), input);
  }
  assert.deepEqual(await decision.getByRole('button').allInnerTexts(), ['Reject', 'Approve 2 writes']);
  // the buttons stay in the window, however long the list is
  await visit.page.setViewportSize({ width: 1280, height: 420 });
  assert.ok(await decision.getByRole('button', { name: APPROVE }).evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight));
  // the inbox shows the same decision, and links to the flow
  await visit.goto('/approvals');
  const row = visit.page.locator('.todo > li').filter({ has: visit.page.locator(`a[href="/flows/${id}"]`) });
  assert.match(await row.innerText(), /Create 2 task pages in Notion\s+Unread mail to tasks in Notion, as \S.*, to \S.*, requested by support-agent, asked for approval [\s\S]*2 writes/);
  // with the same words if it is large, when only what the list shows is read
  const words = await row.innerText(), pad = (to) => dashboard.stack.cluster.sql(`update sluice.flow_doc set waiting_input = (${to})::json where flow_id = '${id}'`);
  await pad("waiting_input::jsonb || jsonb_build_object('pad', repeat('x', 70000))");
  await visit.page.reload();
  assert.equal(await row.innerText(), words);
  await pad("waiting_input::jsonb - 'pad'");
  for (const [label, choice, count] of [['Template', 'Unread mail summary', 0], ['Template', 'any', 1], ['Requested by', 'support-agent', 1]]) {
    await visit.page.getByLabel(label).selectOption(choice);
    await visit.press('Show');
    assert.equal(await row.count(), count, choice);
  }
  await visit.press('Review Create 2 task pages in Notion');
  await visit.page.getByLabel('Note').fill('go <i>on</i>');
  await visit.press('Approve');
  await dashboard.reaches(account, id, 'completed');
  await visit.page.reload();
  // the result, with links to the created pages
  assert.match(await visit.page.locator('#flow-result').innerText(), /^Result\s+Count\s+2\s/);
  const made = (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json.flow.context.created.pages;
  assert.deepEqual(await visit.page.locator('#flow-result a').evaluateAll((all) => all.map((one) => [one.textContent, one.href, one.rel])), made.map(({ title, url }) => [title, url, 'noreferrer']));
  assert.match(await visit.page.locator('#flow-log').innerText(), /Started by support-agent[\s\S]*Approved by [\s\S]*go <i>on<\/i>[\s\S]*Completed/);
  assert.equal(await visit.page.locator('.progress').getAttribute('aria-label'), `${json.steps.length} of ${json.steps.length} steps done`);
  assert.equal(await visit.page.locator('.progress .ok').count() > 0, true);
  await visit.goto('/approvals');
  assert.match(await visit.page.locator('#decided tbody tr').first().innerText(), /approved\s+Create 2 task pages in Notion\s+.*\s+go <i>on<\/i>/);
  await visit.end();
});

// Pages of the emulated task database: one in progress with a date, and one not started and without
// a date.
const TASKS = ['001', '00c'].map((end) => `b3d5f7a9-1c2e-4a6b-8d0f-000000000${end}`);

test('an update shows what changes in each item, and which step read it', async () => {
  const id = await dashboard.start(account, 'reschedule_tasks', { pages: TASKS, due: '2031-12-06', status: 'In progress' });
  const { steps } = await dashboard.reaches(account, id, 'waiting');
  const read = steps.find(({ stepKey }) => stepKey === 'read');
  const visit = await dashboard.signIn(account, { viewport: { width: 1280, height: 900 } });
  await visit.goto(`/flows/${id}`);
  const call = (n) => visit.page.locator('.calls > li').nth(n);
  const table = (n) => call(n).locator('.diff tr').evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
  assert.deepEqual(await visit.page.locator('.calls h3').allInnerTexts(), ['Prepare the offsite in March', 'Clean up the wiki']);
  // a property with an unchanged value is not listed, and one that did not exist is shown as empty
  assert.deepEqual(await table(0), [['Property', 'Now', 'Then'], ['Due', read.output[0].properties.Due.date.start, '2031-12-06']]);
  assert.match(await call(0).locator('.diff + p').innerText(), /^1 further property does not change\. “Now” is what “Notion: Get a page” read .*\.$/);
  assert.equal(await call(0).locator('.diff + p time').getAttribute('datetime'), read.completedAt);
  assert.deepEqual(await table(1), [['Property', 'Now', 'Then'], ['Due', 'empty', '2031-12-06'], ['Status', 'Not started', 'In progress']]);
  assert.match(await call(1).locator('.diff + p').innerText(), /^“Now” is what/);
  assert.match(await call(0).locator('.via').innerText(), /^change\s/);
  await visit.fits();
  await visit.press('Approve');
  await dashboard.reaches(account, id, 'completed');
  const page = await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'notion', action_id: 'get_page', input: { page_id: TASKS[1] } });
  assert.equal(page.json.output.properties.Due.date.start, '2031-12-06');
  // repeating it would change nothing, and the page says so
  const again = await dashboard.start(account, 'reschedule_tasks', { pages: TASKS, due: '2031-12-06' });
  await dashboard.reaches(account, again, 'waiting');
  await visit.goto(`/flows/${again}`);
  assert.equal(await visit.page.locator('.diff').count(), 0);
  assert.match(await call(1).innerText(), /2 properties do not change\. “Now” is what/);
  await visit.end();
});

test('a mail shows its recipients, what leaves the company, and that it cannot be undone', async () => {
  const own = await dashboard.account('mails');
  const mail = (to) => dashboard.start(own, 'mail_with_reminder', { to, subject: `To ${to}`, text: 'Hello' });
  const ids = {
    home: await mail('Anna Keller <anna@eu.EXAMPLE.com>, ben@other.example'),
    away: await mail('"Keller, Anna" <anna@example.com>, Mira <mira@fabrikam.example>'),
    nasty: await mail('boss@example.com <b>@evil.example'),
  };
  for (const id of Object.values(ids)) await dashboard.reaches(own, id, 'waiting');
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const tags = (where) => where.locator('.tag').allInnerTexts();
  const first = visit.page.locator('.calls > li').first();
  await visit.goto(`/flows/${ids.home}`);
  assert.deepEqual(await tags(first), ['send', 'cannot be undone']);
  assert.match(await visit.page.locator('.impact').innerText(), /^2 × Send a message\s+Gmail, to 2 addresses$/);
  await visit.goto(`/flows/${ids.away}`);
  assert.deepEqual(await tags(first), ['send', 'sent outside your company', 'cannot be undone']);
  assert.equal(await first.locator('.facts dd').first().innerText(), '"Keller, Anna" <anna@example.com> Mira <mira@fabrikam.example>');
  assert.deepEqual(await first.locator('.facts strong').allInnerTexts(), ['mira@fabrikam.example']);
  assert.match(await visit.page.locator('.impact').innerText(), /Gmail, to 2 addresses, 1 of them outside your company/);
  assert.deepEqual(await visit.page.locator('.verdict').getByRole('button').allInnerTexts(), ['Reject', 'Approve 2 writes', 'Approve and show next']);
  // the account that it uses, with a link to that connection
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=gmail')).json;
  assert.equal(await visit.page.locator('#flow-about dd a').getAttribute('href'), `/connections/${connections[0].id}`);
  // text that is not an address has no owner
  await visit.goto(`/flows/${ids.nasty}`);
  assert.ok((await tags(first)).includes('sent outside your company'));
  // lists show the same, however long the shown text is
  for (const path of ['/', '/approvals', 'longer', '/', '/approvals']) {
    if (path === 'longer') {
      await lengthen(dashboard.stack, `account_id = '${own.id}'`);
      continue;
    }
    await visit.goto(path);
    const row = (id) => visit.page.locator(`#wait-${id}`);
    assert.deepEqual(await tags(row(ids.home)), ['2 writes', 'cannot be undone']);
    for (const id of [ids.away, ids.nasty]) assert.deepEqual(await tags(row(id)), ['2 writes', 'sent outside your company', 'cannot be undone'], path);
  }
  await visit.end();
});

test('the inbox in parts: soonest to expire first, by requester, and each flow once', async () => {
  const own = await dashboard.account('inbox');
  const [{ id: key }] = JSON.parse(await dashboard.stack.must(['keys', 'list', own.id, '--json']));
  const model = await dashboard.startTasks(own);
  await copyFlow(dashboard.stack, model, 29, 1);
  // all but the first expire, older flows sooner; one in five belongs to a key that does not exist
  await dashboard.stack.cluster.sql(`
    with others as (select id, row_number() over (order by id) n from sluice.flow where account_id = '${own.id}')
    update sluice.flow f set wake_at = case when f.id <> '${model}' then now() + n * interval '1 day' end from others o where f.account_id = '${own.id}' and f.id = o.id;
    update sluice.flow_doc d set actor = 'key:00000000-0000-7000-8000-000000000000' from (select id, row_number() over (order by id) n from sluice.flow where account_id = '${own.id}') o
      where d.account_id = '${own.id}' and d.flow_id = o.id and n % 5 = 0`);
  const order = (await dashboard.stack.cluster.sql(`select string_agg(id::text, ' ' order by wake_at nulls last) from sluice.flow where account_id = '${own.id}'`)).split(' ');
  assert.deepEqual([order.length, order.at(-1)], [30, model]);
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const shown = () => visit.page.locator('#waiting .what').evaluateAll((links) => links.map(({ href }) => href.split('/').at(-1)));
  await visit.goto('/approvals');
  assert.deepEqual(await shown(), order.slice(0, 20));
  await visit.press('Later');
  assert.deepEqual(await shown(), order.slice(20));
  assert.equal(await visit.page.getByRole('link', { name: 'Later' }).count(), 0);
  await visit.press('Sooner');
  assert.deepEqual(await shown(), order.slice(0, 20));
  assert.deepEqual(await visit.page.getByLabel('Requested by').locator('option').evaluateAll((all) => all.map(({ value }) => value)), ['', `key:${key}`, 'key:00000000-0000-7000-8000-000000000000']);
  await visit.page.getByLabel('Requested by').selectOption('key:00000000-0000-7000-8000-000000000000');
  await visit.press('Show');
  assert.equal((await shown()).length, 6);
  assert.match(await visit.page.locator('#waiting').innerText(), /requested by key:00000000-0000-7000-8000-000000000000/);
  for (const [from, text] of [['99', 'This page is empty now.'], ['x', 'Create 2 task pages'], ['101', 'Create 2 task pages']]) {
    await visit.goto(`/approvals?from=${from}`);
    await visit.sees(text);
  }
  await visit.end();
});

// Reaches the element with that name by the Tab key alone. The focus is visible on the way.
async function tabTo(visit, name) {
  for (let i = 0; i < 90; i++) {
    await visit.page.keyboard.press('Tab');
    const { called, isMarked } = await visit.page.evaluate(() => {
      const one = document.activeElement;
      const called = one.getAttribute('aria-label') ?? (one.labels?.[0] ?? one).textContent;
      return { called: called.trim().replace(/\s+/g, ' '), isMarked: one === document.body || getComputedStyle(one).outlineStyle === 'solid' };
    });
    assert.ok(isMarked, `${visit.page.url()}: the focus on "${called}" cannot be seen`);
    if (typeof name === 'string' ? called === name : name.test(called)) return;
  }
  assert.fail(`${visit.page.url()}: no Tab leads to ${name}`);
}
const enter = (visit) => Promise.all([visit.page.waitForNavigation(), visit.page.keyboard.press('Enter')]);

test('only by keyboard: a key is made and revoked, a connection renamed and not disconnected, an app connected', async () => {
  const own = await dashboard.account('keyboard', { apps: ['gmail'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const go = async (...names) => {
    for (const name of names) {
      await tabTo(visit, name);
      await enter(visit);
    }
  };
  await go('API keys', 'New key');
  await tabTo(visit, 'Name');
  await visit.page.keyboard.type('made by keys');
  await tabTo(visit, /^read/);
  await visit.page.keyboard.press('Space');
  await go('Create the key', 'API keys', /^Revoke made by keys sk_/, 'Revoke the key');
  await visit.sees('The key was revoked');
  await go('Apps', 'Gmail', 'Gmail');
  assert.match(visit.page.url(), /\/connections\/\d+$/);
  await tabTo(visit, 'Label');
  await visit.page.keyboard.press('Control+A');
  await visit.page.keyboard.type('work mail');
  await enter(visit);
  assert.equal(await visit.title(), 'work mail');
  await go('Disconnect', 'Keep the connection');
  await visit.page.keyboard.press('Home');
  await go('Apps', 'Probe');
  await tabTo(visit, /^Token/);
  await visit.page.keyboard.type(credentials.probe.token);
  await enter(visit);
  await visit.sees('Connected.');
  assert.equal((await dashboard.call(own, 'GET', '/api/connections')).json.connections.length, 2);
  await visit.end();
});

/* ---- from the overview, at most four clicks to the goal ---- */

async function walk(visit, ...clicks) {
  assert.ok(clicks.length <= 4, `${clicks.length} clicks`);
  await visit.goto('/');
  for (const click of clicks) await click(visit.page);
}
const link = (name, within = 'body') => (page) => Promise.all([page.waitForNavigation(), page.locator(within).getByRole('link', { name }).first().click()]);

test('walks: an approval and its exact writes, who approved and when, why calls fail, a call with curl, a new connection', async () => {
  const person = await dashboard.account('Walker', { apps: ['gmail', 'notion'] });
  const visit = await dashboard.signIn(person, { viewport: { width: 1280, height: 900 } });
  const id = await dashboard.startTasks(person);
  const step = (await dashboard.call(person, 'GET', `/api/flows/${id}`)).json.steps.find(({ status }) => status === 'waiting');
  await walk(visit, link(/^Review /), (page) => page.locator('.decide .items > li').first().locator('summary').last().click());
  const exact = visit.page.locator('.decide .items > li').first().locator('pre').last();
  await exact.waitFor({ state: 'visible' });
  assert.deepEqual(JSON.parse(await exact.innerText()), step.input.items[0].input);

  assert.equal((await dashboard.call(person, 'POST', `/api/flows/${id}/approve`, { note: 'as agreed' })).status, 200);
  await dashboard.reaches(person, id, 'completed');
  await walk(visit, link('Task pages in Notion for unread mails', '#flows'));
  const log = visit.page.locator('#flow-log li', { hasText: 'Approved by' });
  assert.match(await log.innerText(), /as agreed/);
  assert.match(await log.locator('time').getAttribute('datetime'), /^\d{4}-\d\d-\d\dT/);

  const failed = await dashboard.call(person, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input: { id: 'ffffffffffffffff' } });
  await dashboard.counted(person, [['gmail', 'get_message', 'failed', failed.json.error_code, 1]], 1);
  await walk(visit, link(/^Gmail: /, '#fails'), link(/^Gmail: /, 'tbody'));
  await visit.sees(failed.json.error_code);
  await visit.sees(failed.json.message);
  assert.equal(await visit.page.locator('#execution-id').innerText(), failed.json.execution_id);
  const call = /curl .*\/api\/executions[\s\S]*"integration_id": "gmail"[\s\S]*"action_id": "get_message"/;
  assert.match(await visit.page.locator('#curl').innerText(), call);

  await walk(visit, link('Executions', 'nav'), link(/^Gmail: /, 'tbody'));
  assert.match(await visit.page.locator('#curl').innerText(), call);

  await walk(
    visit,
    link('Connect an app'),
    link('Probe', 'main'),
    async (page) => {
      await page.getByLabel('Token', { exact: true }).fill(credentials.probe.token);
      await page.getByLabel('Label').fill('Second');
      await visit.press('Connect');
    },
  );
  await visit.sees('Connected.');
  const { connections } = (await dashboard.call(person, 'GET', '/api/connections?integration_id=probe')).json;
  assert.ok(connections.some(({ label }) => label === 'Second'));
  await visit.end();
});

test('a key without a name is named by its first characters, a flow without a title by its template', async () => {
  const own = await dashboard.account('nameless');
  const [{ prefix, name }] = JSON.parse(await dashboard.stack.must(['keys', 'list', own.id, '--json']));
  assert.ok(!name, 'the account of a test has a key without a name');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const id = await dashboard.startTasks(own);
  const blocked = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 's', text: 't' } });
  assert.equal(blocked.json.status, 'blocked');
  const { json } = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 1 } });
  const sees = async (path, text) => {
    await visit.goto(path);
    // contents of documents are left out; the frame hides the user in a small window
    const all = await visit.page.locator('body').evaluate((body) => [...body.querySelectorAll('pre')].forEach((one) => one.remove()) ?? body.textContent);
    assert.doesNotMatch(all, /key:[0-9a-f]{8}|\(no name\)/, path);
    if (text) assert.ok(all.replace(/\s+/g, ' ').includes(text), `${path}: ${all}`);
  };
  const known = `${prefix}…`;
  await sees('/', `with the key ${known}`);
  await sees('/approvals', 'you asked for this yourself');
  await sees(`/flows/${id}`, `Started by ${known}`);
  await sees('/executions', known);
  await sees('/executions?status=blocked', known);
  await sees(`/executions/${json.execution_id}`, `the key ${known}`);
  await sees('/audit', known);
  assert.equal((await dashboard.call(own, 'POST', `/api/flows/${id}/approve`, {})).status, 200);
  await dashboard.reaches(own, id, 'completed');
  await sees('/approvals', known);
  await sees(`/flows/${id}`, `Approved by ${known}`);
  // a flow of the previous version has no title
  const bare = await dashboard.start(own, 'unread_mail_summary', { maxResults: 1 });
  await dashboard.reaches(own, bare, 'completed');
  await dashboard.stack.cluster.sql(`update sluice.flow set title = null where id = '${bare}'`);
  await visit.goto(`/flows/${bare}`);
  assert.equal(await visit.title(), 'Unread mail summary');
  assert.match(await visit.page.locator('#step-read h3').innerText(), /^Read each mail Gmail, 1 call$/);
  await visit.end();
});
