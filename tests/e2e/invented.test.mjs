// Harbour is an app that does not exist (invented/README.md says how its manifest was made). Its
// manifest passes lint and runs, unchanged, with a server written from the vendor's page. The
// server refuses everything that the page does not allow.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { join } from 'node:path';
import { CLIENT, CODES, Harbour } from './invented/harbour.mjs';
import { PUBLIC } from './support/oidc.mjs';
import { linkOf, Pages } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const catalog = join(import.meta.dirname, 'invented');
const env = { SLUICE_CATALOG: catalog };
const stay = { from: '2026-07-01', to: '2026-07-04' };
const boat = { name: 'Seute Deern', length: 11.2 };
const pdf = Buffer.from([37, 80, 68, 70, 0, 255, 10]);
const file = { name: 'insurance.pdf', contentType: 'application/pdf', data: pdf.toString('base64') };
let stack, harbour, server, club, skipper;

before(async () => {
  harbour = await Harbour.start();
  stack = await Stack.start({ provider: false });
  await stack.must(['oauth-clients', 'set', 'harbour', '--client-id', CLIENT.id, '--client-secret-file', '-'], { env, input: `${CLIENT.secret}\n` });
  const args = ['api', 'login', 'files'].flatMap((host) => ['--origin-override', `https://${host}.harbour.example=${harbour.url}`]);
  server = await stack.serve({ env: { ...env, SLUICE_CONNECTION_LIMITS: 'on' }, args: [...args, '--public-url', PUBLIC] });
  club = await stack.account('club', { apps: [] });
  club.credential = harbour.key();
  await stack.connect(club.id, 'harbour', { api_key: club.credential }, ['--auth', 'api_key'], { env });
  skipper = await stack.account('skipper', { apps: [] });
});
beforeEach(() => {
  harbour.seen.length = 0;
  harbour.bookings.length = 0;
  harbour.weather.length = 0;
});
after(async () => {
  await harbour?.stop();
  await stack?.stopWell(assert);
});

const run = async (action, input, more = {}, account = club) => {
  const reply = await server.execute(account.key, 'harbour', action, input, { confirm: true, ...more });
  return Object.assign(reply.json, { http: reply });
};
const done = async (...args) => {
  const json = await run(...args);
  assert.equal(json.status, 'succeeded', json.http.text);
  return json;
};
const attach = (input, more = {}) => server.call(club.key, 'POST', '/api/tools/harbour_attach_document/execute', { arguments: input, confirmed: true, files: [file], ...more });
const calls = () => harbour.seen.map((one) => `${one.method} ${one.host} ${one.path.replace(/place_\w+/, '*')} ${one.status}`);
const book = (more = {}) => done('book_berth', { berth_id: 'ber_5', ...stay, boat, ...more });

test('lint reports nothing', async () => {
  const said = await stack.sluice(['catalog', 'lint', join(catalog, 'harbour.json')]);
  assert.deepEqual([said.code, said.stdout, said.stderr], [0, '1 integration, 8 actions, 0 warnings: fine\n', '']);
});

test('a list by the Link header', async () => {
  const first = await done('list_marinas', { country: 'DE', per_page: 10 });
  assert.deepEqual([first.output.length, first.output[0].id, first.pages, first.display.summary], [10, 'mar_2', { read: 1, next: { page: 2 } }, '10 marinas']);
  const all = await done('list_marinas', {}, { max_pages: 9 });
  assert.deepEqual([all.output.length, new Set(all.output.map((one) => one.id)).size, all.pages], [45, 45, { read: 3, next: null }]);
  assert.deepEqual(harbour.seen.at(-1).headers['harbour-version'], '2026-03-01');
});

test('a list by a cursor', async () => {
  const input = { marina_id: 'mar_1', ...stay, limit: 2 };
  const first = await done('find_free_berths', input);
  assert.deepEqual([first.output.berths.length, first.pages.read, first.display.summary], [2, 1, '2 free berths']);
  const second = await done('find_free_berths', { ...input, ...first.pages.next });
  assert.deepEqual(second.output.berths.map((one) => one.id), ['ber_3', 'ber_4']);
  const all = await done('find_free_berths', input, { max_pages: 9 });
  assert.deepEqual([all.output.berths.length, all.pages], [7, { read: 4, next: null }]);
  const few = await done('find_free_berths', { ...input, length: 11.2, features: ['power', 'water'] });
  assert.deepEqual([few.output.berths.map((one) => one.id), harbour.seen.at(-1).query.features], [['ber_7'], 'power,water']);
});

