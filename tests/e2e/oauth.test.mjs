// Connections with OAuth and a strict server (npm oidc-provider) whose access tokens live 5 s and
// whose refresh tokens rotate. Reuse of an old token revokes the whole family, so a second refresh
// for one expiry, or a lost refresh token, ends in reauth_required here.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { until } from './support/client.mjs';
import { clientOf, Oidc, PUBLIC, REDIRECT } from './support/oidc.mjs';
import { Pages } from './support/pages.mjs';
import { sluiceBin, Stack } from './support/stack.mjs';

const CRASHES = ['load', 'loaded', 'claim', 'claimed', 'ask', 'read', 'store', 'stored', 'answer'];
// Crash points between the reply and its commit: the new refresh token is lost with the process,
// and the old token has been used.
const LOST = ['read', 'store'];
// The time-out on a server that will be killed: its claim lasts 5 s longer.
const CRASH_TIMEOUT = '5s';

let stack, oidc, catalog, one, two;
const people = new Map(); // name -> {id, key, connection, tokens}

const env = () => ({ SLUICE_CATALOG: catalog });
const serve = (options = {}) =>
  stack.serve({
    args: ['--allow-host', '127.0.0.1', ...(options.args ?? [])],
    env: { ...env(), ...options.env },
  });

// Creates an account with that name and one connection of its own.
async function person(name, { app = 'strict', client = 'sluice', expired = false } = {}) {
  const account = await stack.account(name, { apps: [] });
  account.tokens = await oidc.tokens({ login: name, client });
  account.addedAt = Date.now();
  const credential = expired ? { ...account.tokens, expires_in: undefined, expires_at: '2026-01-01T00:00:00Z' } : account.tokens;
  account.connection = await stack.connect(account.id, app, credential, [], { env: env() });
  account.app = app;
  people.set(name, account);
  return account;
}

const read = (server, account, more = {}) => server.execute(account.key, account.app, 'read_me', {}, more);
const many = (count, fn) => Promise.all(Array.from({ length: count }, (_, i) => fn(i)));
const isPast = (account) => Date.now() > account.addedAt + 5000;
// Expects one refresh, or more on a slow machine, where 5 s tokens (renewed after 4 s) may expire
// during the test.
function assertExpiries(made, tookMs) {
  const most = 1 + Math.floor(tookMs / 3700);
  assert.ok(made >= 1 && made <= most, `${made} refreshes in ${tookMs} ms`);
}
const stateOf = (account) => stack.cluster.sql(`select status from sluice.connection where id = ${account.connection}`);
const events = async (account) =>
  Number(
    await stack.cluster.sql(
      `select count(*) from sluice.audit_event where account_id = '${account.id}' and kind = 'connection.reauth_required'`,
    ),
  );

function assertReauth(reply, app) {
  assert.equal(reply.status, 409, reply.text);
  assert.equal(reply.json.status, 'blocked');
  assert.equal(reply.json.error_code, 'reauth_required');
  assert.equal(reply.json.execution_id, null);
  assert.deepEqual(reply.json.recommended_next_action, {
    tool: 'sluice.connect_app',
    input: { integration_id: app, force_reconnect: true },
  });
}

before(async () => {
  oidc = await Oidc.start({ ttl: 5 });
  stack = await Stack.start({ provider: false, postgres: { max_connections: 200 } });
  catalog = join(stack.dir, 'catalog');
  await mkdir(catalog);
  const manifests = [
    oidc.manifest('strict'),
    oidc.manifest('posting', { client: 'posting' }),
    oidc.manifest('orphan'),
    oidc.manifest('machine', { type: 'oauth2_client_credentials' }),
  ];
  for (const one of manifests) await writeFile(join(catalog, `${one.integration_id}.json`), JSON.stringify(one));
  for (const [app, client] of [['strict', 'sluice'], ['posting', 'posting'], ['machine', 'sluice']])
    await stack.must(['oauth-clients', 'set', app, '--client-id', client, '--client-secret-file', '-'], {
      env: env(),
      input: `${clientOf(client).client_secret}\n`,
    });
  [one, two] = await Promise.all([serve(), serve()]);
  await Promise.all(['alone', 'both', 'steady'].map((name) => person(name)));
});
after(async () => {
  await oidc?.stop();
  await stack?.stopWell(assert);
});

