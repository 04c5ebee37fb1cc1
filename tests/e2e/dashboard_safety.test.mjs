// Attacks by strangers: names, subjects and labels that could be markup, forms from other sites,
// and ids of other accounts.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { HIDDEN, HOSTILE, visible as marked } from './support/hostile.mjs';
import { credentials } from './support/stack.mjs';
import { lengthen } from './support/waiting.mjs';

const NASTY = [
  `"><img src=x onerror="globalThis.isHacked=1">`,
  `</title></script><script>globalThis.isHacked=1</script>`,
  `'><svg onload=globalThis.isHacked=1><a href="javascript:globalThis.isHacked=1">x</a>`,
  `\u202Egnp.exe \u2067right\u2069 to left \u05E9\u05DC\u05D5\u05DD`,
  `{}{{7*7}}\${7*7}%s%n&lt;b&gt;&amp;`,
  `${'wide'.repeat(45)}`,
];
const TAGS = new Set(
  `html head meta title link script body a header nav ul ol li form input button main h1 h2 h3 p br span strong
   svg symbol use path rect circle line polyline g b i bdi small del ins q aside footer
   dialog section label textarea select option details summary dl dt dd pre code div time table thead tbody tr th td fieldset legend`.split(/\s+/),
);

let dashboard, account, other, owned;

before(async () => {
  dashboard = await Dashboard.start();
  [account, other] = await Promise.all([dashboard.account('nasty'), dashboard.account('other')]);
  owned = { flow: await dashboard.startTasks(other, { maxResults: 1 }) };
  const run = await dashboard.call(other, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: {} });
  owned.execution = run.json.execution_id;
  owned.connection = await dashboard.stack.connect(other.id, 'gmail', credentials.gmail, ['--label', 'more']);
});
after(async () => {
  try {
    dashboard.judge({ one: account.key, two: other.key, mail: credentials.gmail.access_token, notes: credentials.notion.access_token });
  } finally {
    await dashboard?.stop();
  }
});

