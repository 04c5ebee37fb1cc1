// What people read on the overview, and of one app's calls: numbers, charts with their texts, and the
// first things to do.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { until } from './support/client.mjs';
import { Dashboard, menu } from './support/dashboard.mjs';
import { credentials } from './support/stack.mjs';

let dashboard;

before(async () => {
  dashboard = await Dashboard.start();
});
after(() => dashboard?.stop());

test('the overview: calls over a period as a chart with its text, what fails by code, calls by app', async () => {
  const other = await dashboard.account('Counted');
  const visit = await dashboard.signIn(other, { viewport: { width: 1280, height: 900 } });
  await visit.sees('Nothing was counted in this period');
  await visit.sees('Get started');
  await dashboard.counted(other, [
    ['gmail', 'list_messages', 'succeeded', '', 1200],
    ['gmail', 'send_message', 'failed', 'timeout', 30, 'Gmail said: <i>too late</i> & gone'],
    ['notion', 'create_page', 'blocked', 'policy_blocked', 7],
    ['', '', 'blocked', 'integration_not_found', 1],
  ]);
  // the day before is counted in whole hours; its last hour counts only up to the current minute
  await dashboard.counted(other, [['gmail', 'list_messages', 'succeeded', '', 1800], ['gmail', 'send_message', 'failed', 'timeout', 57]], 2, 26);
  await visit.goto('/');
  const chart = visit.page.getByRole('img', { name: /^3,714 in total: 3,600 succeeded, 90 failed, 24 blocked; most at \w{3} \d+, \d{4}, \d+:\d\d [AP]M$/ });
  assert.equal(await chart.locator('path').count() > 24, true);
  assert.equal(await chart.locator('.hit path').count(), 24);
  assert.match(await chart.locator('.hit path').last().locator('title').textContent(), /[AP]M: 1,200 succeeded, 30 failed, 8 blocked$/);
  const kpis = async () => (await visit.page.locator('.kpi').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());
  const [calls, share, time] = await kpis();
  assert.equal(calls, '3,714 as many as the day before');
  assert.equal(share, '2.4 % of all calls that were tried; 3.1 % the day before');
  assert.match(time, /^\d+ ms 95 % of calls took less\. The median is \d+ ms\.$/);
  assert.deepEqual(await visit.page.locator('.plot').first().locator('.y span').allTextContents(), ['2,000', '1,000', '0']);
  // lines of the failure rate of calls that were sent, and of the response times: three equal hours
  const lines = visit.page.locator('#executions .split .plot');
  assert.deepEqual((await lines.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim()), ['4 % 2 % 0', '200 ms 100 ms 0']);
  const points = async (i) => (await visit.page.locator('#executions .line').nth(i).getAttribute('d')).split(/[ML]/).slice(1).map((one) => one.split(' ').map(parseFloat));
  for (const [i, low, high] of [[0, 390, 400], [1, 300, 500], [2, 200, 300]]) {
    const found = await points(i);
    assert.deepEqual(found.map(([x]) => x), [430, 450, 470], `line ${i}`);
    for (const [, y] of found) assert.ok(y >= low && y <= high, `line ${i}: ${y}`);
  }
  const fails = visit.page.locator('#fails tbody tr');
  // the time of the last failure; it is unknown for rows that a server of the previous version
  // wrote
  assert.deepEqual((await fails.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').replace(/\d+ min ago|just now/, 'ago')), ['Gm Gmail: Send a message timeout Gmail said: <i>too late</i> & gone 90 failed ago', 'No Notion: Create a page policy_blocked 21 blocked -', 'Unknown app integration_not_found 3 blocked -']);
  assert.match(await fails.first().locator('time').getAttribute('datetime'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:00.000Z$/);
  assert.deepEqual(await rowsOf(visit, '#apps'), ['GM Gmail 3,690 2.4 % N ms works', 'NO Notion 21 - - blocked', 'Unknown app 3 - - blocked'].map((row) => row.replace(/^[A-Z]{2} /, '')));
  // one stroke for each hour that had calls, all of the same height
  assert.match(await visit.page.locator('#apps .spark path').first().getAttribute('d'), /^M86 20V0M90 20V0M94 20V0$/);
  // the other periods, and a URL with an unknown period
  for (const [name, columns] of [['1 h', 12], ['7 days', 28], ['30 days', 30]]) {
    await visit.press(name);
    assert.equal(await visit.page.locator('.hit path').count(), columns, name);
    assert.equal(await visit.page.locator('.seg [aria-current]').innerText(), name);
  }
  await visit.goto('/?hours=none');
  assert.equal(await visit.page.locator('.seg [aria-current]').innerText(), '24 h');
  await visit.end();
});

// Rows of a table as people read them, without the letters that mark apps, and with N for
// milliseconds.
const rowsOf = async (visit, part) =>
  (await visit.page.locator(`${part} tbody tr`).evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => [...cell.querySelectorAll('.app')].reduce((text, mark) => text.replace(mark.textContent, ''), cell.textContent).trim()).join(' '))))
    .map((text) => text.replace(/\s+/g, ' ').replace(/\d+ ms/, 'N ms'));