test('a list by an offset, and one of its items', async () => {
  for (const berth_id of ['ber_4', 'ber_5', 'ber_6', 'ber_7']) await book({ berth_id, hold: true, boat: { ...boat, length: 8 } });
  const first = await done('list_bookings', { top: 3 });
  assert.deepEqual([first.output.bookings.length, first.pages], [3, { read: 1, next: { skip: 3 } }]);
  const all = await done('list_bookings', { top: 3, state: 'held' }, { max_pages: 9 });
  assert.deepEqual([all.output.bookings.map((one) => one.id), all.output.count, all.pages], [['boo_4', 'boo_3', 'boo_2', 'boo_1'], 4, { read: 2, next: null }]);
  const one = await done('get_booking', { booking_id: 'boo_2' });
  assert.deepEqual([one.output.berth_id, one.display], ['ber_5', { ...one.display, title: 'Booking boo_2', summary: 'held, 2026-07-01 to 2026-07-04' }]);
});

test('a booking is made, changed, confirmed and cancelled', async () => {
  assert.equal((await run('book_berth', { berth_id: 'ber_5', ...stay, boat }, { confirm: false })).error_code, 'policy_blocked');
  const made = await book({ hold: true, note: 'late' });
  assert.deepEqual([made.output.state, made.output.note, made.display.summary], ['held', 'late', '2026-07-01 to 2026-07-04, 84.00 EUR']);
  const changed = await done('change_booking', { booking_id: 'boo_1', revision: 1, changes: { note: null, state: 'confirmed', to: '2026-07-05' } });
  assert.deepEqual([changed.output.note, changed.output.state, changed.output.to, changed.output.revision], [null, 'confirmed', '2026-07-05', 2]);
  assert.equal(harbour.seen.at(-1).bytes.toString(), '{"note":null,"state":"confirmed","to":"2026-07-05"}');
  for (let i = 0; i < 2; i++) assert.equal((await done('cancel_booking', { booking_id: 'boo_1' })).display.summary, 'Booking boo_1 is cancelled.');
  assert.equal((await done('get_booking', { booking_id: 'boo_1' })).output.state, 'cancelled');
});

test('a booking whose reply is lost is requested again with its Request-Key, and made once', async () => {
  harbour.losesReply = true;
  const made = await book();
  const [first, second] = harbour.seen;
  assert.equal(harbour.seen.length, 2);
  assert.ok(first.headers['request-key'].length <= 64);
  assert.equal(second.headers['request-key'], first.headers['request-key']);
  assert.deepEqual([made.output.id, harbour.bookings.length], ['boo_1', 1]);
});

test('a document is uploaded to the address in the first reply, without the credential', async () => {
  await book();
  harbour.seen.length = 0;
  const { json, text } = await attach({ booking_id: 'boo_1' });
  assert.equal(json.ok, true, text);
  assert.deepEqual(json.data, { id: 'doc_1', state: 'stored', size: pdf.length });
  assert.deepEqual(calls(), ['POST api.harbour.example /v2/bookings/boo_1/documents 201', 'PUT files.harbour.example /in/* 200']);
  const [place] = [...harbour.places.values()].slice(-1);
  assert.deepEqual([place.bytes, place.name, place.type], [pdf, 'insurance.pdf', 'application/pdf']);
  assert.deepEqual([harbour.seen[1].headers['x-harbour-key'], harbour.seen[1].headers['harbour-version']], [undefined, undefined]);
  const bare = await attach({ booking_id: 'boo_1' }, { files: [] });
  assert.deepEqual([bare.json.error.code, bare.json.canonical.status], ['invalid_arguments', 'blocked'], bare.text);
});