describe('concurrently, since they all wait', { concurrency: 2 }, () => {
  test('50 parallel executions over an expiry make one refresh, with one process and with two', async () => {
    const [alone, both] = [people.get('alone'), people.get('both')];
    for (let expiry = 1; expiry <= 2; expiry++) {
      await until('the tokens have expired', () => isPast(alone) && isPast(both));
      const before = ['alone', 'both'].map((name) => oidc.refreshes(name).length);
      const began = Date.now();
      const replies = await Promise.all([
        many(50, () => read(one, alone)),
        many(50, (i) => read(i % 2 ? one : two, both)),
      ]);
      for (const reply of replies.flat()) assert.equal(reply.status, 200, reply.text);
      const after = ['alone', 'both'].map((name) => oidc.refreshes(name).length);
      assertExpiries(after[0] - before[0], Date.now() - began);
      assertExpiries(after[1] - before[1], Date.now() - began);
      alone.addedAt = both.addedAt = Date.now();
    }
    for (const name of ['alone', 'both']) assert.ok(oidc.refreshes(name).every((grant) => grant.ok));
  });

  test('a steady stream of executions never notices an expiry', async () => {
    const steady = people.get('steady');
    await read(one, steady);
    const before = oidc.refreshes('steady').length;
    const began = Date.now();
    let count = 0;
    await until('7 s have passed', async () => {
      for (const reply of await Promise.all([read(one, steady), read(two, steady)]))
        assert.equal(reply.status, 200, reply.text);
      count++;
      return Date.now() > began + 7000;
    });
    assertExpiries(oidc.refreshes('steady').length - before, Date.now() - began);
    assert.ok(oidc.refreshes('steady').every((grant) => grant.ok));
    assert.ok(count > 5);
  });
});

test('tokens of another system: one that has expired is stored untested, and renewed when it is used', async () => {
  const account = await stack.account('imported', { apps: [] });
  const client = (method, body) => one.call(account.key, method, '/api/oauth-clients/orphan', body);
  const add = (credential) => one.call(account.key, 'POST', '/api/connections', { integration_id: 'orphan', credential });
  const { client_id, client_secret } = clientOf('sluice');
  assert.equal((await client('PUT', { client_id, client_secret })).status, 200); // the operator has none
  const { access_token, refresh_token } = await oidc.tokens({ login: 'imported', client: 'sluice' });
  const before = oidc.refreshes('imported').length;
  const made = await add({ access_token, refresh_token, expires_at: '2026-01-01T00:00:00Z' });
  assert.equal(made.status, 201, made.text);
  assert.equal(oidc.refreshes('imported').length, before);
  // for a user with whom the account shares it
  assert.equal((await one.call(account.key, 'PATCH', `/api/connections/${made.json.id}`, { shared: true })).status, 200);
  const reply = await one.call(account.key, 'POST', '/api/executions', { integration_id: 'orphan', action_id: 'read_me', input: {} }, { 'sluice-user': 'ada' });
  assert.equal(reply.status, 200, reply.text);
  assert.equal((await read(one, { ...account, app: 'orphan' })).status, 200);
  assert.deepEqual(oidc.refreshes('imported').slice(before).map(({ ok }) => ok), [true]);
  assert.equal((await client('DELETE')).status, 200);
});