// Checks that a page has only elements of ours, no attribute that runs code or sets styles, and one
// script. The result of a flow links to what was created, and sends no referrer.
async function isTame(visit) {
  const wild = await visit.page.evaluate((tags) => {
    const found = [];
    for (const one of document.querySelectorAll('*')) {
      if (!tags.includes(one.localName)) found.push(one.outerHTML.slice(0, 200));
      for (const { name, value } of one.attributes)
        if (name.startsWith('on') || name === 'style' || (/^(href|src|action|formaction)$/.test(name) && !/^[/#]/.test(value) && !value.startsWith('https://developers.google.com/') && !one.matches('#flow-result a[rel=noreferrer][href^="https://"]')))
          found.push(`${name}=${value}`);
    }
    const scripts = [...document.scripts].map((one) => `${one.getAttribute('src').replace(/-[a-z]+\.mjs$/, '')}${one.textContent}`);
    if (!scripts.every((one) => /^\/assets\/[0-9a-f]{16}$/.test(one)) || scripts.length > 2) found.push(`scripts: ${scripts}`);
    for (const icon of document.querySelectorAll('use')) if (!document.querySelector(icon.getAttribute('href'))) found.push(`no icon ${icon.getAttribute('href')}`);
    if (globalThis.isHacked) found.push('something ran');
    return found;
  }, [...TAGS]);
  assert.deepEqual(wild, [], visit.page.url());
  await visit.fits();
}

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}]/u;

// The form in which a page shows a value: invisible characters as \uXXXX, and right-to-left letters
// isolated.
function visible(text) {
  const shown = marked(text, '\t\n\r');
  return RIGHT_TO_LEFT.test(text) ? `\u2068${shown}\u2069` : shown;
}

async function shows(visit, text) {
  const shown = await visit.page.evaluate(() => document.documentElement.textContent + [...document.querySelectorAll('input')].map((one) => one.value).join('\n'));
  const inside = visible(text).replace(/[\u2068\u2069]/g, ''); // the value may be a part of what is shown
  assert.ok(shown.includes(text) || shown.includes(inside), `${visit.page.url()} lacks ${JSON.stringify(text)}`);
  const bare = await visit.page.evaluate(() => document.documentElement.innerText);
  assert.deepEqual(bare.match(/(?![\u2068\u2069\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu), null, visit.page.url());
}

for (const [how, options] of [['at a desk', {}], ['at 390 pixels', { viewport: { width: 390, height: 800 } }]])
  test(`hostile texts are text on every page, ${how}`, async () => {
    const word = `hostile ${how}`;
    for (const text of NASTY)
      await dashboard.provider.control('POST', '/mail', { from: `${text.replace(/["\\,:;<>()@[\]]/g, '')} <a@b.example>`, subject: `${word} ${text}`, text: `body ${text}` });
    const visit = await dashboard.signIn(account, options);
    const tasks = await dashboard.startTasks(account, { query: `subject:"${word}"`, maxResults: 10 });
    await visit.goto(`/flows/${tasks}`);
    for (const text of NASTY) await shows(visit, `${word} ${text}`);
    await isTame(visit);
    for (const one of await visit.page.locator('details').all()) await one.evaluate((element) => (element.open = true));
    await isTame(visit);
    await visit.press('Approve');
    await visit.page.locator('[role=status] .badge', { hasText: 'completed' }).waitFor();
    await visit.goto(`/flows/${tasks}`); // with the pointer above, the result is shown only on demand
    await visit.page.locator('#flow-result a').first().waitFor();
    await isTame(visit);

    for (const text of NASTY) {
      const flow = await dashboard.start(account, 'probe_approve', { subject: text });
      await dashboard.reaches(account, flow, 'waiting');
      await visit.goto(`/flows/${flow}`);
      await shows(visit, text);
      await isTame(visit);
      await dashboard.stack.connect(account.id, 'gmail', credentials.gmail, ['--label', text]);
      await dashboard.stack.key(account.id, ['--name', text]);
    }
    // current and new values, shown next to each other
    const page = 'b3d5f7a9-1c2e-4a6b-8d0f-000000000002';
    for (const text of NASTY) {
      await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'notion', action_id: 'update_page', input: { page_id: page, title: text }, confirm: true });
      const flow = await dashboard.start(account, 'reschedule_tasks', { pages: [page], due: '2031-12-06', status: text.slice(0, 100) });
      await dashboard.reaches(account, flow, 'waiting');
      await visit.goto(`/flows/${flow}`);
      assert.equal(await visit.page.locator('.diff ins').last().textContent(), visible(text.slice(0, 100)));
      assert.equal(await visit.page.locator('.calls h3').textContent(), visible(text));
      await isTame(visit);
      // the tests below need an inbox without this flow
      assert.equal((await dashboard.call(account, 'POST', `/api/flows/${flow}/cancel`)).status, 200);
    }
    const failed = await dashboard.call(account, 'POST', '/api/executions', {
      integration_id: 'gmail', action_id: 'get_message', input: { id: NASTY[0] },
    });
    const list = await dashboard.call(account, 'POST', '/api/executions', {
      integration_id: 'gmail', action_id: 'get_message', input: { id: (await dashboard.provider.control('GET', '/state/messages')).messages[0].id },
    });
    const paths = ['/', '/approvals', '/flows', '/executions', '/integrations', '/integrations/gmail', '/keys', '/audit', '/docs', '/docs/createExecution', `/executions/${list.json.execution_id}`];
    if (failed.json.execution_id) paths.push(`/executions/${failed.json.execution_id}`);
    for (const text of NASTY) {
      const part = encodeURIComponent(text);
      paths.push(`/executions?app=${part}`, `/executions?app=gmail&action=${part}&code=${part}&newer=${part}.${part}&status=blocked`, `/flows?status=${part}`, `/approvals?template=${part}&asker=${part}`, `/audit?kind=${part}&by=${part}&newer=${part}.${part}`, `/integrations/gmail/actions/${part}`, `/integrations?q=${part}`, `/sign-in?next=${part}`, `/flows/new?template=${part}&notice=${part}`, `/executions/${part}`, `/docs/${part}`);
    }
    for (const path of paths) {
      await visit.goto(path);
      await isTame(visit);
    }
    for (const path of ['/integrations/gmail', '/keys']) {
      await visit.goto(path);
      for (const text of NASTY) await shows(visit, text);
    }
    await visit.end();
  });

test('control characters and broken text are not part of a page', async () => {
  await dashboard.provider.control('POST', '/mail', { raw: 'From: a@b.example\r\nSubject: =?utf-8?B?Y3RybCAAAQgbWzMxbSB4?=\r\n\r\nx' });
  const visit = await dashboard.signIn(account);
  const tasks = await dashboard.startTasks(account, { query: 'subject:ctrl', maxResults: 1 });
  await visit.goto(`/flows/${tasks}`);
  await visit.sees('ctrl');
  const page = dashboard.pages.findLast((one) => one.url.endsWith(tasks));
  assert.doesNotMatch(page.body.toString(), /[\x00-\x08\x0b-\x1f\x7f]/);
  await isTame(visit);
  for (const isLong of [false, true]) {
    if (isLong) await lengthen(dashboard.stack, `flow_id = '${tasks}'`);
    for (const path of ['/', '/approvals']) {
      await visit.goto(path);
      await visit.page.getByRole('heading', { name: path === '/' ? 'Overview' : 'Approvals', level: 1 }).waitFor();
      await isTame(visit);
    }
    await visit.page.locator(`[id="wait-${tasks}"]`).waitFor();
  }
  await visit.end();
});

/* ---- every field of every row ---- */

const SPOIL = `
create or replace function public.spoil(v jsonb, s text) returns jsonb language sql as $$
  select case jsonb_typeof(v) when 'string' then to_jsonb(s)
    when 'array' then (select coalesce(jsonb_agg(public.spoil(e, s)), '[]') from jsonb_array_elements(v) as m(e))
    when 'object' then (select coalesce(jsonb_object_agg(k, public.spoil(e, s)), '{}') from jsonb_each(v) as m(k, e))
    else v end $$;
-- Every text and every text within JSON (jsonb has no U+0000) of the account; what a constraint keeps as it is stays, and so does
-- a key's policy, since one that does not exist hides all rows. Returns the columns.
create or replace function public.spoil_all(account uuid, s text, but text[]) returns setof text language plpgsql as $$
declare c record;
begin
  for c in select table_name t, column_name n, data_type d from information_schema.columns o
      where table_schema = 'sluice' and data_type in ('text', 'json', 'jsonb') and column_name <> all (but)
        and (table_name, column_name) <> ('api_key', 'policy')
        and exists (select from information_schema.columns i where i.table_schema = 'sluice' and i.table_name = o.table_name and i.column_name = 'account_id')
        and exists (select from pg_class p where p.relname = o.table_name and not p.relispartition) loop
    begin
      if c.d = 'text' then
        execute format('update sluice.%I set %I = $1 where account_id = $2', c.t, c.n) using s, account;
      else
        execute format('update sluice.%I set %I = public.spoil(replace(%I::text, ''\\u0000'', '''')::jsonb, $1)::%s where account_id = $2', c.t, c.n, c.n, c.d) using s, account;
      end if;
      return next c.t || '.' || c.n;
    exception when check_violation or unique_violation then null;
    end;
  end loop;
end $$;`;
const MARKUP = `"><img src=x onerror="globalThis.isHacked=1"></textarea></title><a href="javascript:globalThis.isHacked=1">x</a>&'\${7*7}\n`;

// Creates one object of each kind that the dashboard shows.
async function populate(person) {
  const waiting = await dashboard.startTasks(person, { maxResults: 2 });
  const asked = await dashboard.start(person, 'probe_approve', { subject: 'x' });
  await dashboard.reaches(person, asked, 'waiting');
  await dashboard.stack.connect(person.id, 'gmail', credentials.gmail, ['--label', 'second']);
  for (const input of [{}, { id: 'none' }])
    await dashboard.call(person, 'POST', '/api/executions', { integration_id: 'gmail', action_id: input.id ? 'get_message' : 'list_messages', input });
  // the server writes counts and uses some time after the calls; from here on, pages show both
  await until('the counts are written', () => dashboard.stack.cluster.sql(`select 1 from sluice.tally where account_id = '${person.id}' and outcome = 'failed'`));
  await dashboard.stack.cluster.sql(`update sluice.connection set last_used_at = now(), failed_at = now(), failure = 'refused' where account_id = '${person.id}'`);
  const { json: link } = await dashboard.call(person, 'POST', '/api/connect/sessions', { integration_id: 'gmail', return_url: 'https://back.example/x' });
  return { flows: [waiting, asked], link: new URL(link.url ?? link.connect_url).pathname };
}

async function pagesOf(person, flows, link) {
  const rows = async (column, table) => (await dashboard.stack.cluster.sql(`select ${column} from sluice.${table} where account_id = '${person.id}'`)).split('\n').filter(Boolean);
  const connections = await rows('id', 'connection');
  const paths = [
    '/', '/approvals', '/flows', '/flows/new', '/executions', '/executions?status=blocked', '/docs', '/integrations', '/integrations/gmail', '/connections', '/keys', '/audit', '/sign-out', link,
    ...flows.flatMap((id) => [`/flows/${id}`, `/flows/${id}/cancel`, `/flows/${id}/again`]),
    ...(await rows('id', 'execution')).flatMap((id) => [`/executions/${id}`, `/executions/${id}/again`]),
    ...(await rows('id', 'api_key')).map((id) => `/keys/${id}/revoke`),
    ...connections.flatMap((id) => [`/connections/${id}`, `/connections/${id}/delete`]),
  ];
  return { paths, connections };
}

for (const text of [MARKUP, 'javascript:globalThis.isHacked=1'])
  test(`each field of each row is ${JSON.stringify(text.slice(0, 20))}: no element, attribute or link of it on any page`, async () => {
    const quoted = `'${text.replaceAll("'", "''")}'`;
    const person = await dashboard.account(`spoiled ${text.length}`);
    const visit = await dashboard.signIn(person);
    const { flows, link } = await populate(person);
    await dashboard.stack.cluster.sql(SPOIL);
    for (const but of [['template_key', 'integration_id', 'action_id', 'auth_kind', 'addresses'], ['template_key', 'addresses']]) {
      const list = `array[${but.map((name) => `'${name}'`)}]::text[]`;
      const columns = (await dashboard.stack.cluster.sql(`select public.spoil_all('${person.id}', ${quoted}, ${list})`)).split('\n');
      for (const one of ['account.name', 'api_key.name', 'api_key.prefix', 'connection.label', 'execution.summary', 'flow_doc.input', 'flow_doc.waiting_input', 'flow_step.output'])
        assert.ok(columns.includes(one), `${one} is not among ${columns}`);
      const { paths, connections } = await pagesOf(person, flows, link);
      for (const path of paths) {
        await visit.goto(path);
        assert.doesNotMatch(visit.page.url(), /\/sign-in/, `${path} asks to sign in`);
        await isTame(visit);
      }
      await visit.goto(`/connections/${connections[0]}`);
      await shows(visit, text.split('\n')[0]);
    }
    await visit.end();
  });

/* ---- by hand, without a browser ---- */

const form = (fields) => new URLSearchParams(fields).toString();

async function ask(path, { cookie, method = 'GET', fields, headers = {} } = {}) {
  const all = { ...headers };
  if (cookie) all.cookie = cookie;
  if (fields) all['content-type'] ??= 'application/x-www-form-urlencoded';
  const init = { method, headers: all, redirect: 'manual', body: fields && form(fields) };
  const reply = await fetch(dashboard.base + path, init);
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
}

// An address may sign in ten times in a burst, then once per second.
const signInTo = (next, { key }) =>
  until('the sign-in is answered', async () => {
    const reply = await ask('/sign-in', { method: 'POST', fields: { key, next } });
    return reply.status !== 429 && reply;
  });

async function session(person) {
  const reply = await signInTo('/', person);
  assert.equal(reply.status, 303, reply.text);
  const [line] = reply.headers.getSetCookie();
  const cookie = line.split(';')[0];
  const page = await ask('/flows/new?template=unread_mail_summary', { cookie });
  const csrf = page.text.match(/name="csrf" value="([0-9a-f]+)"/)[1];
  return { cookie, csrf, line };
}

/* ---- no text changes what is around it ---- */

const READ = new Set(['title', 'aria-label', 'placeholder', 'alt']);
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
const decode = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]);

