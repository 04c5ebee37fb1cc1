// What a reader gets from a page in their own place: times in their zone, also as ages that stay
// true on an open page, in UTC without a script; on paper; and on a phone. On the release build, since a page's
// markup does not depend on the build.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { COLOR_RULES } from './support/browser.mjs';
import { Dashboard, PHONE } from './support/dashboard.mjs';

const ZONE = 'Asia/Kolkata'; // half an hour off the hours of UTC, and no summer time
const [MIN_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000];

let dashboard, account, waiting, completed, paths;

before(async () => {
  dashboard = await Dashboard.start({ bin: process.env.SLUICE_RELEASE_BIN });
  account = await dashboard.account('Reader');
  waiting = await dashboard.startTasks(account);
  completed = await dashboard.start(account, 'unread_mail_summary', { maxResults: 2 });
  await dashboard.reaches(account, completed, 'completed');
  await dashboard.counted(account, [['gmail', 'list_messages', 'succeeded', '', 90], ['notion', 'create_page', 'failed', 'timeout', 12, 'too late']], 20);
  const { json } = await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 3 } });
  const { connections } = (await dashboard.call(account, 'GET', '/api/connections')).json;
  paths = ['/', '/approvals', '/flows', `/flows/${waiting}`, `/flows/${completed}`, `/flows/${waiting}/cancel`, '/executions', `/executions/${json.execution_id}`, '/connections', `/connections/${connections[0].id}`, '/keys', '/audit'];
});
after(() => dashboard?.stop());

const timesOf = (visit) => visit.page.locator('main time').evaluateAll((all) => all.map((one) => ({ at: one.dateTime, text: one.textContent, title: one.title, isAxis: one.closest('.x') !== null, isStatus: one.closest('[role=status]') !== null })));
const utc = (at) => `${at.slice(0, 10)} ${at.slice(11, 16)} UTC`;
const format = (style) => new Intl.DateTimeFormat('en-US', { timeZone: ZONE, ...style });
const date = format({ dateStyle: 'medium', timeStyle: 'short' });
const exact = format({ dateStyle: 'medium', timeStyle: 'long' });

test('without a script each time is in UTC', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false, timezoneId: ZONE });
  for (const path of paths) {
    await visit.goto(path);
    const times = (await timesOf(visit)).filter(({ isAxis }) => !isAxis);
    assert.ok(times.length > 0, `${path} has no times`);
    for (const { at, text, title } of times) assert.deepEqual([text, title], [utc(at), ''], path);
    await visit.fits();
  }
  await visit.end();
});

test('with it each time is an age, with the exact time in the reader’s zone; charts are in that zone', async () => {
  const visit = await dashboard.signIn(account, { timezoneId: ZONE, locale: 'en-US' });
  for (const path of paths) {
    await visit.goto(path);
    const times = (await timesOf(visit)).filter(({ isAxis }) => !isAxis);
    assert.ok(times.length > 0, `${path} has no times`);
    for (const { at, text, title, isStatus } of times) {
      assert.equal(title, exact.format(new Date(at)), path);
      // a status is read out at each change of its text, so it has no ages
      if (isStatus) assert.equal(text, date.format(new Date(at)), path);
      else assert.match(text, /^(just now|\d+ (min|h|days) ago|in \d+ (min|h|days))$/, path);
    }
    // every other statement of a time is in the same zone, except in mails
    assert.doesNotMatch((await visit.text()).replaceAll(/received \S+ \S+ UTC/g, ''), /\d UTC\b/, path);
  }
  await visit.goto('/');
  const tick = format({ hour: 'numeric', minute: '2-digit' });
  for (const { at, text } of (await timesOf(visit)).filter(({ isAxis }) => isAxis)) assert.equal(text, tick.format(new Date(at)));
  assert.equal(await visit.page.locator('.x > span').textContent(), 'GMT+5:30');
  const last = await visit.page.locator('.hit path title').last().textContent();
  const hour = new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS);
  assert.match(last, /^\w{3} \d+, \d{4}, \d+:\d\d [AP]M: \d+ succeeded, \d+ failed$/);
  const columns = [-1, 0, 1].map((n) => date.format(new Date(hour.getTime() + n * HOUR_MS)));
  assert.ok(columns.some((one) => last.startsWith(one)), `${last} is none of ${columns}`);
  assert.match(await visit.page.getByRole('img', { name: /in total/ }).getAttribute('aria-label'), /; most at \w{3} \d+, \d{4}, \d+:\d\d [AP]M$/);
  await visit.press('30 days');
  for (const { at, text } of (await timesOf(visit)).filter(({ isAxis }) => isAxis)) assert.equal(text, format({ month: 'short', day: 'numeric' }).format(new Date(at)));
  await visit.end();
});