test('killed at every step of a renewal: usable, or reported as reauth_required', async () => {
  oidc.ttl = 3600;
  const cases = [...CRASHES.map((step) => ['strict', 'sluice', step]), ...LOST.map((step) => ['posting', 'posting', step])];
  const killed = await Promise.all(
    cases.map(async ([app, client, step]) => {
      const account = await person(`crash ${app} ${step}`, { app, client, expired: true });
      const server = await serve({
        args: ['--token-timeout', CRASH_TIMEOUT],
        env: { SLUICE_CRASH_AT: `token_renewal/${step}` },
      });
      await assert.rejects(read(server, account), `there was no answer at ${step}`);
      assert.equal((await server.process.gone).signal, 'SIGKILL', server.log);
      stack.forget(server);
      return [account, app, step];
    }),
  );
  await Promise.all(
    killed.map(async ([account, app, step]) => {
      const reply = await read(one, account);
      if (app === 'strict' && LOST.includes(step)) {
        assertReauth(reply, app);
        assert.equal(await events(account), 1);
      } else {
        assert.equal(reply.status, 200, `${step}: ${reply.text}`);
      }
      const asked = oidc.refreshes(`crash ${app} ${step}`).length;
      assert.ok(asked <= (LOST.includes(step) ? 2 : 1), `${step}: ${asked}`);
    }),
  );
});

test('a token that the provider refuses is renewed once, and the call is repeated', async () => {
  const account = await person('refused');
  const token = await oidc.provider.AccessToken.find(account.tokens.access_token);
  await token.destroy();
  const replies = await many(20, (i) =>
    (i % 2 ? one : two).execute(account.key, 'strict', 'write_note', {}, { confirm: true, idempotency_key: `note-${i}` }),
  );
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  assert.equal(oidc.refreshes('refused').length, 1);
  assert.equal(oidc.calls.filter((call) => call.account === 'refused' && call.status === 201).length, 20);
});

test('a token that expires between two pages: the list continues at that page', async () => {
  const account = await person('pages');
  const destroy = async (text) => (await oidc.provider.AccessToken.find(text)).destroy();
  oidc.onPage = (page, token) => page === 0 && destroy(token);
  const list = () => one.execute(account.key, 'strict', 'list', {}, { max_pages: 5 });
  const whole = await list();
  assert.equal(whole.status, 200, whole.text);
  assert.deepEqual(whole.json.output.items, [0, 1, 2]);
  assert.equal(oidc.refreshes('pages').length, 1);
  // If the grant is also revoked, the result is the pages read before that.
  oidc.onPage = async (page, token) => {
    if (page !== 1) return;
    const sealed = await oidc.provider.AccessToken.find(token);
    await destroy(token);
    await oidc.provider.RefreshToken.revokeByGrantId(sealed.grantId);
  };
  const part = await list();
  oidc.onPage = null;
  assert.equal(part.status, 200, part.text);
  assert.deepEqual(part.json.output.items, [0, 1]);
  assertReauth(await read(one, account), 'strict');
  assert.equal(await events(account), 1);
});

test('tokens that expire on the way, again and again, do not end a connection', async () => {
  const account = await person('fleeting');
  oidc.isDeaf = true;
  oidc.ttl = 1;
  oidc.onRefusal = () => new Promise((resolve) => setTimeout(resolve, 1100));
  const reply = await read(one, account);
  assert.equal(reply.status, 500, reply.text);
  assert.equal(reply.json.error_code, 'timeout');
  assert.match(reply.json.hint, /stays as it is/);
  assert.equal(await stateOf(account), 'live');
  assert.equal(await events(account), 0);
  oidc.isDeaf = false;
  oidc.onRefusal = null;
  oidc.ttl = 3600;
  assert.equal((await read(one, account)).status, 200);
});

test('refused again with a fresh token: reauth_required, marked once', async () => {
  const account = await person('deaf');
  oidc.isDeaf = true;
  const replies = await many(20, () => read(one, account));
  oidc.isDeaf = false;
  for (const reply of replies) assertReauth(reply, 'strict');
  assert.equal(oidc.refreshes('deaf').length, 1);
  assert.equal(await events(account), 1);
  const calls = oidc.calls.length;
  assertReauth(await read(two, account), 'strict');
  assert.equal(oidc.calls.length, calls, 'the provider gets no more requests');
});

