// Every kind of audit event in src/store/audit.h, from each interface that can cause it. Events of
// one kind are equal except for the caller: the person or key, the address, the means and, if a
// link was used, the link.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp } from './support/mcp.mjs';
import { formsOf, Pages } from './support/pages.mjs';
import { credentials, Stack } from './support/stack.mjs';

const HOOK = 'https://example.com/hook';
const TOKEN = credentials.probe.token;
let stack, server, catalog, account, pages, csrf, mcp;

before(async () => {
  stack = await Stack.start();
  catalog = join(stack.dir, 'catalog');
  await mkdir(catalog);
  const probe = JSON.parse(await readFile(join(import.meta.dirname, 'support/catalog/probe.json'), 'utf8'));
  await writeFile(join(catalog, 'probe.json'), JSON.stringify(probe));
  // the same app, which reports the credential's user
  await writeFile(join(catalog, 'known.json'), JSON.stringify({ ...probe, integration_id: 'known', name: 'Known', identity: { email: 'body.emailAddress' } }));
  server = await stack.serve({ env: { SLUICE_CATALOG: catalog }, args: ['--public-url', 'http://127.0.0.1:9'] });
  account = await stack.account('events', { apps: ['gmail', 'notion'] });
  pages = new Pages(server.base);
  await pages.signIn(account.key);
  csrf = formsOf((await pages.go('/keys/new')).text).find((form) => form.fields.csrf).fields.csrf;
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

// ---- interfaces ----

const cli = (args, input) => stack.must(args, { env: { SLUICE_CATALOG: catalog }, input });
async function api(method, path, body, status = 200) {
  const reply = await server.call(account.key, method, path, body);
  assert.equal(reply.status, status, reply.text);
  return reply.json;
}
async function operator(method, path, body, status = 200) {
  account.operator ??= (await cli(['keys', 'create', '--operator', '--addresses', '127.0.0.1'])).trim();
  const reply = await server.call(account.operator, method, path, body);
  assert.equal(reply.status, status, reply.text);
  return reply.json;
}
async function form(path, fields = {}, who = pages, token = csrf) {
  const reply = await who.ask(path, { method: 'POST', fields: { csrf: token, ...fields } });
  assert.ok(reply.status < 400, `${path}: ${reply.status} ${reply.text}`);
  return reply;
}
const said = async (call) => assert.ok((await call) !== undefined);

// ---- objects of the changes ----

async function connection(app = 'probe') {
  return JSON.parse(await cli(['connections', 'add', account.id, app, '--credential-file', '-', '--json'], JSON.stringify(credentials[app]))).id;
}
async function key() {
  const text = (await cli(['keys', 'create', account.id, '--name', 'made', '--scopes', 'read'])).trim();
  return stack.cluster.sql(`select id from sluice.api_key where prefix = '${text.slice(0, 10)}'`);
}
const flowIs = (id, status) =>
  until(`the flow is ${status}`, async () => {
    const { flow } = await api('GET', `/api/flows/${id}`);
    return flow.status === status && flow;
  });
async function waiting() {
  const { flowId } = await api('POST', '/api/flows/start', { flowTemplate: 'mail_with_reminder', input: { to: 'x@example.com', subject: 's', text: 't' } });
  return { id: flowId, ...(await flowIs(flowId, 'waiting')) };
}
// The fault has no count, since a call of an earlier flow that was resumed or approved could use it
// up.
async function failed() {
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status: 400 } }]);
  const { flowId } = await api('POST', '/api/flows/start', { flowTemplate: 'unread_mail_summary', input: { maxResults: 2 } });
  const flow = await flowIs(flowId, 'failed');
  await stack.provider.faults([]);
  return { id: flowId, ...flow };
}
async function link(body) {
  return new URL((await api('POST', '/api/connect/sessions', body, 201)).url).pathname;
}
// A browser in which a person has opened the link.
async function opened(path) {
  const person = new Pages(server.base);
  return { person, page: await person.press(await person.ask(path), 'Continue') };
}
const decided = (verb) => ({
  api: async () => {
    const flow = await waiting();
    await api('POST', `/api/flows/${flow.id}/${verb}`, { stepKey: flow.currentStep });
  },
  web: async () => {
    const flow = await waiting();
    await form(`/flows/${flow.id}/${verb}`, { step: flow.currentStep, rev: String(flow.rev) });
  },
});
const added = (more) => api('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe, ...more }, 201);
// A user of the account, to be erased.
async function user(id) {
  await server.call(account.key, 'POST', '/api/connect/sessions', { integration_id: 'probe' }, { 'sluice-user': id });
  return id;
}
// The only webhook of the account, with the same URL each time.
const makeHook = async () => (await api('POST', '/api/webhooks', { url: HOOK }, 201)).id;
const hook = async () => (await api('GET', '/api/webhooks')).items[0]?.id ?? makeHook();
const unhook = async () => api('DELETE', `/api/webhooks/${await hook()}`);
async function switched(enabled) {
  const id = await hook();
  await api('PATCH', `/api/webhooks/${id}`, { enabled });
  return id;
}
// A policy that is changed, each time to another text.
let limit = 0;
const document = () => ({ default: 'allow', rules: [{ tools: ['probe_*'], when: `input.value > \`${++limit}\``, decision: 'confirm' }] });
const setPolicy = () => api('PUT', '/api/policies/kinds', { policy: document() });
const policyFile = async () => {
  await writeFile(join(stack.dir, 'policy.json'), JSON.stringify(document()));
  return join(stack.dir, 'policy.json');
};
const client = ['--client-id', 'own', '--account'];
const setClient = () => cli(['oauth-clients', 'set', 'gmail', ...client, account.id]);

// How to cause one event of each kind, by kind and interface. `past`: rows of a former version,
// which no interface writes any more.
const causes = {
  'account.created': {
    operator: async () => (account.made = (await operator('POST', '/api/accounts', { name: 'a third', external_id: 'third' }, 201)).id),
    cli: async () => (account.made = JSON.parse(await cli(['accounts', 'create', 'another', '--again', '--json'])).account_id),
  },
  'account.changed': {
    operator: () => operator('PATCH', `/api/accounts/${account.made}`, { name: 'renamed' }),
    cli: () => cli(['accounts', 'set', account.made, '--mark', 'AB']),
  },
  'account.disabled': {
    operator: () => operator('PATCH', `/api/accounts/${account.made}`, { disabled: true }),
    cli: async () => (await cli(['accounts', 'enable', account.made])) && cli(['accounts', 'disable', account.made]),
  },
  'account.enabled': {
    operator: () => operator('PATCH', `/api/accounts/${account.made}`, { disabled: false }),
    cli: async () => (await cli(['accounts', 'disable', account.made])) && cli(['accounts', 'enable', account.made]),
  },
  'account.erased': {
    operator: async () => {
      const { id } = await operator('POST', '/api/accounts', { name: 'leaving', external_id: 'leaving' }, 201);
      await operator('PATCH', `/api/accounts/${id}`, { disabled: true });
      await operator('DELETE', `/api/accounts/${id}`, undefined, 202);
    },
    cli: async () => cli(['accounts', 'erase', JSON.parse(await cli(['accounts', 'create', 'leaving', '--again', '--json'])).account_id, '--yes', '--settle', '0s']),
  },
  'connection.added': {
    cli: () => connection(),
    api: () => added(),
    web: () => form('/integrations/probe/connect', { token: TOKEN }),
    link: async () => {
      const { person, page } = await opened(await link({ integration_id: 'probe' }));
      await person.press(page, 'Connect Probe', { token: TOKEN });
    },
  },
  'connection.reconnected': {
    api: async () => added({ connection_id: await connection() }),
    web: async () => form('/integrations/probe/connect', { token: TOKEN, connection: await connection() }),
    link: async () => {
      const { person, page } = await opened(await link({ integration_id: 'probe', connection_id: await connection() }));
      await person.press(page, 'Reconnect Probe', { token: TOKEN });
    },
  },
  'connection.default_set': {
    api: async () => api('PATCH', `/api/connections/${await connection()}`, { default: true }),
    web: async () => form(`/connections/${await connection()}/default`),
    cli: async () => cli(['connections', 'default', account.id, await connection()]),
  },
  'connection.renamed': {
    api: async () => api('PATCH', `/api/connections/${await connection()}`, { label: 'renamed' }),
    web: async () => form(`/connections/${await connection()}/label`, { label: 'renamed' }),
  },
  'connection.shared': { api: async () => api('PATCH', `/api/connections/${await connection()}`, { shared: true }) },
  'connection.unshared': { api: async () => api('PATCH', `/api/connections/${await connection()}`, { shared: false }) },
  'connection.removed': {
    api: async () => api('DELETE', `/api/connections/${await connection()}`),
    web: async () => form(`/connections/${await connection()}/delete`),
    cli: async () => cli(['connections', 'remove', account.id, await connection()]),
  },
  'connection.reauth_required': {
    api: () => lost(() => server.execute(account.key, 'notion', 'get_self', {})),
    mcp: () => lost(() => mcp.call('run_action', { integration_id: 'notion', action_id: 'get_self', input: {} })),
  },
  'execution.blocked': {
    api: () => server.execute(account.key, 'gmail', 'send_message', { to: 'x@example.com', subject: 's', text: 't' }),
    mcp: () => said(mcp.call('gmail_send_message', { to: 'x@example.com', subject: 's', text: 't' })),
  },
  'flow.approved': decided('approve'),
  'flow.rejected': decided('reject'),
  'flow.cancelled': {
    api: async () => api('POST', `/api/flows/${(await waiting()).id}/cancel`),
    web: async () => form(`/flows/${(await waiting()).id}/cancel`),
  },
  'flow.resumed': {
    api: async () => api('POST', `/api/flows/${(await failed()).id}/resume`),
    web: async () => form(`/flows/${(await failed()).id}/resume`),
  },
  'key.created': {
    web: async () => pages.press(await pages.go('/keys/new'), 'Create the key', { name: 'made', 'scope.read': 'yes', expires: 'never' }),
    cli: () => key(),
    api: () => api('POST', '/api/keys', { name: 'made', scopes: ['read'] }, 201),
    operator: () => operator('POST', `/api/accounts/${account.id}/keys`, { name: 'made', scopes: ['read'] }, 201),
  },
  'key.rolled': { cli: async () => cli(['keys', 'roll', account.id, await key()]), api: async () => api('POST', `/api/keys/${await key()}/roll`, {}, 201) },
  'key.revoked': { api: async () => api('DELETE', `/api/keys/${await key()}`), web: async () => form(`/keys/${await key()}/revoke`), cli: async () => cli(['keys', 'revoke', account.id, await key()]) },
  'link.created': { api: () => link({ integration_id: 'probe' }), mcp: () => said(mcp.call('connect_app', { integration_id: 'probe' })) },
  'link.used': { link: async () => opened(await link({ integration_id: 'probe' })) },
  'link.refused': {
    link: async () => {
      const { person, page } = await opened(await link({ integration_id: 'known', email: 'other@example.com' }));
      await person.press(page, 'Connect Known', { token: TOKEN });
    },
  },
  'policy.changed': { api: setPolicy, cli: async () => cli(['policy', 'set', account.id, 'kinds', await policyFile()]) },
  'policy.deleted': {
    api: async () => (await setPolicy()) && api('DELETE', '/api/policies/kinds'),
    cli: async () => (await setPolicy()) && cli(['policy', 'delete', account.id, 'kinds']),
  },
  'user.erased': {
    api: async () => api('DELETE', `/api/users/${await user('ada')}`, undefined, 202),
    web: async () => form(`/users/${await user('eve')}/erase`),
  },
  'webhook.created': {
    api: makeHook,
    cli: async () => (await unhook()) && cli(['webhooks', 'add', account.id, HOOK]),
    web: async () => (await unhook()) && form('/webhooks/new', { url: HOOK, which: 'all' }),
  },
  'webhook.changed': {
    api: async () => api('PATCH', `/api/webhooks/${await hook()}`, { description: 'changed' }),
    web: async () => form(`/webhooks/${await hook()}/edit`, { url: HOOK, which: 'all', description: 'changed again' }),
  },
  'webhook.rolled': {
    api: async () => api('POST', `/api/webhooks/${await hook()}/roll`),
    web: async () => {
      const { rev } = await api('GET', `/api/webhooks/${await hook()}`);
      await form(`/webhooks/${await hook()}/roll`, { overlap_s: '86400', rev: String(rev) });
    },
    cli: async () => cli(['webhooks', 'roll', account.id, await hook()]),
  },
  'webhook.enabled': {
    api: async () => api('PATCH', `/api/webhooks/${await switched(false)}`, { enabled: true }),
    web: async () => form(`/webhooks/${await switched(false)}/switch`, { enabled: 'true' }),
    cli: async () => cli(['webhooks', 'enable', account.id, await switched(false)]),
  },
  'webhook.disabled': {
    api: async () => api('PATCH', `/api/webhooks/${await switched(true)}`, { enabled: false }),
    web: async () => form(`/webhooks/${await switched(true)}/switch`, { enabled: 'false' }),
  },
  'webhook.deleted': {
    api: unhook,
    web: async () => form(`/webhooks/${await hook()}/delete`),
    cli: async () => cli(['webhooks', 'remove', account.id, await hook()]),
  },
  'oauth_client.set': { api: () => api('PUT', '/api/oauth-clients/gmail', { client_id: 'own' }), web: () => form('/integrations/gmail/client', { client_id: 'own', client_secret: '' }), cli: setClient },
  'oauth_client.removed': {
    api: async () => api('DELETE', '/api/oauth-clients/gmail', (await setClient()) && undefined),
    web: async () => form('/integrations/gmail/client/delete', (await setClient()) && {}),
    cli: async () => cli(['oauth-clients', 'delete', 'gmail', '--account', ((await setClient()) && account.id)]),
  },
  'oauth_client.deleted': {
    past: () =>
      stack.cluster.sql(`insert into sluice.audit_event (account_id, id, kind, actor, details)
        values ('${account.id}', sluice.uuid_floor(current_date), 'oauth_client.deleted', 'operator:old', '{"integration_id":"gmail"}')`),
  },
};

// Makes the app refuse the connection's credential permanently.
async function lost(run) {
  await api('PATCH', `/api/connections/${await connection('notion')}`, { default: true });
  await stack.provider.faults([{ match: { path_prefix: '/v1/' }, count: -1, action: { status: 401 } }]);
  const reply = await run();
  await stack.provider.faults([]);
  assert.match(JSON.stringify(reply.json ?? reply), /unauthorized|reauth_required/);
}

// ---- the events ----

const OPERATORS = '00000000-0000-0000-0000-000000000000'; // the events of erased accounts
const rowsOf = async (kind) => {
  const text = await stack.cluster.sql(
    `select coalesce(json_agg(e order by e.id), '[]') from sluice.audit_event e where kind = '${kind}' and account_id in ('${kind === 'account.erased' ? OPERATORS : account.id}', '${account.made ?? account.id}')`,
  );
  return JSON.parse(text);
};

// The members that depend on the caller. Ids, and names derived from them, depend on the changed
// object.
const CALLERS = ['by', 'link_id', 'key_id'];
function withoutCaller({ kind, reason, details }, face) {
  const kept = Object.entries(details ?? {}).filter(([name]) => name !== 'by' && !(face === 'link' && kind.startsWith('connection.') && CALLERS.includes(name)));
  const plain = (name, value) => (/_id$|^prefix$|^replaces$|^rev$/.test(name) && name !== 'integration_id' && name !== 'action_id' ? '<id>' : value);
  return { kind, reason, details: Object.fromEntries(kept.map(([name, value]) => [name, plain(name, value)])) };
}

test('each kind is caused here by each of its interfaces, and by no other', async () => {
  const header = await readFile(join(import.meta.dirname, '../../src/store/audit.h'), 'utf8');
  const kinds = [...header.matchAll(/^ {4}X\([A-Z_]+, "([\w.]+)"/gm)].map(([, kind]) => kind);
  assert.ok(kinds.length > 20);
  assert.deepEqual(Object.keys(causes).sort(), kinds.sort());
  // the page offers each, but the operator's, and each group of several
  const words = kinds.map((kind) => kind.split('.')[0]);
  const groups = new Set(words.filter((word, at) => words.indexOf(word) !== at));
  const select = (await pages.go('/audit')).text.match(/<select[^>]*name="kind"[^]*?<\/select>/)[0];
  const offered = [...select.matchAll(/<option value="([\w.]+)"/g)].map(([, value]) => value);
  assert.deepEqual(offered.sort(), [...kinds, ...groups].filter((kind) => kind !== 'account.erased').sort());
});

for (const [kind, faces] of Object.entries(causes))
  test(`${kind}: equal but for the caller, by ${Object.keys(faces).join(', ')}`, async () => {
    const seen = {};
    for (const [face, cause] of Object.entries(faces)) {
      const before = (await rowsOf(kind)).map(({ id }) => id);
      await cause();
      // the event of a blocked run is written after the answer
      const fresh = await until(`${face} has made an event`, async () => {
        const rows = (await rowsOf(kind)).filter(({ id }) => !before.includes(id));
        return rows.length > 0 && rows;
      });
      assert.equal(fresh.length, 1, JSON.stringify(fresh));
      const actor = { cli: /^operator:/, operator: /^operator:[0-9a-f-]{36}$/, past: /^operator:/, link: /^link:/ }[face] ?? /^key:/;
      assert.match(fresh[0].actor, actor);
      if (face !== 'past') assert.ok(fresh[0].address, JSON.stringify(fresh[0]));
      assert.equal(fresh[0].details?.by, { web: 'dashboard', link: fresh[0].details?.by }[face], JSON.stringify(fresh[0]));
      seen[face] = withoutCaller(fresh[0], face);
    }
    const [first, ...others] = Object.entries(seen);
    for (const [face, event] of others) assert.deepEqual(event, first[1], `${face} and ${first[0]}`);
  });

test('a row of a former kind keeps its name, in the list and in the filter', async () => {
  assert.ok(!(await pages.go('/audit')).text.includes('account.erased'));
  const { events } = await api('GET', '/api/audit?kind=oauth_client.deleted');
  assert.deepEqual(events.map(({ kind }) => kind), ['oauth_client.deleted']);
  assert.match((await pages.go('/audit?kind=oauth_client.deleted')).text, /An OAuth client was deleted by a command/);
});