test('the overview: apps by health, then connected ones without calls, eight in total', async () => {
  const own = await dashboard.account('Apps', { apps: ['gmail', 'notion', 'probe'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  assert.deepEqual(await rowsOf(visit, '#apps'), ['Gmail 0 - - no calls', 'Notion 0 - - no calls', 'Probe 0 - - no calls']);
  await dashboard.counted(own, [
    ['notion', 'create_page', 'succeeded', '', 19], ['notion', 'create_page', 'failed', 'execution_failed', 1], // one in 20
    ['slack', 'send_message', 'succeeded', '', 10, null, 12], // over two seconds
    ['github', 'list_issues', 'succeeded', '', 9], ['probe', 'read_label', 'blocked', 'reauth_required', 2],
  ]);
  await dashboard.stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'gone' where account_id = '${own.id}' and integration_id = 'probe'`);
  await visit.goto('/');
  assert.deepEqual(await rowsOf(visit, '#apps'), ['Notion 60 5.0 % N ms failing', 'Slack 30 0.0 % 3.9 s slow', 'GitHub 27 0.0 % N ms works', 'Probe 6 - - reconnect', 'Gmail 0 - - no calls']);
  assert.match((await visit.page.locator('#waiting').innerText()).replace(/\s+/g, ' '), /^Needs you 1 All approvals Pr Probe needs to be reconnected: \S+ gone\. Until then, calls that use it are refused: 6 calls to Probe in the last 24 h\. 6 blocked Reconnect$/);
  assert.equal((await menu(visit).locator('a[href="/connections"]').textContent()).trim(), 'Connections, to reconnect: 1');
  await dashboard.counted(own, ['asana', 'jira', 'stripe', 'zendesk', 'hubspot'].map((app) => [app, 'x', 'succeeded', '', 1]));
  await visit.goto('/');
  assert.equal((await rowsOf(visit, '#apps')).length, 8);
  await visit.press('All apps');
  assert.equal(new URL(visit.page.url()).pathname, '/integrations');
  await visit.end();
});

test('the overview: the last failure’s message comes from the call itself', async () => {
  const own = await dashboard.account('Said', { apps: ['gmail'] });
  const failed = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input: { id: 'ffffffffffffffff' } });
  assert.equal(failed.json.status, 'failed');
  // counts are written every ten seconds
  await until('it is counted', async () => (await dashboard.call(own, 'GET', '/api/stats')).json.by_error.length > 0);
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const [row] = await rowsOf(visit, '#fails');
  assert.ok(row.startsWith(`Gmail: Get a message${failed.json.error_code} ${failed.json.message.slice(0, 120)}`), row);
  assert.match(row, / 1 failed just now$/);
  await visit.end();
});

test('an app’s page: its calls over time, the share that failed and p95, with a table', async () => {
  const own = await dashboard.account('One app', { apps: ['gmail', 'notion'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  await visit.goto('/integrations/gmail');
  await visit.sees('Nothing was counted in this period');
  await dashboard.counted(own, [
    ['gmail', 'list_threads', 'succeeded', '', 18], ['gmail', 'send_message', 'failed', 'timeout', 2, null, 11], ['gmail', 'send_message', 'blocked', 'policy_blocked', 1],
    ['notion', 'create_page', 'succeeded', '', 500],
  ], 2);
  await visit.goto('/integrations/gmail');
  const kpis = async () => visit.page.locator('.kpi strong').allInnerTexts();
  assert.deepEqual((await kpis()).slice(0, 2), ['42', '10.0 %']);
  assert.match((await kpis())[2], /^\d/);
  const rows = visit.page.locator('#executions tbody tr');
  assert.equal(await rows.count(), 2);
  await visit.page.getByText('The numbers as a table').click();
  const cells = await rows.first().locator('td').allInnerTexts();
  assert.deepEqual(cells.slice(1, 5), ['18', '2', '1', '10.0 %']);
  assert.equal(cells[5], (await kpis())[2]);
  await visit.press('7 days');
  assert.equal(`${new URL(visit.page.url()).pathname}${new URL(visit.page.url()).search}`, '/integrations/gmail?hours=168');
  assert.equal((await kpis())[0], '42');
  assert.equal(await visit.page.getByRole('link', { name: 'See which' }).getAttribute('href'), '/executions?status=failed&period=7d&app=gmail');
  // more rows than are read individually
  await dashboard.counted(own, Array.from({ length: 200 }, (_, i) => ['gmail', `action_${i}`, 'succeeded', '', 1]), 20);
  await visit.goto('/integrations/gmail?hours=24');
  assert.equal((await kpis())[0], '4,042');
  // the sums of all apps are cached, those of one app are not
  for (const [path, sum] of [['/?hours=24', '5,042'], ['/integrations/gmail?hours=24', '4,042'], ['/?hours=24', '5,042']]) {
    await visit.goto(path);
    assert.equal((await kpis())[0], sum, path);
  }
  // neither calls nor a connection: only a chosen period is shown, from which others can be chosen
  await visit.goto('/integrations/slack');
  assert.equal(await visit.page.locator('#executions').count(), 0);
  await visit.goto('/integrations/slack?hours=1');
  await visit.sees('Nothing was counted in this period');
  await visit.press('30 days');
  await visit.end();
});

test('the overview of an account with many numbers: ended calls are added up once, new ones appear at once, and only its own count', async () => {
  const [busy, quiet] = [await dashboard.account('Busy', { apps: [] }), await dashboard.account('Quiet', { apps: [] })];
  const apps = Array.from({ length: 60 }, (_, i) => [`app_${i}`, 'list', 'succeeded', '', 2]);
  await dashboard.counted(busy, apps, 20);
  const visit = await dashboard.signIn(busy);
  const sum = async () => Number((await visit.page.locator('.kpi strong').first().innerText()).replaceAll(',', ''));
  assert.equal(await sum(), 2400); // for more rows than are read individually
  // checks that the sum grows by this number during a change; repeats if a new hour begins in
  // between
  const grows = (what, by, change) =>
    until(what, async () => {
      await visit.goto('/');
      const before = await sum();
      await dashboard.stack.cluster.sql(change);
      await visit.goto('/');
      return (await sum()) === before + by;
    });
  await grows('past times are cached', 0, `update sluice.tally set calls = calls + 1 where account_id = '${busy.id}' and slot < now() - interval '30 min'`);
  await grows('new calls are added', 7, `insert into sluice.tally as t select '${busy.id}', date_bin('5 min', now(), 'epoch'), 'app_new', 'list', 'succeeded', '', false, 7, 7, array_fill(7, array[16])
    on conflict (account_id, slot, integration_id, action_id, outcome, error_code) do update set calls = t.calls + 7`);
  const other = await dashboard.signIn(quiet);
  await other.sees('Nothing was counted in this period');
  await other.end();
  await visit.press('1 h'); // another period is another sum
  assert.ok((await sum()) < 2400, `${await sum()}`);
  await visit.end();
});

test('the first day: five first things to do, ticked as they are done, and no empty sections', async () => {
  const own = await dashboard.account('first day', { apps: [] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const begin = visit.page.locator('#begin');
  const done = async () => [(await begin.locator('header .soft').innerText()), (await begin.locator('li.done h3').allInnerTexts()).join()];
  const panels = async () => (await visit.page.locator('main h2:visible').allInnerTexts()).filter((name) => !['Failed', 'Time'].includes(name)); // panels of calls that have been counted by then
  assert.deepEqual(await done(), ['1 of 5 done', 'Sign in']);
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions']);
  assert.match(await begin.innerText(), /With the key sk_\S+, which may read, execute, approve, administer\./);
  await visit.isAccessible();
  await dashboard.stack.connect(own.id, 'notion', credentials.notion, ['--label', 'Team']);
  await visit.goto('/');
  assert.deepEqual(await done(), ['2 of 5 done', 'Sign in,Connect an app']);
  await begin.getByText('Notion as Team.').waitFor();
  // running the shown command, a read of that app, ticks off the next item
  const command = await visit.page.locator('#begin-curl').textContent();
  assert.match(command, /"integration_id": "notion"/);
  await promisify(execFile)('sh', ['-c', command.replace('curl ', 'curl -s ')], { env: { ...process.env, SLUICE_KEY: own.key } });
  await visit.goto('/');
  assert.deepEqual(await done(), ['3 of 5 done', 'Sign in,Connect an app,Run an action']);
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions', 'What fails', 'Apps']);
  // an open page inserts a panel for the new flow
  const flow = await dashboard.start(own, 'probe_wait', { seconds: 3600 });
  await visit.page.locator(`#flow-${flow}`).waitFor();
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions', 'What fails', 'Apps', 'Latest flows']);
  await dashboard.reaches(own, flow, 'waiting');
  await dashboard.keyOf(own, 'agent');
  await visit.goto('/');
  assert.equal(await begin.count(), 0);
  assert.deepEqual(await panels(), ['Needs you', 'Executions', 'What fails', 'Apps', 'Latest flows']);
  await visit.end();
  // a user who began in another way gets no advice on how to begin
  const other = await dashboard.account('own way', { apps: [] });
  for (let n = 0; n < 8; n++) await dashboard.start(other, 'probe_wait', { seconds: 3600 });
  const second = await dashboard.signIn(other, { javaScriptEnabled: false });
  assert.equal(await second.page.locator('#begin').count(), 0);
  await second.end();
});