test('an age stays true on an open page, and is rounded down; a time more than a week ago is a date', async () => {
  const visit = await dashboard.signIn(account, { timezoneId: ZONE, locale: 'en-US' });
  await visit.goto('/executions');
  const time = visit.page.locator('tbody time:visible').first();
  const at = Date.parse(await time.getAttribute('datetime'));
  await visit.page.clock.install({ time: at });
  await visit.goto('/executions');
  // the script writes them again every 20 s
  for (const [ms, text] of [
    [10_000, 'just now'], [MIN_MS, '1 min ago'], [5 * MIN_MS - 21_000, '4 min ago'], [HOUR_MS - 21_000, '59 min ago'], [HOUR_MS, '1 h ago'],
    [2 * DAY_MS - 21_000, '47 h ago'], [2 * DAY_MS, '2 days ago'], [7 * DAY_MS - 21_000, '6 days ago'], [7 * DAY_MS, date.format(at)],
  ]) {
    await visit.page.clock.pauseAt(at + ms);
    await visit.page.clock.runFor(20_000);
    assert.equal(await time.textContent(), text, `${ms} ms`);
  }
  await visit.end();
});

test('on paper: exact times, and ages again afterwards', async () => {
  const visit = await dashboard.signIn(account, { timezoneId: ZONE, locale: 'en-US' });
  await visit.goto(`/flows/${waiting}`);
  await visit.page.evaluate(() => {
    globalThis.ages = [...document.querySelectorAll('main time')].map((one) => one.textContent);
    addEventListener('beforeprint', () => (globalThis.printed = [...document.querySelectorAll('main time')].map((one) => [one.textContent, one.dateTime])));
  });
  await visit.page.pdf();
  const [printed, ages] = await visit.page.evaluate(() => [globalThis.printed, globalThis.ages]);
  assert.ok(printed.length > 3);
  // with the account and the time of printing
  await visit.page.emulateMedia({ media: 'print' });
  assert.match(await visit.page.locator('.who').innerText(), /Reader\s+with the key/);
  assert.match(await visit.page.locator('.who').evaluate((one) => getComputedStyle(one, '::after').content), /^"\w{3} \d+, \d{4}, .*GMT\+5:30"$/);
  await visit.page.emulateMedia({ media: null });
  for (const [text, at] of printed) assert.equal(text, exact.format(new Date(at)));
  for (const age of ages) assert.match(age, /now|ago|in/);
  const plain = await dashboard.signIn(account, { javaScriptEnabled: false });
  await plain.goto(`/flows/${waiting}`);
  assert.match(await plain.page.locator('.who').getAttribute('data-at'), /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
  await until('the ages are back', async () => (await timesOf(visit)).every(({ text }) => /^just now$|^\d+ min ago$|^in /.test(text)));
  await visit.end();
});

/* ---- on a phone ---- */

const boxes = (visit, selector) => visit.page.locator(selector).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()));

for (const javaScriptEnabled of [true, false])
  test(`a phone: the navigation is a menu, ${javaScriptEnabled ? 'with' : 'without'} a script`, async () => {
    const visit = await dashboard.signIn(account, { ...PHONE, javaScriptEnabled });
    const links = visit.page.locator('.nav').getByRole('link');
    assert.equal(await links.count(), 0, 'it is closed at first');
    assert.ok((await boxes(visit, '.side'))[0].height < 60);
    await visit.page.getByText('Menu', { exact: true }).click();
    assert.deepEqual((await links.allInnerTexts()).map((text) => text.trim().split(/\s/)[0]), ['Overview', 'Approvals', 'Flows', 'Executions', 'Apps', 'Connections', 'API', 'Audit', 'Docs', 'Sign']);
    assert.match(await visit.page.locator('.who').innerText(), /Reader\s+with the key/);
    for (const { height, width } of await boxes(visit, '.nav a, .nav button')) assert.ok(height >= 44 && width > 300, `${width} x ${height}`);
    await visit.fits();
    await visit.page.getByText('Menu', { exact: true }).click();
    assert.equal(await links.count(), 0, 'it is closed again');
    await visit.page.getByText('Menu', { exact: true }).click();
    await visit.press('API keys');
    assert.equal(await visit.title(), 'API keys');
    await visit.end();
  });