test('the end of a grant is reported once to the account, and to every execution', async () => {
  const account = await person('withdrawn', { expired: true });
  await oidc.revoke(account.tokens.refresh_token);
  const asked = oidc.asked;
  for (const reply of await many(50, (i) => read(i % 2 ? one : two, account))) assertReauth(reply, 'strict');
  assertReauth(await read(two, account), 'strict');
  assert.equal(oidc.asked - asked, 1);
  assert.equal(oidc.refreshes().at(-1).error, 'invalid_grant');
  assert.equal(await stateOf(account), 'reauth_required');
  assert.equal(await events(account), 1);
  const listed = await one.call(account.key, 'GET', '/api/integrations?query=strict');
  assert.equal(listed.json.items.find((item) => item.integration_id === 'strict').connection_state, 'reauth_required');
});

test('a token server that is unreachable does not mean a dead token', async () => {
  const faults = ['cut', 'error', 'garbage', 'html', 'hang'];
  await Promise.all(faults.map((fault) => person(`outage ${fault}`, { expired: true })));
  const hasty = await serve({ args: ['--token-timeout', '500ms'] });
  for (const fault of faults) {
    const server = fault === 'hang' ? hasty : one;
    const account = people.get(`outage ${fault}`);
    oidc.fault = fault;
    const reply = await read(server, account);
    const code = fault === 'hang' ? 'timeout' : 'execution_failed';
    assert.equal(reply.status, 500, `${fault}: ${reply.text}`);
    assert.equal(reply.json.status, 'failed');
    assert.equal(reply.json.error_code, code, fault);
    assert.match(reply.json.hint, /stays as it is/);
    assert.ok(reply.json.execution_id);
    const tool = await server.call(account.key, 'POST', '/api/tools/strict_read_me/execute', {});
    assert.equal(tool.json.error.retryable, true, fault);
    oidc.fault = null;
    oidc.letGo();
    assert.equal(await stateOf(account), 'live');
    // not the hasty server: a refresh that it abandons may have been granted, and its refresh token
    // used up
    const again = await until('it works again', async () => {
      const next = await read(one, account);
      return next.status === 200 && next;
    });
    assert.equal(again.json.output.account, `outage ${fault}`);
    assert.equal(await events(account), 0);
  }
});

test('a token that still works is used while the token server is unreachable', async () => {
  const account = await person('aging');
  await stack.cluster.sql(
    `update sluice.connection set expires_at = now() + interval '2 minutes', updated_at = now() - interval '1 hour'
     where id = ${account.connection}`,
  );
  const asked = oidc.asked;
  oidc.fault = 'cut';
  for (const reply of await many(10, () => read(one, account))) assert.equal(reply.status, 200, reply.text);
  await until('a renewal was tried in the background', () => oidc.asked > asked);
  assert.equal((await read(one, account)).status, 200);
  assert.equal(oidc.asked, asked + 1, 'and is not repeated for a while');
  oidc.fault = null;
  assert.equal((await read(two, account)).status, 200);
  await until('another process has renewed it', () => oidc.refreshes('aging').some((grant) => grant.ok));
});

test('a stopping server stores the token that it has requested', async () => {
  const account = await person('leaving', { expired: true });
  const leaving = await serve();
  const { promise: wasAsked, resolve: asked } = Promise.withResolvers();
  const { promise: mayAnswer, resolve: answer } = Promise.withResolvers();
  oidc.fault = (request, response, handle) => {
    asked();
    mayAnswer.then(handle);
  };
  const running = read(leaving, account);
  await wasAsked;
  leaving.process.kill('SIGTERM');
  await until('it drains', () => leaving.log.includes('draining'));
  answer();
  assert.equal((await running).status, 200);
  assert.equal((await leaving.process.gone).code, 0, leaving.log);
  oidc.fault = null;
  assert.equal((await read(one, account)).status, 200);
  assert.equal(oidc.refreshes('leaving').length, 1);
});