// The elements of a page with the names of their attributes, and its readable text. The text of a
// field is left out: it is sent again, so it is unchanged, and it affects only that field.
function readPage(body) {
  const elements = [], read = [];
  for (const [, text, close, name, rest] of body.matchAll(/([^<]*)(?:<(\/?)([a-z!][\w-]*)((?:[^>"]|"[^"]*")*)>)?/g)) {
    const within = elements.at(-1) ?? '';
    if (text && !/^<(textarea|script)/.test(within)) read.push(decode(text));
    if (!name) continue;
    const attributes = [...rest.matchAll(/ ([\w-]+)(?:="([^"]*)")?/g)];
    for (const [, key, value] of attributes) if (READ.has(key) && value) read.push(decode(value));
    elements.push(`<${close}${name}${attributes.map(([, key]) => ` ${key}`).join('')}>`);
  }
  return { elements, read };
}

// Returns the fault of a readable text, or null.
function shapes(text) {
  let depth = 0;
  for (const c of text) {
    depth += (c === '\u2068') - (c === '\u2069');
    if (depth < 0 || depth > 1) return 'an isolation inside another';
    if (!'\t\n\r\u2068\u2069'.includes(c) && HIDDEN.test(c)) return `U+${c.codePointAt(0).toString(16)}`;
    if (depth === 0 && RIGHT_TO_LEFT.test(c)) return 'right-to-left letters that are not isolated';
  }
  return depth ? 'an isolation without an end' : null;
}

test('no text of a row changes a page: its elements stay, hidden characters are marked, right-to-left text is isolated', async () => {
  const person = await dashboard.account('shaped');
  const { cookie } = await session(person);
  const { flows, link } = await populate(person);
  await dashboard.stack.cluster.sql(SPOIL);
  const but = "array['template_key', 'integration_id', 'action_id', 'auth_kind', 'addresses', 'scopes', 'status']::text[]";
  const { paths } = await pagesOf(person, flows, link);
  const visit = async (text) => {
    await dashboard.stack.cluster.sql(`select public.spoil_all('${person.id}', '${text.replaceAll("'", "''")}', ${but})`);
    return Promise.all(paths.map(async (path) => {
      const reply = await ask(path, { cookie });
      assert.equal(reply.status, 200, path);
      return readPage(reply.text);
    }));
  };
  // these pages show text from others where a person decides; the other pages are checked as well
  const decided = paths.filter((path) => path === '/approvals' || path === link || /^\/flows\/[^/]+(\/cancel|\/again)?$|\/(revoke|delete)$/.test(path));
  assert.ok(decided.length >= 12, decided.join(' '));
  const plain = await visit('plain');
  // Texts of one character do not affect each other, so they are tested together. The others are
  // tested one by one.
  const single = HOSTILE.filter((text) => [...text].length === 3), rest = HOSTILE.filter((text) => !single.includes(text));
  for (const text of [single.slice(0, 20).join(''), single.slice(20).join(''), ...rest])
    for (const [i, page] of (await visit(text)).entries()) {
      const where = `${paths[i]}, ${JSON.stringify(text)}`, shown = marked(text, '\t\n\r');
      assert.deepEqual(page.elements, plain[i].elements, where);
      for (const one of page.read) assert.equal(shapes(one), null, `${where}: ${JSON.stringify(one)}`);
      if (!decided.includes(paths[i])) continue;
      assert.ok(page.read.some((one) => one.includes(shown)), `${where} is not shown`);
      // each value, or its beginning, is isolated by itself; JSON is one value
      for (const [, value] of page.read.join('\n').matchAll(/\u2068([^\u2069]*)\u2069/g)) assert.ok(/^[[{]/.test(value) || shown.startsWith(value), `${where}: ${value}`);
    }
});

test('the cookie: HttpOnly, SameSite=Lax, no key in it; __Host- and Secure with https', async () => {
  const { line } = await session(account);
  assert.match(line, /^sluice=[\w-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
  assert.ok(!line.includes(account.key));
  const server = await dashboard.stack.serve({ args: ['--public-url', 'https://sluice.example.com'] });
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const reply = await fetch(`${server.base}/sign-in`, { method: 'POST', headers, redirect: 'manual', body: form({ key: account.key }) });
  const [strict] = reply.headers.getSetCookie();
  assert.match(strict, /^__Host-sluice=[\w-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/);
});

// Sends a Host header, which fetch would not send.
const askAt = (base, host, path) =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    const request = http.request({ hostname, port, path, headers: { host, accept: 'text/html' }, agent: false }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (part) => (text += part)).on('end', () => resolve({ status: reply.statusCode, text }));
    });
    request.on('error', reject).end();
  });

test('a page answers to the host of public-url, addresses and localhost; /metrics and requests with a key to any host', async () => {
  const server = await dashboard.stack.serve({ args: ['--public-url', 'https://sluice.example.com'] });
  const pages = ['/', '/docs', '/sign-in', '/sign-in?next=/keys', '/flows', '/integrations/gmail', '/connect/x', '/connect/callback?state=x', '/assets/app.css', '/nothing'];
  const ours = ['sluice.example.com', 'SLUICE.example.com:443', 'localhost', 'localhost:8080', '127.0.0.1:8080', '192.0.2.7', '[::1]', '[2001:db8::1]:8080'];
  const others = ['evil.example', 'sluice.example.com.evil.example', 'evil.sluice.example.com', 'localhost.evil.example', '127.0.0.1.evil.example', 'sluice', '2130706433'];
  for (const path of pages) {
    for (const host of ours) assert.notEqual((await askAt(server.base, host, path)).status, 421, `${host}${path}`);
    for (const host of others) {
      const { status, text } = await askAt(server.base, host, path);
      assert.equal(status, 421, `${host}${path}`);
      assert.doesNotMatch(text, /<form|Sign in|openapi/, `${host}${path}`);
    }
  }
  for (const host of [...ours, ...others]) { // as scrapers, probes and agents in a cluster call it
    assert.match((await askAt(server.base, host, '/metrics')).text, /^sluice_/m);
    assert.deepEqual([(await askAt(server.base, host, '/healthz')).status, (await askAt(server.base, host, '/api/flows')).status], [200, 401]);
    assert.equal((await askAt(dashboard.base, host, '/sign-in')).status, 200); // no name was configured
  }
});

test('forms of other sites are refused, and do nothing', async () => {
  const { cookie, csrf } = await session(account);
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  const page = await ask(`/flows/${id}`, { cookie });
  const [step, rev] = ['step', 'rev'].map((name) => page.text.match(new RegExp(`name="${name}" value="([^"]+)"`))[1]);
  const fields = { csrf, step, rev };
  const paths = [`/flows/${id}/approve`, `/flows/${id}/reject`, `/flows/${id}/cancel`, `/flows/${id}/resume`, `/flows/${id}/again`, `/executions/${owned.execution}/again`, '/flows/new', '/sign-out',
    '/integrations/gmail/connect', '/integrations/gmail/client', `/connections/${owned.connection}/delete`];
  const attacks = [
    { headers: { origin: 'https://evil.example' }, fields },
    { headers: { origin: 'null' }, fields },
    { headers: { origin: `${dashboard.base}.evil.example` }, fields },
    { headers: { 'sec-fetch-site': 'cross-site' }, fields },
    { headers: { 'sec-fetch-site': 'same-site' }, fields },
    { headers: { 'sec-fetch-site': 'none' }, fields },
    { headers: { origin: dashboard.base }, fields: { step, rev } },
    { headers: { origin: dashboard.base }, fields: { ...fields, csrf: csrf.replace(/./g, '0') } },
    { headers: { origin: dashboard.base }, fields: { ...fields, csrf: '' } },
  ];
  for (const path of paths)
    for (const attack of attacks) {
      const reply = await ask(path, { cookie, method: 'POST', ...attack });
      assert.equal(reply.status, 403, `${path} ${JSON.stringify(attack)}`);
    }
  for (const path of paths) {
    const other = await ask(path, { cookie, method: 'POST', fields, headers: { 'content-type': 'text/plain' } });
    assert.equal(other.status, 415, path);
    const stranger = await ask(path, { method: 'POST', fields });
    assert.ok([401, 303].includes(stranger.status), `${path}: ${stranger.status}`);
    assert.ok(!stranger.headers.get('location') || stranger.headers.get('location').startsWith('/sign-in'));
    if (!['/flows/new', '/integrations/gmail/connect', `/flows/${id}/cancel`, `/flows/${id}/again`].includes(path) && path !== '/sign-out') assert.ok([404, 405].includes((await ask(path, { cookie })).status), `GET ${path}`);
  }
  const flow = await dashboard.call(account, 'GET', `/api/flows/${id}`);
  assert.equal(flow.json.flow.status, 'waiting');
  // the same form from this site is accepted
  const taken = await ask(`/flows/${id}/reject`, { cookie, method: 'POST', fields, headers: { origin: dashboard.base, 'sec-fetch-site': 'same-origin' } });
  assert.equal(taken.status, 303, taken.text);
  await dashboard.reaches(account, id, 'cancelled');
});

test('objects of another account are not found', async () => {
  const { cookie, csrf } = await session(account);
  for (const path of [`/flows/${owned.flow}`, `/flows/${owned.flow}/cancel`, `/flows/${owned.flow}/again`, `/flows/${owned.flow}/events`, `/executions/${owned.execution}`, `/executions/${owned.execution}/again`, `/connections/${owned.connection}/delete`])
    assert.equal((await ask(path, { cookie })).status, 404, path);
  const fields = { csrf, step: 'approve_tasks', rev: '1', label: 'mine now' };
  for (const path of [
    ...['approve', 'reject', 'resume', 'cancel', 'again'].map((verb) => `/flows/${owned.flow}/${verb}`), `/executions/${owned.execution}/again`,
    ...['default', 'label', 'delete', 'test'].map((verb) => `/connections/${owned.connection}/${verb}`),
  ])
    assert.equal((await ask(path, { cookie, method: 'POST', fields })).status, 404, path);
  const flow = await dashboard.call(other, 'GET', `/api/flows/${owned.flow}`);
  assert.equal(flow.json.flow.status, 'waiting');
  assert.equal(await dashboard.stack.cluster.sql(`select label from sluice.connection where id = ${owned.connection}`), 'more');
});

test('the sign-in redirects only to our own pages', async () => {
  for (const next of ['//evil.example', '/\\evil.example', 'https://evil.example/', 'javascript:alert(1)', '/a\r\nSet-Cookie: x=1', '']) {
    const reply = await signInTo(next, account);
    assert.equal(reply.headers.get('location'), '/', next);
  }
});

test('a session ends with its key, and a changed cookie is not accepted', async () => {
  const { id, key } = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--json']));
  const { cookie } = await session({ key });
  assert.equal((await ask('/', { cookie })).status, 200);
  const at = cookie.length - 20;
  const changed = cookie.slice(0, at) + (cookie[at] === 'A' ? 'B' : 'A') + cookie.slice(at + 1);
  assert.equal((await ask('/', { cookie: changed })).status, 303);
  await dashboard.stack.must(['keys', 'revoke', account.id, id]);
  await until('the session has ended', async () => (await ask('/', { cookie })).status === 303);
});