test('a phone: lists have rows of two lines, whose main column has at least 60 % of the width', async () => {
  const visit = await dashboard.signIn(account, PHONE);
  let rows = 0;
  for (const path of paths) {
    await visit.goto(path);
    for (const [row, width, cells] of await visit.page.locator('.table:not(.diff, .wrap) tbody tr:visible').evaluateAll((all) => all.map((one) => [one.innerText, one.getBoundingClientRect().width, [...one.cells].map((cell) => cell.getBoundingClientRect().width)]))) {
      assert.ok(Math.max(...cells) >= 0.6 * width, `${path}: ${row}: ${cells} of ${width}`);
      rows++;
    }
  }
  assert.ok(rows > 15, `${rows} rows`);
  await visit.goto('/flows');
  for (const { height } of await boxes(visit, '#flows tbody tr')) assert.ok(height <= 64, `a flow's row has ${height} pixels`);
  await visit.end();
});

test('a phone: the bar of a decision is one line, and does not hide the whole decision', async () => {
  const visit = await dashboard.signIn(account, PHONE);
  await visit.goto(`/flows/${waiting}`);
  const [bar] = await boxes(visit, '.verdict');
  assert.ok(bar.height <= 64, `${bar.height} pixels`);
  assert.ok(bar.bottom <= PHONE.viewport.height, 'it is in the window');
  const parts = await boxes(visit, '.verdict :is(textarea, button):not(.nearly)');
  assert.equal(parts.length, 3);
  for (const { top, height, width } of parts) assert.ok(top === parts[0].top && height >= 44 && width >= 60, JSON.stringify(parts));
  assert.equal(await visit.page.getByRole('textbox', { name: /^Note for the audit trail/ }).count(), 1);
  await visit.end();
});

test('a phone: the overview of an account with much in it is at most three screens, and is accessible', async () => {
  const busy = await dashboard.account('Busy');
  for (let i = 0; i < 12; i++) await dashboard.startTasks(busy);
  const apps = ['gmail', 'notion', 'slack', 'github', 'hubspot', 'zendesk', 'linear', 'jira', 'asana'];
  await dashboard.counted(busy, apps.flatMap((app) => [[app, 'list', 'succeeded', '', 5000], [app, 'get', 'failed', 'timeout', 40, 'The app did not answer in time']]), 20);
  const visit = await dashboard.signIn(busy, PHONE);
  for (const id of ['waiting', 'executions', 'fails', 'apps', 'flows']) assert.ok(await visit.page.locator(`#${id}`).isVisible(), id);
  const height = await visit.page.evaluate(() => document.documentElement.scrollHeight);
  const parts = await visit.page.locator('[data-live] > *').evaluateAll((all) => all.map((one) => `${one.id} ${one.offsetHeight}`));
  assert.ok(height <= 3 * PHONE.viewport.height, `${height} pixels: ${parts}`);
  await visit.fits();
  await visit.isAccessible();
  await visit.page.emulateMedia({ colorScheme: 'dark' });
  await visit.isAccessible(COLOR_RULES);
  await visit.page.getByText('Menu', { exact: true }).click();
  await visit.isAccessible();
  await visit.end();
});

/* ---- fingers and keys ---- */

test('links and buttons outside of a text are at least 24 pixels high', async () => {
  const visit = await dashboard.signIn(account);
  let count = 0;
  for (const path of paths) {
    await visit.goto(path);
    // a link in a sentence is exempt (WCAG 2.5.8)
    const small = await visit.page.locator('main :is(a, button, summary):visible').evaluateAll((all) => all.filter((one) => !one.closest('p, dd, li > span') || one.matches('.button')).map((one) => [one.outerHTML, one.getBoundingClientRect().height]));
    count += small.length;
    assert.deepEqual(small.filter(([, height]) => height < 24), [], path);
  }
  assert.ok(count > 50, `${count} links`);
  await visit.end();
});

test('what gets the focus is never below the bar of a decision', async () => {
  const visit = await dashboard.signIn(account, { viewport: { width: 1000, height: 500 } });
  await visit.goto(`/flows/${waiting}`);
  // each element as the browser would leave it: at the lower edge of the window, where the bar is
  const found = await visit.page.locator('#main .calls :is(a, summary):visible').evaluateAll((all) => all.map((one) => {
    scrollBy(0, one.getBoundingClientRect().bottom - innerHeight + 8);
    const bar = document.querySelector('.verdict');
    const isBelow = () => one.getBoundingClientRect().bottom > bar.getBoundingClientRect().top && bar.getBoundingClientRect().bottom > one.getBoundingClientRect().top;
    const was = isBelow();
    one.focus();
    return [was, isBelow()];
  }));
  assert.ok(found.filter(([was]) => was).length > 1, `${found}`);
  assert.deepEqual(found.filter(([, is]) => is), []);
  await visit.end();
});
