// Limits on what an account may store and on what one address may hold: each limit is a setting,
// and exceeding it gives an error.
import assert from 'node:assert/strict';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { clientOf, Oidc, PUBLIC } from './support/oidc.mjs';
import { Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const GOOD = { token: 'ya29.demo-gmail-full' };
const FULL = /as many connections as it may have \(3\).*Remove one/;

let stack, oidc, env, server, account;
before(async () => {
  oidc = await Oidc.start({ ttl: 3600 });
  stack = await Stack.start();
  const catalog = join(stack.dir, 'catalog');
  await mkdir(catalog);
  await writeFile(join(catalog, 'strict.json'), JSON.stringify(oidc.manifest('strict')));
  await copyFile(join(import.meta.dirname, 'support/catalog/probe.json'), join(catalog, 'probe.json'));
  env = { SLUICE_CATALOG: catalog };
  await stack.must(['oauth-clients', 'set', 'strict', '--client-id', 'sluice', '--client-secret-file', '-'], {
    env,
    input: `${clientOf('sluice').client_secret}\n`,
  });
  const args = ['--account-kept-connections', '3', '--allow-host', '127.0.0.1', '--public-url', PUBLIC, '--workers', '2'];
  server = await stack.serve({ args, env });
  account = await stack.account('bounded', { apps: [] });
});
after(async () => {
  await oidc?.stop();
  await stack?.stopWell(assert);
});

async function signedIn(base = server.base) {
  const pages = new Pages(base);
  await until('this address may sign in', async () => (await pages.signIn(account.key)).status === 200);
  return pages;
}

const link = (more = {}) => server.call(account.key, 'POST', '/api/connect/sessions', { integration_id: 'probe', ...more });
const count = async (what = '') =>
  Number(await stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${account.id}' ${what}`));
const added = async () =>
  Number(await stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${account.id}' and kind = 'connection.added'`));

// Opens the page of a link in a separate browser: {pages, page}.
async function taken(url) {
  const pages = new Pages(server.base);
  const first = await pages.go(new URL(url).pathname);
  const page = await pages.press(first, 'Continue');
  assert.equal(page.status, 200, page.text);
  return { pages, page };
}

test('a link used twice at the same time makes one connection, also in two workers', async () => {
  const { pages, page } = await taken((await link()).json.url);
  const before = await count();
  const press = () => pages.press(page, 'Connect Probe', GOOD, { follow: false });
  const replies = await Promise.all(Array.from({ length: 12 }, press));
  assert.ok(replies.every(({ status }) => status === 303), replies.map(({ status }) => status).join());
  assert.equal(await count(), before + 1);
  assert.equal(await added(), 1);
  const again = await pages.press(page, 'Connect Probe', GOOD, { follow: false });
  assert.equal(again.status, 303);
  assert.equal(await count(), before + 1);
});

test("a key app's form sent twice makes one connection", async () => {
  const pages = await signedIn();
  const page = await pages.go('/integrations/probe');
  const before = await count(), told = await added();
  const press = () => pages.press(page, 'Connect Probe', { ...GOOD, label: 'pressed twice' }, { follow: false });
  const both = await Promise.all([press(), press(), press()]);
  const later = await press();
  for (const reply of [...both, later]) {
    assert.equal(reply.status, 303, reply.text);
    assert.match(reply.location, /^\/integrations\/probe\?notice=connected/);
  }
  assert.equal(await count(), before + 1);
  assert.equal(await added(), told + 1);
  const fresh = await pages.go('/integrations/probe'); // another form is another request
  assert.equal((await pages.press(fresh, 'Connect Probe', GOOD, { follow: false })).status, 303);
  assert.equal(await count(), before + 2);
});

test('a connection beyond the bound is refused by form, OAuth, link, API and command, and reported', async () => {
  const pages = await signedIn();
  assert.equal(await count(), 3);
  const page = await pages.go('/integrations/probe');
  const calls = (await stack.provider.ledger()).length;
  const refused = await pages.press(page, 'Connect Probe', GOOD);
  assert.equal(refused.status, 409);
  assert.match(refused.text, FULL);
  assert.equal((await stack.provider.ledger()).length, calls, 'the app got no request');
  const consent = await pages.press(await pages.go('/integrations/strict'), 'Connect App strict', {}, { follow: false });
  assert.equal(consent.status, 409);
  assert.match(consent.text, FULL);
  for (const more of [{}, { integration_id: 'strict', force_reconnect: true }]) {
    const answer = await link(more);
    assert.equal(answer.status, 409, answer.text);
    assert.match(answer.json.error, FULL);
  }
  const setting = { ...env, SLUICE_ACCOUNT_KEPT_CONNECTIONS: '3' };
  const command = await stack.sluice(['connections', 'add', account.id, 'probe', '--credential-file', '-'], { env: setting, input: JSON.stringify(GOOD) });
  assert.equal(command.code, 1);
  assert.match(command.stderr, /as many connections as account-kept-connections allows \(3\)/);
  const authorize = ['connections', 'authorize', account.id, 'strict', '--redirect-uri', `${PUBLIC}/connect/callback`, '--allow-host', '127.0.0.1'];
  const away = await stack.sluice(authorize, { env: setting, input: '' });
  assert.equal(away.code, 1);
  assert.match(away.stderr, FULL);
  assert.equal(await count(), 3);
});

test('a link from before the bound was reached is refused in the end, and works again once there is room', async () => {
  const [spare] = (await server.call(account.key, 'GET', '/api/connections')).json.connections;
  const remove = () => server.call(account.key, 'DELETE', `/api/connections/${spare.id}`);
  await stack.cluster.sql(`update sluice.connection set integration_id = 'gmail', is_default = false where account_id = '${account.id}' and id = ${spare.id}`);
  await stack.cluster.sql(`create table public.moved as select * from sluice.connection where id = ${spare.id}`);
  await stack.cluster.sql(`delete from sluice.connection where id = ${spare.id}`);
  const { pages, page } = await taken((await link()).json.url);
  await stack.cluster.sql('insert into sluice.connection select * from public.moved');
  const refused = await pages.press(page, 'Connect Probe', GOOD);
  assert.equal(refused.status, 409);
  assert.match(refused.text, FULL);
  assert.equal((await remove()).status, 200);
  const done = await pages.press(page, 'Connect Probe', GOOD);
  assert.equal(done.status, 200, done.text);
  assert.equal(await count("and integration_id = 'probe'"), 3);
});

test('reconnecting is never refused', async () => {
  const [one] = (await server.call(account.key, 'GET', '/api/connections?integration_id=probe')).json.connections;
  const pages = await signedIn();
  const again = await pages.press(await pages.go(`/connections/${one.id}`), `Reconnect ${one.label}`, GOOD);
  assert.equal(again.status, 200, again.text);
  assert.match(again.text, /Reconnected/);
  const { pages: theirs, page } = await taken((await link({ connection_id: one.id })).json.url);
  const button = /<button[^>]*>(Reconnect|Connect)[^<]*</.exec(page.text)[0];
  const name = /aria-label="([^"]+)"/.exec(button)?.[1] ?? /Connect Probe/.exec(button)[0];
  const mended = await theirs.press(page, name, GOOD);
  assert.equal(mended.status, 200, mended.text);
  assert.equal(await count(), 3);
});

// Old rows, oldest first. Their ids contain their time.
const old = (kind, owner, many, hours) => {
  const id = `(lpad(to_hex((extract(epoch from now() - interval '${hours} hours') * 1000)::bigint + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid`;
  const at = `now() - interval '${hours} hours'`;
  return stack.cluster.sql(
    kind === 'execution'
      ? `insert into sluice.execution select '${owner}', ${id}, 'probe', 'read_label', null, 'succeeded', null, ${at}, ${at}, gen_random_uuid(), '{}' from generate_series(1, ${many}) n`
      : `insert into sluice.audit_event (account_id, id, kind, actor) select '${owner}', ${id}, 'key.created', 'system' from generate_series(1, ${many}) n`,
  );
};
const kept = async (table, owner, what = '') => Number(await stack.cluster.sql(`select count(*) from sluice.${table} where account_id = '${owner}' ${what}`));

test('the oldest executions and audit events beyond the bound are removed, except what a key still replays', async () => {
  const [lazy, small, busy] = await Promise.all(['lazy', 'small', 'busy'].map((name) => stack.account(name, { apps: name === 'busy' ? ['probe'] : [] })));
  await old('execution', lazy.id, 4500, 3);
  await old('execution', small.id, 5, 3);
  await old('execution', busy.id, 100, 3);
  await old('audit_event', lazy.id, 2500, 3);
  const ran = [];
  for (let i = 0; i < 8; i++) {
    const run = await server.execute(busy.key, 'probe', 'read_label', { id: 'INBOX' }, { idempotency_key: `key ${i}` });
    assert.equal(run.status, 200, run.text);
    ran.push(run.json.execution_id);
  }
  const newest = () => stack.cluster.sql(`select string_agg(id::text, ',' order by id) from (select id from sluice.execution where account_id = '${lazy.id}' order by id desc limit 5) x`);
  const last = await newest();
  // housekeeping runs when a server starts
  const args = ['--account-kept-executions', '5', '--account-kept-audit', '7', '--idempotency-ttl', '1h', '--allow-host', '127.0.0.1'];
  const node = await stack.serve({ args, env });
  await until('the bounds are kept', async () => (await kept('execution', lazy.id)) === 5 && (await kept('audit_event', lazy.id)) === 7 && (await kept('execution', busy.id)) === 8);
  assert.equal(await newest(), last);
  assert.equal(await kept('execution', small.id), 5);
  for (const [i, id] of ran.entries()) {
    const again = await node.execute(busy.key, 'probe', 'read_label', { id: 'INBOX' }, { idempotency_key: `key ${i}` });
    assert.equal(again.status, 200, again.text);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(again.json.execution_id, id);
  }
  const metrics = await node.metrics();
  assert.match(metrics, /sluice_housekeeping_total\{what="execution"\} 4595\b/);
  assert.ok(!/sluice_housekeeping_failures_total\{[^}]*\} [1-9]/.test(metrics));
  await node.stop();
});