test('a client that the token server does not know is the operator’s problem, not the account’s', async () => {
  const account = await person('unknown client', { expired: true });
  await stack.must(['oauth-clients', 'set', 'strict', '--client-id', 'nobody', '--account', account.id, '--client-secret-file', '-'], {
    env: env(),
    input: 'sentinel-client-secret',
  });
  const reply = await read(one, account);
  assert.equal(reply.status, 500, reply.text);
  assert.equal(reply.json.error_code, 'execution_failed');
  assert.match(reply.json.message, /invalid_client/);
  assert.equal(await stateOf(account), 'live');
  await stack.must(['oauth-clients', 'delete', 'strict', '--account', account.id], { env: env() });
  await until('the shared client is used', async () => (await read(one, account)).status === 200);
  const kinds = `select string_agg(kind, ' ' order by id) from sluice.audit_event where account_id = '${account.id}' and kind like 'oauth%'`;
  assert.equal(await stack.cluster.sql(kinds), 'oauth_client.set oauth_client.removed');
});

test('without an OAuth client the provider decides', async () => {
  const account = await person('orphan', { app: 'orphan', expired: true });
  assert.equal((await read(one, account)).status, 200, 'the token is good, whatever its row says');
  await (await oidc.provider.AccessToken.find(account.tokens.access_token)).destroy();
  assertReauth(await read(one, account), 'orphan');
  assert.equal(await events(account), 1);
});

test('the address rules also apply to token endpoints', async () => {
  const account = await person('inside', { expired: true });
  const asked = oidc.asked;
  const closed = await stack.serve({ env: env() });
  const reply = await read(closed, account);
  assert.equal(reply.status, 500, reply.text);
  assert.match(reply.json.message, /could not be renewed/);
  assert.equal(oidc.asked, asked);
  assert.equal(await stateOf(account), 'live');
});

test('client credentials: the first token and the next, one at a time', async () => {
  const account = await stack.account('machine', { apps: [] });
  account.app = 'machine';
  const own = { client_id: 'sluice', client_secret: clientOf('sluice').client_secret };
  for (const credential of [{}, own]) {
    account.connection = await stack.connect(account.id, 'machine', credential, ['--default'], { env: env() });
    const before = oidc.grants.length;
    await until('the servers know the client', async () => (await stack.cluster.sql('select 1')) === '1');
    const preview = await one.execute(account.key, 'machine', 'read_me', {}, { dry_run: true });
    assert.equal(preview.status, 200, preview.text);
    const replies = await many(20, () => read(one, account));
    for (const reply of replies) assert.equal(reply.status, 200, reply.text);
    const made = oidc.grants.slice(before).filter((grant) => grant.type === 'client_credentials');
    assert.ok(made.length <= 1, `${made.length} grants`);
  }
  await stack.cluster.sql(`update sluice.connection set expires_at = now() where id = ${account.connection}`);
  const before = oidc.grants.length;
  await until('the expiry is noticed, and the token renewed', async () => {
    assert.equal((await read(one, account)).status, 200);
    return oidc.grants.length > before;
  });
  assert.equal(oidc.grants.length, before + 1);
});

test('a scope that was not granted is reported before the call', async () => {
  const account = await person('narrow');
  const calls = oidc.calls.length;
  const reply = await one.execute(account.key, 'strict', 'needs_more', {});
  assert.equal(reply.status, 409, reply.text);
  assert.equal(reply.json.error_code, 'forbidden');
  assert.match(reply.json.message, /notes\.write/);
  assert.equal(oidc.calls.length, calls);
});

