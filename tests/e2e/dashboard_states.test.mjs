// As dashboard_truth.test.mjs, for webhooks, connect links, end users, connections, apps and runs: an
// object is changed by another person, state by state, and each sentence of its pages' tables is
// there if and only if its condition holds (support/sentences.mjs). Also forms that were displayed
// before the change.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { Scripted } from './support/scripted.mjs';
import { credentials } from './support/stack.mjs';
import { Reader, checkAsked, checkRoutes, compare } from './support/sentences.mjs';

let dashboard, account, reader, receiver, answer = 204;

before(async () => {
  receiver = await Scripted.start((request, reply) => reply.writeHead(answer).end());
  dashboard = await Dashboard.start({ withoutBrowser: true, args: ['--webhook-host', '127.0.0.1', '--webhook-timeout', '2s'] });
  account = await dashboard.account('States');
  reader = new Reader(dashboard.base);
  await reader.signIn(await dashboard.stack.key(account.id, ['--scopes', 'read,execute,approve,admin', '--name', 'reader']));
});
after(async () => {
  await dashboard?.stop();
  await receiver?.stop();
});

const sql = (text) => dashboard.stack.cluster.sql(text);
// Another person acts.
const api = async (method, path, body, headers) => {
  const reply = await dashboard.call(account, method, path, body, headers);
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.text}`);
  return reply.json;
};
const missing = () => [404, []];

/* ---- a webhook ---- */

test('a webhook in each of its states', async () => {
  const { id, url } = await api('POST', '/api/webhooks', { url: `${receiver.url}/in`, events: ['flow.waiting'] });
  const path = `/webhooks/${id}`;
  const facts = async () => {
    const { status, json: it } = await dashboard.call(account, 'GET', `/api${path}`);
    if (status === 404) return undefined;
    return { ...it, off: it.off_reason, events: (await api('GET', `/api${path}/deliveries`)).items };
  };
  // Starts a flow, whose event has the status then.
  const event = async (status) => {
    const { length } = (await facts()).events;
    await dashboard.startTasks(account, { maxResults: 1 });
    await until(`an event is ${status}`, async () => {
      const { events } = await facts();
      return events.length > length && events[0].status === status && (events[0].attempts > 0 || status !== 'pending');
    });
  };
  const write = (table, change, what = '') => sql(`update sluice.${table} set ${change} where account_id = '${account.id}' ${what}`);
  const of = (about) => (it) => (it ? [200, about(it)] : missing());
  const tables = [
    [path, of((it) => [
      ['This webhook was switched off. ', it.off === 'requested'], ['off, because the endpoint answered 410', it.off === 'answered_410'], ['off, because no message was accepted for five days', it.off === 'failing'],
      ['Nothing is written for it', !it.enabled], ['No message has been accepted since', it.enabled && it.failures > 0],
      [/About (on|off|failing) URL/, true], [/About on/, it.enabled && !it.failures], [/About off/, !it.enabled], [/About failing/, it.enabled && it.failures],
      ['Switch off', it.enabled], ['Switch on', !it.enabled], ['Send failed events again', it.enabled],
      ['the old one signs, too, until', it.old_secret_until],
      ...['pending', 'delivered', 'failed'].map((status) => [new RegExp(`UTC ${status}\\b`), it.events.some((one) => one.status === status)]),
      [/attempts?, the next/, it.enabled && it.events.some((one) => one.next_at)], ['if the webhook is still off', !it.enabled && it.events.some((one) => one.next_at)],
      [/(delivered|failed) Send again/, it.enabled && it.events.some((one) => one.status !== 'pending')], ['pending Send again', false],
      ['Nothing is listed.', it.events.length === 0], ['Nothing yet', false],
    ])],
    [`${path}/delete`, of((it) => [
      ['Messages are sent to', it.enabled], ['It is switched off. Its messages were sent to', !it.enabled], ['switch it off instead', it.enabled],
    ])],
    [`${path}/roll`, of((it) => [['The secret was rolled before', it.old_secret_until], ['signed with a new secret', true]])],
    [`${path}/edit`, of(() => [['Edit the webhook', true]])],
    ['/webhooks', (it) => [200, [
      [url, it], [/all|flow\.waiting/, it], ['No webhooks', !it], ['yet', false],
      [/ ago on$|UTC on( |$)/, it?.enabled && !it.failures], [/UTC off( |$)/, it && !it.enabled], [/UTC failing( |$)/, it?.enabled && it.failures],
    ]]],
    ['/webhooks?notice=webhook_changed', () => [200, [['Webhook changed.', true]]]],
    ['/', (it) => [200, [
      [`Events do not arrive at ${url}`, it && (it.enabled ? it.failures > 2 : it.off !== 'requested')],
      ['It has not accepted the last', it?.enabled && it.failures > 2], ['the endpoint answered 410', it?.off === 'answered_410'], ['accepted no message for five days', it?.off === 'failing'],
    ]]],
  ];
  const off = [['This webhook was switched off. ', true]], on = [['Switch off', true], ['This webhook was switched off', false]];
  const [refused, gone] = [(text) => [[text, true], ['Webhook changed', false]], [[/There is no page at this address|no such webhook/i, true]]];
  await reader.walk({ facts, tables, states: [
    ['new', () => {}],
    ['it was sent an event', () => event('delivered')],
    ['off', () => api('PATCH', `/api${path}`, { enabled: false }),
      [path, 'Switch off', {}, off], [path, 'Send again', { hours: '1' }, refused('off')], [path, 'Send a test', {}, [[/The test/, true]]], [`${path}/edit`, 'Save', { which: 'all' }, refused('Nothing was changed: the webhook has the rev')]],
    ['on again', () => api('PATCH', `/api${path}`, { enabled: true }), [path, 'Switch on', {}, on]],
    ['failing', async () => {
      answer = 500;
      await event('pending');
      // the next attempt is not made during the states that follow
      await write('delivery', "due_at = due_at + interval '1 hour'", "and status = 'pending'");
    }],
    ['failing, several attempts', () => write('webhook', 'failures = 5')],
    ['off with an event that waits', () => api('PATCH', `/api${path}`, { enabled: false })],
    ['off after a 410', () => write('webhook', "off_reason = 'answered_410'")],
    ['off after five days', () => write('webhook', "off_reason = 'failing'")],
    ['on, its event given up', async () => {
      answer = 204;
      await api('PATCH', `/api${path}`, { enabled: true });
      await write('delivery', "status = 'failed', due_at = null, ended_at = now()", "and status = 'pending'");
    }],
    ['its secret rolled', async () => api('POST', `/api${path}/roll`, { overlap_s: 3600 }), [`${path}/roll`, 'Roll the secret', { overlap_s: '0' }, [['Not rolled', true]]]],
    ['the old secret over', () => write('webhook', "old_until = now() - interval '1 second'")],
    ['its events removed', () => sql(`delete from sluice.delivery where account_id = '${account.id}'`)],
    ['an event again', () => event('delivered')],
    ['deleted', () => api('DELETE', `/api${path}`),
      ...['Switch off', 'Send a test'].map((button) => [path, button, {}, gone]), [path, 'Send again', { hours: '1' }, gone], [path, /^Send flow.waiting of /, {}, gone], [`${path}/edit`, 'Save', { which: 'all' }, gone], [`${path}/roll`, 'Roll the secret', { overlap_s: '0' }, gone], [`${path}/delete`, 'Delete the webhook', {}, gone]],
  ] }, 'a webhook');
});

/* ---- a connect link ---- */

const link = async (key, body = {}) => {
  const { json, status, text } = await dashboard.server.call(key, 'POST', '/api/connect/sessions', { integration_id: 'probe', ...body });
  assert.equal(status, 201, text);
  return new URL(json.url).pathname;
};

test('a connect link in each of its states, for the browser that opened it and for another', async () => {
  const { key, id: keyId } = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--name', 'links', '--json']));
  const rowOf = async (table, what) => JSON.parse(await sql(`select coalesce(json_agg(t), '[]') from sluice.${table} t where account_id = '${account.id}' and ${what}`))[0];
  const factsOf = async (path) => {
    const row = await rowOf('connect_session', `token_hash = sha256('\\x${Buffer.from(path.split('/')[2], 'base64url').toString('hex')}')`);
    const id = row.made_id ?? row.connection_id;
    const connection = id && (await rowOf('connection', `id = ${id}`));
    return { row, id, isRevoked: (await rowOf('api_key', `id = '${keyId}'`)).revoked_at, isGone: id && !connection, isLive: connection?.status === 'live', isPast: Date.parse(row.expires_at) < Date.now() };
  };
  const about = (isMine) => ({ row: { taken_at, used_at }, isRevoked, isGone, isLive, isPast }) => {
    const why = used_at && (!isMine || isRevoked) ? 'used' : isRevoked ? 'revoked' : used_at ? '' : !isMine && taken_at ? 'taken' : isPast ? 'expired' : isGone ? 'gone' : '';
    const [isOpen, isDone] = [!used_at && !why, used_at && !why];
    return [why ? 410 : 200, [
      ['This link has been used', why === 'used'], ['The app was connected with it. A link works once.', why === 'used'],
      ['The API key that created it was revoked or has expired', why === 'revoked'], ['This link has already been opened', why === 'taken'], ['This link has expired', why === 'expired'],
      ['The connection that the link was for has been removed', why === 'gone'],
      ['Nothing was changed', why && why !== 'used'], ['Ask States for a new link', why || (isDone && !isGone && !isLive)],
      ['It expires', isOpen], ['You are giving States access to Probe', isOpen], [/Token (Connect Probe|Reconnect) $/, isOpen && taken_at && isMine],
      ['now has access to Probe', isDone && isLive], ['has since been disconnected', isDone && isGone], ['The connection no longer works', isDone && !isGone && !isLive],
    ]];
  };
  // The browser that opens the link, and another one, look at it in each of the states.
  const look = async (what, body, states) => {
    const path = await link(key, body);
    const [mine, other] = [new Reader(dashboard.base), new Reader(dashboard.base)];
    const facts = () => factsOf(path);
    await mine.walk({ facts, tables: [[path, about(true)], [path, about(false), other]], states: states({ mine, path, facts }) }, what);
  };
  const change = (table, to, id) => sql(`update sluice.${table} set ${to} where account_id = '${account.id}' and ${id}`);
  const past = (path) => change('connect_session', "expires_at = now() - interval '1 minute'", `token_hash = sha256('\\x${Buffer.from(path.split('/')[2], 'base64url').toString('hex')}')`);
  const open = ({ mine, path }) => ['opened', async () => mine.press(await mine.look(path), 'Continue')];
  const use = ({ mine, path }) => ['used', async () => mine.press(await mine.look(path), 'Connect Probe', credentials.probe), [path, 'Connect Probe', credentials.probe, [['now has access to Probe', true]]]];
  await look('expired', {}, (it) => [['new', () => {}], ['expired', () => past(it.path), [it.path, 'Continue', {}, [['This link has expired', true]]]]]);
  await look('expired when opened', {}, (it) => [open(it), ['expired', () => past(it.path), [it.path, 'Connect Probe', credentials.probe, [['This link has expired', true]]]]]);
  await api('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe });
  await look('for a connection', { force_reconnect: true }, (it) => [
    open(it),
    ['its connection deleted', async () => api('DELETE', `/api/connections/${(await it.facts()).id}`), [it.path, 'Reconnect Probe', credentials.probe, [['now has access', false]]]],
  ]);
  await look('used', {}, (it) => [
    open(it), use(it),
    ['the connection ended', async () => change('connection', "status = 'reauth_required', error = 'The app revoked it'", `id = ${(await it.facts()).id}`)],
    ['the connection deleted', async () => api('DELETE', `/api/connections/${(await it.facts()).id}`)],
  ]);
  // the key ends: a link that was used has been used, the others end with it
  const rest = await link(key);
  await look('used, then its key is revoked', {}, (it) => [
    open(it), use(it),
    ['revoked', async () => {
      await dashboard.stack.must(['keys', 'revoke', account.id, keyId]);
      await until('the link has ended with its key', async () => (await it.mine.ask(it.path)).status === 410);
    }],
  ]);
  await reader.walk({ facts: () => factsOf(rest), tables: [[rest, about(false)]], states: [['its key is revoked', () => {}]] }, 'an open link');
  const over = await reader.look('/connect/x', 404);
  compare(over.words, [['This link is not valid', true], ['Nothing was changed', true]], 'an unknown link');
});

/* ---- an end user ---- */

test('an end user in each of its states', async () => {
  const headers = { 'sluice-user': 'ada' };
  const { id } = await api('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe }, headers);
  const facts = async () => {
    const { status, json } = await dashboard.call(account, 'GET', '/api/users/ada');
    const ended = await sql(`select count(*) from sluice.connection where id = ${id} and status = 'reauth_required'`);
    return { isThere: status === 200, isErasing: json.erasing, isActive: status === 200 && !json.erasing, hasEnded: ended === '1', answer: status !== 200 ? 404 : json.erasing ? 503 : 200 };
  };
  const erased = [['The erasure of the user was requested', true]];
  const ofUser = (it) => [it.answer, [['is being erased', it.isErasing], ['The account has no end user with the id ada', !it.isThere]]];
  await reader.walk({ facts, tables: [
    ...['', '?notice=user_erased'].map((notice) => [`/users${notice}`, (it) => [200, [[/ada( being erased)? 20/, it.isThere], ['being erased', it.isErasing], ['No end users', !it.isThere], ['yet', false]]]]),
    ['/users/ada', (it) => [it.isThere ? 200 : 404, [
      ['This user is being erased: its requests are refused', it.isErasing], ['Approvals', it.isActive], [/\bErase\b/, it.isActive],
      // the erasure deletes its connections at any time
      ...(it.isErasing ? [] : [['No longer works: The app revoked it', it.isThere && it.hasEnded]]), ['or send the user a connect link', it.isActive && it.hasEnded], ['There is no such user', !it.isThere],
    ]]],
    ['/users/ada/erase', (it) => [it.isThere ? 200 : 404, [['This user is already being erased.', it.isErasing], ['It cannot be restored', it.isActive], ['There is no such user', !it.isThere]]]],
    ...['flows', 'executions', 'approvals', 'connections', 'audit', 'integrations'].map((page) => [`/${page}?user=ada`, ofUser]),
  ], states: [
    ['active', () => {}],
    ['its connection ended', () => sql(`update sluice.connection set status = 'reauth_required', error = 'The app revoked it' where id = ${id}`)],
    ['being erased', () => api('DELETE', '/api/users/ada'), ['/users/ada/erase', 'Erase the user', {}, erased]],
    ['erased', async () => {
      await sql(`update sluice.account_user set erase_at = now() where account_id = '${account.id}'`);
      await until('ada is erased', async () => !(await facts()).isThere);
    }],
  ] }, 'a user');
});

/* ---- a connection that others change, and its app ---- */

test('a connection while others make it the default, and delete it', async () => {
  const add = async (label) => (await api('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe, label })).id;
  await sql(`delete from sluice.connection where account_id = '${account.id}' and integration_id = 'probe'`);
  const [other, id] = [await add('The other'), await add('Mine')];
  const path = `/connections/${id}`;
  const facts = async () => {
    const { connections } = await api('GET', '/api/connections?integration_id=probe');
    return { one: connections.find((one) => one.id === id), all: connections };
  };
  const of = (about) => ({ one }) => (one ? [200, about(one)] : missing());
  const isLive = (it) => it.status === 'live';
  const late = (...buttons) => buttons.map(([button, fields = {}, sentence = 'There is no such connection.']) => [path, button, fields, [[sentence, true]]]);
  await reader.walk({ facts, tables: [
    [path, of((it) => [
      ['Make it the default', !it.default], [/\. default /, it.default], ['This connection no longer works', !isLive(it)], ['reconnect it', !isLive(it)],
      ['not used yet', !it.last_used_at], ['no error', isLive(it) && it.last_used_at],
    ])],
    [`${path}/delete`, of((it) => [['It is the default', it.default], ['It has not been used', !it.last_used_at]])],
    ['/connections?app=probe', ({ one, all }) => [200, [['Probe: Mine', one], ['No longer works', one && !isLive(one)], ['No connections of this app', all.length === 0], ['No app is connected', false]]]],
    ['/integrations/probe', ({ all }) => [200, [['Connect another account', all.length], ['Mine', all.some((it) => it.label === 'Mine')], ['The other', all.some((it) => it.label === 'The other')], [/no longer works|reconnect it/, all.some((it) => !isLive(it))]]]],
    ['/integrations', ({ all }) => [200, [[/ Probe .* Not connected /, all.length], [/ Not connected .* Probe /, !all.length]]]],
    ['/', ({ one }) => [200, [['Probe needs to be reconnected', one && !isLive(one)]]]],
  ], states: [
    ['not the default', () => {}],
    ['the default', () => api('PATCH', `/api${path}`, { default: true }), ...late(['Make it the default', {}, 'Connection changed.'])],
    ['used', async () => {
      await api('POST', '/api/executions', { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } });
      await until('its use is stored', async () => (await facts()).one.last_used_at);
    }],
    ['ended', () => sql(`update sluice.connection set status = 'reauth_required', error = 'The app revoked it' where account_id = '${account.id}' and id = ${id}`)],
    ['deleted', () => api('DELETE', `/api${path}`), ...late(['Test it'], ['Save the label', { label: 'New' }], ['Reconnect Mine', credentials.probe]), [`${path}/delete`, 'Disconnect', {}, [['There is no such connection.', true]]]],
    ['none is left', () => api('DELETE', `/api/connections/${other}`)],
  ] }, 'a connection');
});

test('what an app granted, and the OAuth client that asks for it', async () => {
  const [own, shared] = [account.id, '00000000-0000-0000-0000-000000000000'];
  const has = async (who) => (await sql(`select count(*) from sluice.oauth_client where account_id = '${who}' and integration_id = 'gmail'`)) === '1';
  const facts = async () => ({ own: await has(own), shared: await has(shared), scopes: await sql(`select coalesce(scopes, '') from sluice.connection where account_id = '${own}' and integration_id = 'gmail'`) });
  const grant = (scopes) => sql(`update sluice.connection set scopes = ${scopes} where account_id = '${own}' and integration_id = 'gmail'`);
  const operator = (verb, ...args) => dashboard.stack.must(['oauth-clients', verb, 'gmail', ...args]);
  const lacks = (it) => it.scopes && !/modify/.test(it.scopes);
  const path = '/integrations/gmail';
  await reader.walk({ facts, tables: [
    [path, (it) => [200, [
      [/Your account.{1,6}s own client is used/, it.own], ['The client that your operator registered is used', it.shared && !it.own], ['this server does not have one', !it.own && !it.shared],
      ['Change the client', it.own], ['Delete the client', it.own], ['Use your own OAuth client', it.shared && !it.own], ['Send a message not granted', lacks(it)],
    ]]],
    [`${path}/client/delete`, (it) => [it.own ? 200 : 404, [
      ['the client that your operator registered will be used', it.own && it.shared], ['You will not be able to sign in to Gmail', it.own && !it.shared], ['no OAuth client of its own', !it.own],
    ]]],
    [`${path}/actions/send_message`, (it) => [200, [['lacks a permission for this action', lacks(it)]]]],
  ], states: [
    ['no client', () => {}],
    ['the operator has one', () => operator('set', '--client-id', 'theirs')],
    ['the account has one', () => api('PUT', '/api/oauth-clients/gmail', { client_id: 'own' }), [path, 'Save the client', { client_id: 'later' }, [['OAuth client saved.', true]]]],
    ['the operator has none', () => operator('delete')],
    ['not all was granted', () => grant("'https://www.googleapis.com/auth/gmail.readonly'")],
    ['all was granted', () => grant("'https://www.googleapis.com/auth/gmail.modify'")],
    ['the account has none', () => api('DELETE', '/api/oauth-clients/gmail'), [`${path}/client/delete`, 'Delete the client', {}, [['OAuth client deleted.', true]]]],
    ['not known', () => grant('null')],
  ] }, 'an app');
});

/* ---- a run ---- */

test('a run in each of its states: its outcome, its input, and its connection', async () => {
  const connection = (await api('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe, label: 'Of runs' })).id;
  const run = async (action_id, input, more = {}, integration_id = 'probe') => {
    const { json } = await dashboard.call(account, 'POST', '/api/executions', { integration_id, action_id, input, ...more });
    return { ...json, isWrite: action_id !== 'read_label', isProbe: integration_id === 'probe' };
  };
  const answered = async (action, fn) => {
    await dashboard.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action }]);
    const made = await fn();
    await dashboard.provider.faults([]);
    return made;
  };
  const send = (more = { confirm: true }) => run('send', { subject: 'a run' }, more);
  const runs = {
    'a read': await run('read_label', { id: 'INBOX' }),
    'a write': await send(),
    'with a long input': await run('send_message', { to: 'a@b.example', subject: 's', text: 'x'.repeat(70_000) }, { confirm: true }, 'gmail'),
    'a failed read': await answered({ status: 404 }, () => run('read_label', { id: 'NONE' })),
    'a failed write': await answered({ status: 400 }, () => send()),
    'an unknown outcome': await answered({ status: 500 }, () => send()),
    'not confirmed': await send({}),
    'refused input': await run('send', { subject: 7 }, { confirm: true }),
  };
  const events = await until('their events are stored', async () => {
    const { events: found } = await api('GET', '/api/audit?kind=execution.blocked');
    return found.length === 2 && found.toReversed();
  });
  for (const [i, one] of [runs['not confirmed'], runs['refused input']].entries()) one.execution_id = events[i].id;
  const mine = `account_id = '${account.id}'`;
  const facts = async () => ({
    hasConnection: (await sql(`select count(*) from sluice.connection where ${mine} and id = ${connection}`)) === '1',
    keys: JSON.parse(await sql(`select coalesce(json_object_agg(id, key_id), '{}') from sluice.execution_input where ${mine}`)),
  });
  const { keys } = await facts();
  const of = (one, about) => (it) => {
    const key = it.keys[one.execution_id];
    const [missing, isLong] = [!key ? 'not_kept' : key !== keys[one.execution_id] ? 'unreadable' : undefined, one === runs['with a long input']];
    return [200, about({ missing: missing ?? (isLong ? 'too_long' : ''), isGone: one.isProbe && !it.hasConnection, isBlocked: one.status === 'blocked', isOpen: !missing })];
  };
  const late = (what, fields, sentences) => [`/executions/${runs[what].execution_id}/again`, 'Run it', fields, sentences];
  const refused = [[/connection/, true], ['succeeded', false]];
  await reader.walk({ facts, tables: Object.values(runs).flatMap((one) => [
    [`/executions/${one.execution_id}`, of(one, ({ missing, isGone, isBlocked, isOpen }) => [
      ...['succeeded', 'failed', 'blocked'].map((status) => [new RegExp(` ${status} (Probe|Gmail): `), status === one.status]),
      ...(one.error_code ? [[one.message, !isBlocked || isOpen], [one.hint, !isBlocked || isOpen]] : []), ['The message of this run is not kept.', isBlocked && !isOpen],
      ['The outcome is unknown', one.outcome === 'unknown'], [/Nothing was done/, one.outcome === 'not_done' && (!isBlocked || isOpen)],
      ['The same call with curl', !missing], ['An example of this action with curl', missing], ['Without "confirm": true , the call is blocked', one.isWrite],
      ['it was over 64 KB', missing === 'too_long'], ['no longer has the master key', missing === 'unreadable'], ['The input of this run is not kept.', missing === 'not_kept'],
      [', since deleted', isGone && !isBlocked],
    ])],
    [`/executions/${one.execution_id}/again`, of(one, ({ missing, isGone, isBlocked }) => [
      ['The input below is that of the earlier run.', !missing], ['The input below is an example of this action.', missing],
      ['it was over 64 KB', missing === 'too_long'], ['no longer has the master key', missing === 'unreadable'], ['The input of this run is not kept.', missing === 'not_kept'],
      ['so the action cannot run with it again', isGone && !isBlocked], ['with the key reader', true], ['Run it', !isGone || isBlocked],
    ])],
  ]).concat([['/executions?status=everything', () => [200, [[/ blocked Probe: Send .* failed Probe: Send .* succeeded Probe: Read a label /, true]]]]]), states: [
    ['new', () => {}],
    ['its connection deleted', () => api('DELETE', `/api/connections/${connection}`), late('a write', { confirm: 'yes' }, refused), late('a read', {}, refused)],
    ['sealed with a master key that is lost', () => sql(`update sluice.execution_input set key_id = 'lost' where ${mine}`)],
    ['its input removed', () => sql(`delete from sluice.execution_input where ${mine}`)],
  ] }, 'a run');
});

test('the counts of an account: pages say what was counted, not that nothing has run', async () => {
  const own = await dashboard.account('Counts');
  const person = new Reader(dashboard.base);
  await person.signIn(await dashboard.stack.key(own.id, ['--scopes', 'read,execute,admin']));
  const { id } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=notion')).json.connections[0];
  const facts = async () => (await sql(`select count(*) from sluice.tally where account_id = '${own.id}'`)) !== '0';
  const table = (none) => (isCounted) => [200, [[none, !isCounted], ['Nothing has run', false]]];
  await person.walk({ facts, tables: [
    ['/', table('Nothing was counted in this period')], ['/', table('No failure was counted in this period')], ['/?hours=1', table('Nothing was counted in this period')],
    ['/integrations/notion', table('Nothing was counted in this period')], [`/connections/${id}`, table('No calls to Notion were counted')],
  ], states: [['nothing', () => {}], ['counted', () => dashboard.counted(own, [['notion', 'create_page', 'failed', 'timeout', 3, 'too late']])]] }, 'counts');
});

test('each page is in a table, or has no state', async () => {
  await checkRoutes();
  checkAsked('states');
});
