// The look of the dashboard: axe-core on every page (each route of src/web/web.c, by GET and by
// POST), with the rules about colors also in the dark scheme, and the screenshots in the README,
// which are made in build/screenshots (committed under contrib/screenshots with the words that they
// show; copy all of them when a pictured page changes). On the release build,
// since a page's markup does not depend on the build.
import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { COLOR_RULES } from './support/browser.mjs';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { must } from './support/process.mjs';
import { credentials } from './support/stack.mjs';

const PICTURES = new URL('../../build/screenshots/', import.meta.url).pathname;
const COMMITTED = new URL('../../contrib/screenshots/', import.meta.url);
const PICTURE_BYTES_MAX = 64e3;
const SCRIPT_BYTES_MAX = 4e3; // gzipped

let dashboard, account, waiting, failed, completed, good, bad, connection;

before(async () => {
  dashboard = await Dashboard.start({ bin: process.env.SLUICE_RELEASE_BIN });
  account = await dashboard.account('Look');
  const execute = (integration_id, action_id, input) =>
    dashboard.call(account, 'POST', '/api/executions', { integration_id, action_id, input });
  waiting = await dashboard.startTasks(account);
  failed = await dashboard.startTasks(account, { maxResults: 1 });
  await dashboard.provider.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, action: { status: 400 } }]);
  await dashboard.call(account, 'POST', `/api/flows/${failed}/approve`, {});
  await dashboard.reaches(account, failed, 'failed');
  await dashboard.provider.faults([]);
  completed = await dashboard.start(account, 'unread_mail_summary', { maxResults: 2 });
  await dashboard.reaches(account, completed, 'completed');
  connection = (await dashboard.call(account, 'GET', '/api/connections?integration_id=gmail')).json.connections[0].id;
  await dashboard.counted(account, [['gmail', 'list_messages', 'succeeded', '', 90], ['gmail', 'send_message', 'succeeded', '', 30], ['notion', 'create_page', 'failed', 'timeout', 12], ['notion', 'get_page', 'blocked', 'rate_limited', 9]], 20);
  good = await execute('gmail', 'list_messages', { maxResults: 3 });
  await dashboard.stack.must(['oauth-clients', 'set', 'hubspot', '--account', account.id, '--client-id', 'look', '--client-secret-file', '-'], { input: 'secret\n' });
  await dashboard.call(account, 'POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe }, { 'sluice-user': 'ada' });
  bad = await execute('notion', 'get_page', { page_id: '00000000-0000-4000-8000-000000000000' });
});
after(() => dashboard?.stop());

// Chromium may refuse to capture a page once, without a reason in the page.
const capture = (visit, path) =>
  visit.page.screenshot({ path }).catch((error) => {
    if (!error.message.includes('Unable to capture screenshot')) throw error;
  });

async function picture(visit, name) {
  const path = join(PICTURES, `${name}.png`);
  await until('the browser captures the page', () => capture(visit, path));
  await must('pngquant', ['64', '--strip', '--force', '--output', path, path]);
  const { size } = await stat(path);
  assert.ok(size < PICTURE_BYTES_MAX, `${name}.png has ${size} bytes`);
}

const open = async (visit) => {
  for (const one of await visit.page.locator('details').all()) await one.evaluate((element) => (element.open = true));
};

const PHONE = { width: 390, height: 800 };
const DESK = { width: 1280, height: 900 };