// Runs `connections authorize`, where `answer` acts as the person: it gets the printed URL and
// returns the URL to paste. {code, stdout, stderr, url}
function authorize(account, app, args, answer) {
  const command = ['connections', 'authorize', account.id, app, '--redirect-uri', REDIRECT, '--allow-host', '127.0.0.1'];
  const child = spawn(sluiceBin, [...command, ...args], { env: { ...process.env, ...stack.env, ...env() } });
  const end = { stdout: '', stderr: '' };
  let isAsked = false;
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.stderr.setEncoding('utf8').on('data', (part) => (end.stderr += part));
    child.stdout.setEncoding('utf8').on('data', (part) => {
      end.stdout += part;
      if (isAsked || !end.stdout.includes('\n')) return;
      isAsked = true;
      end.url = new URL(end.stdout.split('\n')[0]);
      Promise.resolve(answer(end.url.href)).then((line) => child.stdin.end(`${line}\n`), reject);
    });
    child.on('close', (code) => resolve({ code, ...end }));
  });
}

test('code and PKCE, through the real consent pages', async () => {
  const account = await stack.account('walker', { apps: [] });
  account.app = 'strict';
  const consent = (options) => async (url) => (await oidc.consent(url, { login: 'walker', ...options })).url;
  const made = await authorize(account, 'strict', ['--label', 'work'], consent());
  assert.equal(made.code, 0, made.stderr);
  const asked = Object.fromEntries(made.url.searchParams);
  assert.equal(asked.redirect_uri, REDIRECT);
  assert.equal(asked.scope, 'openid offline_access notes.read');
  assert.equal(asked.code_challenge_method, 'S256');
  assert.match(asked.code_challenge, /^[\w-]{43}$/);
  assert.match(asked.state, /^[\w-]{43}$/);
  assert.equal((await read(one, account)).json.output.account, 'walker');
  const list = async () => JSON.parse(await stack.must(['connections', 'list', account.id, '--json']));
  const [first] = await list();
  assert.deepEqual(
    [first.label, first.default, first.status, first.scopes],
    ['work', true, 'live', 'openid offline_access notes.read'],
  );
  // A second connection of the same app is not the default. The first has ended, and is live again
  // with a new grant.
  const second = await authorize(account, 'strict', [], consent());
  assert.equal(second.code, 0, second.stderr);
  await stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'x' where id = ${first.id}`);
  const mended = await authorize(account, 'strict', ['--reconnect', first.id], consent());
  assert.equal(mended.code, 0, mended.stderr);
  const after = await list();
  assert.deepEqual(after.map((row) => [row.id === first.id, row.default, row.status]), [[true, true, 'live'], [false, false, 'live']]);
  const kinds = await stack.cluster.sql(
    `select string_agg(kind, ' ' order by id) from sluice.audit_event where account_id = '${account.id}' and kind like 'connection.%'`,
  );
  assert.equal(kinds, 'connection.added connection.added connection.reconnected');
  assert.equal(await stack.cluster.sql('select count(*) from sluice.oauth_begun'), '0');
});

test('callbacks that are refused', async () => {
  const account = await stack.account('stray', { apps: [] });
  const back = (url, change) => {
    const { state } = Object.fromEntries(new URL(url).searchParams);
    return `${REDIRECT}?${new URLSearchParams({ state, code: 'made-up', iss: oidc.url, ...change })}`;
  };
  const cases = [
    [(url) => oidc.consent(url, { login: 'stray', deny: true }).then((page) => page.url), /access_denied/],
    [(url) => back(url, { state: 'another' }), /not started here/],
    [(url) => back(url, { iss: 'https://evil.example' }), /did not come from App strict/],
    [(url) => back(url, {}), /invalid_grant/],
    [(url) => back(url, { code: '' }), /its answer has no code/],
    [() => 'nothing', /no query/],
  ];
  for (const [answer, why] of cases) {
    const end = await authorize(account, 'strict', [], answer);
    assert.equal(end.code, 1, end.stdout);
    assert.match(end.stderr, why);
  }
  const none = await stack.sluice(['connections', 'authorize', account.id, 'orphan', '--redirect-uri', REDIRECT], { env: env() });
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no usable OAuth client/);
  assert.equal(await stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${account.id}'`), '0');
});