test('the catalog says which files are accepted', async () => {
  const detail = (await server.call(club.key, 'GET', '/api/actions/harbour/attach_document')).json;
  assert.deepEqual(detail.files, { travel: 'raw', field: null, count_max: 1, bytes_max: 10_000_000 });
});

test('a document that is not uploaded: nothing is done, and the message with its address does not contain the key', async () => {
  await book();
  for (const [status, code, error_code] of [[422, 'invalid', 'validation_error'], [401, 'key_revoked', 'execution_failed'], [500, 'broken', 'execution_failed']]) {
    harbour.filesWeather = (answer) => answer(status, { fault: { code, text: 'Not here.' } });
    const { json, text } = await attach({ booking_id: 'boo_1' });
    assert.deepEqual([json.ok, json.canonical.status, json.canonical.error_code], [false, 'failed', error_code], text);
  }
  harbour.filesWeather = null;
  assert.equal((await attach({ booking_id: 'boo_1' })).json.ok, true, 'the key is still free');
});

const newcomer = async (name) => {
  const account = await stack.account(name, { apps: [] });
  account.credential = harbour.key();
  await stack.connect(account.id, 'harbour', { api_key: account.credential }, ['--auth', 'api_key'], { env });
  return account;
};
// Makes Harbour refuse the next call with that code.
const refuse = (code, headers = {}) => harbour.weather.push((answer) => (answer(CODES[code], { fault: { code, text: 'Not now.' } }, headers), true));

const REFUSALS = {
  // code: [action, input, error_code, the message, the hint]
  not_there: ['get_booking', { booking_id: 'boo_9' }, 'execution_failed', 'Harbour: There is no booking boo_9.', 'Look the id up again with list_marinas, find_free_berths or list_bookings.'],
  not_your_marina: ['find_free_berths', { marina_id: 'mar_2', ...stay }, 'forbidden', 'Harbour: Marina 2 is for members.', 'This marina is closed to the account; take another from list_marinas.'],
  invalid: ['book_berth', { berth_id: 'ber_5', from: stay.to, to: stay.from, boat }, 'validation_error', 'Harbour: The departure is before the arrival. (to)', 'Correct the value that is named.'],
  berth_taken: ['book_berth', { berth_id: 'ber_5', ...stay, boat }, 'execution_failed', 'Harbour: The berth is taken in these nights. (from)', 'Call find_free_berths for these nights and take another berth.'],
  boat_too_long: ['book_berth', { berth_id: 'ber_1', ...stay, boat }, 'validation_error', 'Harbour: The boat is longer than the berth. (boat.length)', "Call find_free_berths with the boat's length."],
  revision_changed: ['change_booking', { booking_id: 'boo_1', revision: 4, changes: { note: 'x' } }, 'execution_failed', 'Harbour: The booking was changed meanwhile.', 'Read the booking with get_booking and send its revision.'],
};
for (const [code, [action, input, ...expected]] of Object.entries(REFUSALS))
  test(`refused: ${code}`, async () => {
    await book();
    const json = await run(action, input);
    assert.equal(json.status, 'failed', json.http.text);
    assert.deepEqual([json.error_code, json.message, json.hint], expected);
    assert.equal(harbour.seen.at(-1).status, CODES[code]);
    assert.equal(harbour.bookings.length, 1);
  });

// Errors that the running server cannot be made to return.
/* What a summary adds to a hint if a connection would help. */
const LINK_HINT = 'POST /api/connect/sessions with the input of recommended_next_action makes a link for a person.';

for (const [code, error_code, hint] of [
  ['key_reused', 'execution_failed', 'The key was used for another booking; use a new one.'],
  ['version_missing', 'execution_failed', 'This is a fault of the integration, not of the input.'],
  ['scope_missing', 'forbidden', `Reconnect Harbour and grant what it asks for. ${LINK_HINT}`],
])
  test(`refused: ${code}`, async () => {
    refuse(code);
    const json = await run('book_berth', { berth_id: 'ber_5', ...stay, boat });
    assert.deepEqual([json.error_code, json.message, json.hint], [error_code, 'Harbour: Not now.', hint]);
    assert.equal(json.recommended_next_action?.input.force_reconnect, code === 'scope_missing' ? true : undefined);
  });