// The routes that answer with a page, from the route table.
async function routes() {
  const source = await readFile(new URL('../../src/web/web.c', import.meta.url), 'utf8');
  const all = [...source.matchAll(/\{HTTP_METHOD_(\w+), "([^"]+)"/g)].map(([, method, path]) => ({ method, path }));
  assert.ok(all.length > 30, `${all.length} routes`);
  return all.filter(({ path }) => !['/assets/{name}', '/audit.csv'].includes(path) && !path.endsWith('/events'));
}

const matches = (pattern, url) => new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(new URL(url).pathname);

test('each class and variable of the style sheet, and each icon, is used by a page, and the built sheet has the same content', async () => {
  const web = new URL('../../src/web/', import.meta.url);
  const sheet = await readFile(new URL('assets/style.css', web), 'utf8');
  const names = (await readdir(new URL('pages/', web))).filter((name) => name.endsWith('.html'));
  const pages = (await Promise.all(names.map((name) => readFile(new URL(`pages/${name}`, web), 'utf8')))).join('');
  const values = [...pages.matchAll(/\bclass="([^"]*)"/g)].map(([, value]) => value).join(' ');
  const words = new Set(`${values} ${await readFile(new URL('assets/app.mjs', web), 'utf8')}`.match(/[\w-]+/g));
  const begins = [...values.matchAll(/([\w-]+)\$\{/g)].map(([, begin]) => begin); // h${ground}
  const plain = sheet.replace(/\/\*.*?\*\//gs, '');
  const classes = [...plain.replace(/\{[^{}]*\}/g, '').matchAll(/\.([a-z][\w-]*)/gi)].map(([, name]) => name);
  assert.ok(classes.length > 100, `${classes.length} classes`);
  assert.deepEqual(classes.filter((name) => !words.has(name) && !begins.some((begin) => name.startsWith(begin))), []);
  const variables = [...plain.matchAll(/(--[\w-]+):/g)].map(([, name]) => name);
  assert.deepEqual(variables.filter((name) => !plain.includes(`var(${name})`)), []);
  // each icon of the sprite is also used, by its name
  const icons = [...pages.matchAll(/ id="i-([a-z]+)"/g)].map(([, name]) => name);
  assert.ok(icons.length > 10, icons.join());
  const verbs = await readFile(new URL('effect.c', web), 'utf8');
  assert.deepEqual(icons.filter((name) => !pages.includes(`"icon" with="'${name}'"`) && !pages.includes(`#i-${name}"`) && !verbs.includes(`"${name}"`)), []);
  const visit = await dashboard.browser.visit(dashboard.base);
  await visit.goto('/sign-in');
  // the browser keeps the values of variables as they were written
  const [served, written] = await visit.page.evaluate((text) => {
    const own = new CSSStyleSheet();
    own.replaceSync(text);
    return [document.styleSheets[0], own].map((one) => [...one.cssRules].map((rule) => rule.cssText.replaceAll(', ', ',')));
  }, sheet);
  assert.ok(written.length > 150, `${written.length} rules`);
  assert.deepEqual(served, written);
  await visit.end();
});

// Posts one of our forms with nothing filled in, and returns the page that reports the errors.
async function post(visit, path) {
  await visit.goto('/keys/new');
  await Promise.all([
    visit.page.waitForNavigation(),
    visit.page.evaluate((action) => {
      const form = Object.assign(document.createElement('form'), { method: 'post', action });
      form.append(document.querySelector('[name=csrf]').cloneNode());
      document.body.append(form);
      form.submit();
    }, path),
  ]);
}

// Visits each page once: all rules in the light scheme, then the rules about colors in the dark
// scheme.
const findings = { light: [], dark: [] };
let walked;

async function checkBoth(one) {
  for (const colorScheme of ['light', 'dark']) {
    await one.page.emulateMedia({ colorScheme });
    findings[colorScheme].push(...(await one.findings(colorScheme === 'dark' ? COLOR_RULES : undefined)));
    await one.fits();
  }
  await one.page.emulateMedia({ colorScheme: 'light' });
}

async function walk() {
  const seen = [];
  const check = async (one, method = 'GET') => {
    await checkBoth(one);
    seen.push({ method, url: one.page.url() });
  };
  const stranger = await dashboard.browser.visit(dashboard.base);
  await stranger.goto('/sign-in');
  await check(stranger);
  await stranger.page.getByLabel('API key').fill('sk_no');
  await stranger.press('Sign in');
  await check(stranger, 'POST');
  const link = await dashboard.call(account, 'POST', '/api/connect/sessions', { integration_id: 'probe', return_url: 'https://agent.example/' });
  await stranger.goto(new URL(link.json.url).pathname);
  await check(stranger);
  await stranger.press('Continue');
  await check(stranger);
  await stranger.goto('/flows');
  await check(stranger);
  await stranger.goto('/nowhere');
  assert.equal(await stranger.title(), 'Not found');
  await check(stranger);
  await stranger.end();
  const visit = await dashboard.signIn(account);
  const known = await routes();
  const flows = [waiting, failed, completed].map((id) => `/flows/${id}`);
  const executions = [good, bad].flatMap(({ json }) => [`/executions/${json.execution_id}`, `/executions/${json.execution_id}/again`]);
  await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@b.example', subject: 's', text: 't' } });
  const blockedOf = () => dashboard.stack.cluster.sql(`select id from sluice.audit_event where account_id = '${account.id}' and kind = 'execution.blocked' limit 1`);
  await until('the event is written', async () => (await blockedOf()) !== '');
  const blocked = await blockedOf();
  executions.push(`/executions/${blocked}`, `/executions/${blocked}/again`);
  const apps = ['gmail', 'probe', 'twilio', 'salesforce', 'zendesk', 'hubspot', 'hubspot/client/delete'].map((id) => `/integrations/${id}`).concat('/integrations/gmail/actions/send_message', '/integrations/gmail/actions/none');
  const { connections } = (await dashboard.call(account, 'GET', '/api/connections')).json;
  const keys = JSON.parse(await dashboard.stack.must(['keys', 'list', account.id, '--json']));
  const hook = (await dashboard.call(account, 'POST', '/api/webhooks', { url: 'https://agent.example.com/in', description: 'The agent' })).json.id;
  const off = (await dashboard.call(account, 'POST', '/api/webhooks', { url: 'https://off.example.com/', events: ['flow.failed'] })).json.id;
  await dashboard.stack.cluster.sql(`update sluice.webhook set failures = 4, failing_since = now() where id = '${hook}'; update sluice.webhook set off_at = now(), off_reason = 'answered_410' where id = '${off}';
    insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, status, attempt, due_at, ended_at, code, problem)
    select '${account.id}', gen_random_uuid(), '${hook}', 'flow.completed', gen_random_uuid(), 1, now(), '{"flow_id": "${completed}", "title": "Mails"}', s, 1, case s when 'pending' then 'infinity'::timestamptz end,
      case s when 'pending' then null else now() end, 200, case s when 'delivered' then null else 'the endpoint answered 500' end from unnest(array['pending', 'delivered', 'failed']) s`);
  for (const path of [
    '/', '/webhooks', '/webhooks/new', `/webhooks/${hook}`, `/webhooks/${hook}?status=failed`, `/webhooks/${off}`, ...['edit', 'roll', 'delete'].map((verb) => `/webhooks/${hook}/${verb}`), '/?notice=client_saved', '/audit', '/audit?kind=flow&period=1h', '/approvals', '/flows', '/flows/new', '/flows/new?template=unread_mail_to_tasks', '/flows/new?template=reschedule_tasks', '/flows/new?template=unread_mail_to_slack', ...flows,
    '/executions', '/executions?status=failed', '/executions?app=gmail&status=blocked', ...executions, '/integrations', '/integrations?q=nothinglikeit', ...apps,
    '/connections', '/users', '/users?q=none', '/users/ada', '/users/ada/erase', ...['approvals', 'flows', 'flows/new', 'executions', 'integrations', 'connections', 'audit'].map((page) => `/${page}?user=ada`), '/flows?user=none', '/keys?user=ada', '/docs', '/docs/createExecution', '/sign-out', '/keys', '/keys/new', `/keys/${keys[0].id}/revoke`, `/flows/${waiting}/cancel`, `/flows/${completed}/cancel`, `/flows/${completed}/again`, `/connections/${connection}/delete`,
    ...connections.map(({ id }) => `/connections/${id}`), '/connections/1', '/connect/none', '/nowhere/at/all', '/executions/00000000-0000-4000-8000-000000000000', '/connect/callback?state=none&code=none',
  ]) {
    // an address without a route also has a page, and the same checks apply to that page
    assert.ok(path.startsWith('/nowhere/') || known.some((one) => one.method === 'GET' && matches(one.path, dashboard.base + path)), `${path} has no route`);
    await visit.page.setViewportSize(PHONE);
    await visit.goto(path);
    await open(visit);
    // In light, the navigation is next to the content; in dark, on a phone, it is below. The page
    // is not reloaded in between.
    await visit.page.emulateMedia({ colorScheme: 'dark' });
    findings.dark.push(...(await visit.findings(COLOR_RULES)));
    await visit.fits();
    await visit.page.emulateMedia({ colorScheme: 'light' });
    await visit.page.setViewportSize(DESK);
    findings.light.push(...(await visit.findings()));
    await visit.fits();
    seen.push({ method: 'GET', url: visit.page.url() });
  }
  for (const id of [hook, off]) await dashboard.call(account, 'DELETE', `/api/webhooks/${id}`); // the pictures have none
  await visit.goto('/keys/new');
  await visit.page.getByLabel('Name', { exact: true }).fill('seen');
  await visit.page.getByRole('checkbox', { name: /^read/ }).check();
  await visit.press('Create the key');
  assert.equal(await visit.title(), 'The new key');
  await check(visit, 'POST');
  // sign-out is last because it ends the session. /sign-out/everywhere ends every session of the
  // key
  const isOut = ({ path }) => path === '/sign-out';
  const forms = (await routes()).filter(({ method, path }) => method === 'POST' && path !== '/sign-out/everywhere').sort((a, b) => isOut(a) - isOut(b));
  const spare = await dashboard.start(account, 'unread_mail_summary', { maxResults: 1 });
  for (const { path } of forms) {
    await post(visit, path.replace('/integrations/{id}', '/integrations/zendesk').replace('/flows/{id}', `/flows/${spare}`).replace(/\{\w+\}/, '1'));
    await check(visit, 'POST');
    seen.push({ method: 'POST', url: dashboard.base + path });
  }
  const another = await dashboard.signIn(account, { viewport: { width: 1000, height: 900 } });
  await post(another, '/sign-out/everywhere');
  await check(another, 'POST');
  await another.end();
  seen.push({ method: 'POST', url: `${dashboard.base}/sign-out/everywhere` });
  for (const { method, path } of await routes())
    assert.ok(seen.some((one) => one.method === method && matches(path, one.url)), `${method} ${path} was not visited`);
  await visit.end();
}

for (const colorScheme of ['light', 'dark'])
  test(`axe-core finds nothing on any page, ${colorScheme}, and it fits`, async () => {
    await (walked ??= walk());
    assert.deepEqual(findings[colorScheme], []);
  });

// axe-core itself needs a browser that runs scripts, so the pages' own script is empty here.
test('axe-core finds nothing on pages without a script, on a phone', async () => {
  const visit = await dashboard.signIn(account, { viewport: PHONE });
  await visit.context.route('**/*.mjs', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
  for (const path of ['/', '/approvals', '/flows', '/flows/new?template=reschedule_tasks', `/flows/${waiting}`, `/flows/${completed}`, '/executions', `/executions/${bad.json.execution_id}`, '/integrations', '/integrations/hubspot', `/connections/${connection}`, '/keys', '/audit', '/docs/createExecution']) {
    await visit.goto(path);
    await open(visit);
    assert.equal(await visit.page.locator('.news').count(), 0, 'no script has run');
    await visit.isAccessible();
    await visit.fits();
  }
  await visit.end();
});

test('an unknown address gets a page in a browser, and JSON in a program and below /api', async () => {
  const ask = async (path, Accept, method = 'GET') => {
    const reply = await fetch(dashboard.base + path, { method, headers: { Accept } });
    return [reply.status, reply.headers.get('content-type'), await reply.text()];
  };
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
  const json = [404, 'application/json; charset=utf-8', '{"error":"Not found"}'];
  const [status, type, page] = await ask('/nowhere', browser);
  assert.deepEqual([status, type], [404, 'text/html; charset=utf-8']);
  assert.match(page, /There is no page at this address/);
  assert.deepEqual(await ask('/nowhere', '*/*'), json);
  assert.deepEqual(await ask('/nowhere', browser, 'POST'), json);
  assert.equal((await ask('/api/nowhere', browser))[0], 401);
  assert.match((await ask('/openapi.json', browser))[1], /^application\/json/);
  assert.match((await ask('/metrics', browser))[1], /^text\/plain/);
});

// The words of a page, apart from times and ids: a picture is outdated if they changed.
async function wordsOf(visit) {
  const words = (await visit.page.locator('main').innerText()).replace(/\bsk_\S*|\S*\d\S*/g, ' ').match(/[A-Za-z]{3,}/g);
  return words.filter((word) => !/^(ago|just|now|min|[Hh]ours?|[Dd]ays?)$/.test(word)).join(' ');
}

for (const colorScheme of ['light', 'dark'])
  test(`pictures, ${colorScheme}; the committed ones show the same words`, async () => {
    await mkdir(PICTURES, { recursive: true });
    const words = {};
    const visit = await dashboard.signIn(account, { colorScheme, viewport: { width: 1280, height: 860 } });
    for (const [name, path] of [['overview', '/'], ['flow', `/flows/${waiting}`], ['connect', '/integrations/zendesk'], ['connection', `/connections/${connection}`]]) {
      await visit.goto(path);
      await picture(visit, `${name}-${colorScheme}`);
      words[name] = await wordsOf(visit);
    }
    await visit.end();
    await writeFile(join(PICTURES, 'words.json'), `${JSON.stringify(words, null, 2)}\n`);
    assert.deepEqual(words, JSON.parse(await readFile(new URL('words.json', COMMITTED), 'utf8')), 'copy build/screenshots to contrib/screenshots');
  });

test('a printed flow: what it does and did, without the navigation and without buttons', async () => {
  const visit = await dashboard.signIn(account);
  await visit.page.emulateMedia({ media: 'print' });
  for (const id of [waiting, completed]) {
    await visit.goto(`/flows/${id}`);
    const seen = await visit.page.evaluate(() => [...document.querySelectorAll('nav, button, a.button')].filter((one) => one.checkVisibility()).map((one) => one.outerHTML));
    assert.deepEqual(seen, []);
    await visit.sees('completed');
    await visit.fits();
  }
  await visit.end();
});

test('assets are compressed for clients that accept it, and are the same', async () => {
  const page = await (await fetch(`${dashboard.base}/sign-in`)).text();
  const paths = [...page.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path);
  assert.equal(paths.length, 3);
  for (const path of paths) {
    const [plain, small, weighed] = await Promise.all(['identity', 'gzip, deflate, br', 'gzip;q=0'].map((accept) => fetch(dashboard.base + path, { headers: { 'accept-encoding': accept } })));
    assert.deepEqual([plain, small, weighed].map(({ headers }) => headers.get('content-encoding')), [null, 'gzip', null]);
    for (const { headers } of [plain, small]) assert.equal(headers.get('vary'), 'Accept-Encoding');
    const length = (reply) => Number(reply.headers.get('content-length'));
    if (length(plain) > 1000) assert.ok(length(small) < length(plain) / 2, path);
    if (path.endsWith('.mjs')) assert.ok(length(small) < SCRIPT_BYTES_MAX, `the script has ${length(small)} bytes`);
    assert.equal(await small.text(), await plain.text());
  }
});

test('pages are compressed for clients that accept it, except requests from other sites, pages with a secret and event streams', async () => {
  const visit = await dashboard.signIn(account);
  const cookie = (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const ask = async (path, headers = {}, init = {}) => {
    const reply = await fetch(dashboard.base + path, { ...init, headers: { cookie, 'accept-encoding': 'gzip, br', 'sec-fetch-site': 'same-origin', ...headers } });
    return { status: reply.status, how: reply.headers.get('content-encoding'), vary: reply.headers.get('vary'), text: await reply.text(), length: Number(reply.headers.get('content-length')) };
  };
  for (const path of ['/', '/flows', `/flows/${waiting}`, '/integrations?q=mail', '/nowhere/at/all', '/sign-out']) {
    const [small, plain] = [await ask(path, { accept: 'text/html' }), await ask(path, { accept: 'text/html', 'accept-encoding': 'br, gzip;q=0, *' })];
    assert.deepEqual([small.how, plain.how, small.vary, plain.vary], ['gzip', null, 'Accept-Encoding', 'Accept-Encoding'], path);
    // an account has a stamp while a page of it is watched, as this visit's soon is, and the sums
    // and times of the overview change a moment later
    const changing = path === '/' ? /[\d.]+( ms| s| min| h| days)?/g : /since=\d+/;
    const [one, other] = [small, plain].map(({ text }) => text.replace(changing, ''));
    assert.equal(one, other, path);
    assert.ok(small.length < plain.length / 1.7, `${path}: ${small.length} of ${plain.length}`);
  }
  for (const site of ['cross-site', 'same-site', '']) assert.equal((await ask('/integrations?q=mail', { 'sec-fetch-site': site })).how, null, site);
  assert.equal((await ask('/', { 'sec-fetch-site': 'none' })).how, 'gzip');
  const link = await dashboard.call(account, 'POST', '/api/connect/sessions', { integration_id: 'probe' });
  assert.equal((await ask(new URL(link.json.url).pathname)).how, null);
  const keys = await ask('/keys/new');
  const [csrf, once] = ['csrf', 'once'].map((name) => keys.text.match(new RegExp(`name="${name}" value="([^"]+)"`))[1]);
  const made = await ask('/keys/new', { origin: dashboard.base }, { method: 'POST', body: new URLSearchParams({ csrf, once, name: 'plain', 'scope.read': 'yes', expires: '30' }) });
  assert.match(made.text, /sk_[\w-]{43}/);
  assert.equal(made.how, null);
  const stop = new AbortController();
  const events = await fetch(`${dashboard.base}/flows/${waiting}/events`, { headers: { cookie, 'accept-encoding': 'gzip', 'sec-fetch-site': 'same-origin' }, signal: stop.signal });
  assert.deepEqual([events.status, events.headers.get('content-encoding')], [200, null]);
  stop.abort();
  await visit.end();
});