let ofUser; // an account that has a user with a connection
test('a user connects by a link, with the account’s client, which also renews its token', async () => {
  const account = (ofUser = await stack.account('with a user', { apps: [] }));
  const set = ['oauth-clients', 'set', 'orphan', '--account', account.id, '--client-id', 'sluice', '--client-secret-file', '-'];
  await stack.must(set, { env: env(), input: `${clientOf('sluice').client_secret}\n` }); // orphan has no other
  const server = await serve({ args: ['--public-url', PUBLIC] });
  const as = (method, path, body) => server.call(account.key, method, path, body, { 'sluice-user': 'ada' });
  const run = () => as('POST', '/api/executions', { integration_id: 'orphan', action_id: 'read_me', input: {} });
  const refused = await run();
  assert.equal(refused.json.error_code, 'integration_not_connected');
  assert.match(refused.json.hint, /^Have the user connect the app, then send the same request again\. POST \/api\/connect\/sessions /);
  const link = await as('POST', '/api/connect/sessions', { integration_id: 'orphan' });
  assert.equal(link.status, 201, link.text);
  const person = new Pages(server.base);
  const page = await person.press(await person.ask(new URL(link.json.url).pathname), 'Continue');
  const sent = await person.press(page, 'Connect App orphan', {}, { follow: false });
  const back = await oidc.consent(sent.location, { login: 'ada of the account' });
  const { pathname, search } = new URL(back.url);
  assert.match((await person.go(pathname + search)).text, /now has access to App orphan/);
  assert.equal((await run()).json.output.account, 'ada of the account');
  const { connection_id: id } = (await as('GET', `/api/connect/sessions/${link.json.id}`)).json;
  assert.equal(await stack.cluster.sql(`select parent_id from sluice.connection where id = ${id}`), account.id);
  await stack.cluster.sql(`update sluice.connection set expires_at = '2026-01-01' where id = ${id}`);
  const again = await serve();
  assert.equal((await again.call(account.key, 'POST', '/api/executions', { integration_id: 'orphan', action_id: 'read_me', input: {} }, { 'sluice-user': 'ada' })).json.output.account, 'ada of the account');
  assert.equal(oidc.refreshes('ada of the account').length, 1);
  await Promise.all([server.stop(), again.stop()]);
});

test('a rotation of the master key also re-seals OAuth clients and tokens', async () => {
  const account = await person('rotated', { expired: true });
  const former = (await readFile(stack.masterKeyFile, 'utf8')).trim();
  const fresh = (await stack.must(['keys', 'master'])).trim();
  const keys = (text) => ({ ...env(), SLUICE_MASTER_KEY_FILE: '', SLUICE_MASTER_KEY: text });
  await stack.must(['keys', 'rotate'], { env: keys(`${fresh},${former}`) });
  const server = await serve({ env: keys(fresh) });
  assert.equal((await read(server, account)).status, 200);
  assert.equal(oidc.refreshes('rotated').length, 1);
  const reply = await server.call(ofUser.key, 'POST', '/api/executions', { integration_id: 'orphan', action_id: 'read_me', input: {} }, { 'sluice-user': 'ada' });
  assert.equal(reply.status, 200, reply.text); // a user's connection, and the client that renews it
});

test('no token and no client secret is in logs or in the database', async () => {
  const secrets = ['sentinel-client-secret', ...['sluice', 'posting'].map((id) => clientOf(id).client_secret)];
  for (const account of people.values()) secrets.push(account.tokens.access_token, account.tokens.refresh_token);
  const metrics = await one.metrics();
  const texts = [await stack.cluster.dump(), metrics, one.log, two.log];
  for (const secret of secrets) for (const text of texts) assert.ok(!text.includes(secret));
  assert.match(metrics, /sluice_token_renewals_total\{integration="strict",result="renewed"\} \d/);
});