for (const [code, hint] of [
  ['too_fast', 'Wait, then try again.'],
  ['closed', 'Harbour is closed for maintenance. Nothing was done. Try again later.'],
])
  test(`${code}: a short Retry-After is waited for, a long one is passed on and respected`, async () => {
    const account = await newcomer(code);
    refuse(code, { 'retry-after': '1' });
    await done('book_berth', { berth_id: 'ber_5', ...stay, boat }, {}, account);
    assert.deepEqual([harbour.seen.map((one) => one.status), harbour.bookings.length], [[CODES[code], 201], 1]);
    refuse(code, { 'retry-after': '120' });
    const json = await run('book_berth', { berth_id: 'ber_6', ...stay, boat }, {}, account);
    assert.deepEqual([json.status, json.error_code, json.retry_after, json.hint], ['failed', 'rate_limited', 120, hint]);
    assert.equal(json.http.headers.get('retry-after'), '120');
    const asked = harbour.seen.length;
    const held = await run('list_bookings', {}, {}, account);
    assert.deepEqual([held.status, held.error_code, harbour.seen.length], ['blocked', 'rate_limited', asked], 'it gets no call before that time');
    await done('list_bookings', {}); // another connection is served
  });

test('at most four calls run at the same time', async () => {
  harbour.mostAtOnce = 0;
  await Promise.all(Array.from({ length: 9 }, () => done('list_marinas', {})));
  assert.ok(harbour.mostAtOnce >= 1 && harbour.mostAtOnce <= 4, `${harbour.mostAtOnce}`);
});

test('a key that the club has withdrawn', async () => {
  const account = await newcomer('withdrawn');
  harbour.keys.delete(account.credential);
  const json = await run('list_bookings', {}, {}, account);
  assert.deepEqual([json.status, json.error_code, json.message, json.hint], ['blocked', 'unauthorized', 'Harbour: The club has withdrawn this key.', `Ask the club for a new key and reconnect with it. ${LINK_HINT}`]);
});

test('OAuth: the user, the scopes, refresh, end', async () => {
  const pages = new Pages(server.base);
  assert.equal((await pages.signIn(skipper.key)).status, 200);
  const consented = async (page, button, scopes) => {
    const sent = await pages.press(page, button, {}, { follow: false });
    return pages.go(`/connect/callback${new URL(harbour.consent(sent.location, scopes)).search}`);
  };
  const less = await consented(await pages.go('/integrations/harbour'), 'Connect Harbour (Sign in with Harbour)', ['berths:read']);
  assert.ok(less.text.includes('Missing: <strong>See bookings; Make, change and cancel bookings<'), less.text);
  const row = () => stack.cluster.sql(`select auth_kind, scopes, label, identity_email, identity_subject from sluice.connection where account_id = '${skipper.id}'`);
  assert.equal(await row(), 'oauth2|berths:read|Yacht Club Norderney|skipper@example.com|acc_71');
  await done('list_marinas', {}, {}, skipper);
  const refused = await run('list_bookings', {}, {}, skipper);
  assert.deepEqual([refused.status, refused.error_code], ['blocked', 'forbidden']);
  const whole = await consented(await pages.go(linkOf(less.text, 'Continue')), 'Reconnect Yacht Club Norderney (Sign in with Harbour)', null);
  assert.match(whole.text, /Reconnected/);
  await done('list_bookings', {}, {}, skipper);

  for (let i = 0; i < 2; i++) { // twice, since a refresh token is good once
    harbour.expire();
    harbour.seen.length = 0;
    await done('list_marinas', {}, {}, skipper);
    assert.deepEqual(calls(), ['GET api.harbour.example /v2/marinas 401', 'POST login.harbour.example /oauth/token 200', 'GET api.harbour.example /v2/marinas 200']);
  }
  harbour.expire();
  harbour.refresh.clear();
  const ended = await run('list_marinas', {}, {}, skipper);
  assert.deepEqual([ended.status, ended.error_code, ended.recommended_next_action.input.force_reconnect], ['blocked', 'reauth_required', true]);
});
