// Mail and calendar features that no recording shows: mails that are only HTML, attendees whose
// answers must be kept, and Microsoft's pages that continue with a token.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Stage } from './replay/stage.mjs';

let stage;
before(async () => {
  stage = await Stage.start(['gmail', 'google_calendar', 'outlook_mail', 'outlook_calendar'].map((app) => ({ app })));
});
after(() => stage?.stopWell(assert));

const json = (status, body) => ({ status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
// Runs an action with these replies, in order. The action must make no further requests.
async function run(app, action, input, ...replies) {
  const { seen, summary } = await stage.run({ app }, action, input, (_, nth) => replies[nth] ?? json(500, {}));
  assert.equal(seen.length, replies.length, JSON.stringify(summary));
  return { seen, summary, bodies: seen.map(({ body }) => (body.length ? JSON.parse(body) : null)) };
}
const data = (text) => ({ data: Buffer.from(text).toString('base64url'), size: text.length });

test('a mail that is HTML only has a text; header names match in any case', async () => {
  const html = '<html><head><style>p {}</style></head><body><p>Dear Anna,</p><p>see <a href="https://example.com/a">the offer</a> &ndash; it ends&nbsp;soon.</p></body></html>';
  const message = {
    id: 'm1',
    threadId: 't1',
    payload: {
      mimeType: 'multipart/related',
      headers: [{ name: 'FROM', value: 'Ben <ben@example.org>' }, { name: 'subject', value: 'Offer' }, { name: 'MESSAGE-ID', value: '<1@example.org>' }],
      parts: [{ mimeType: 'multipart/alternative', parts: [{ mimeType: 'text/html', filename: '', body: data(html) }] }],
    },
  };
  const wanted = ['Ben <ben@example.org>', 'Offer', '<1@example.org>', 'Dear Anna,\n\nsee the offer (https://example.com/a) – it ends soon.'];
  const read = ({ from, subject, messageIdHeader, text }) => [from, subject, messageIdHeader, text];
  assert.deepEqual(read((await run('gmail', 'get_message', { id: 'm1' }, json(200, message))).summary.output), wanted);
  assert.deepEqual(read((await run('gmail', 'get_thread', { id: 't1' }, json(200, { id: 't1', messages: [message] }))).summary.output.messages[0]), wanted);
  assert.deepEqual(read((await run('gmail', 'get_draft', { id: 'r1' }, json(200, { id: 'r1', message }))).summary.output.message), wanted);
  const both = structuredClone(message);
  both.payload.parts[0].parts.unshift({ mimeType: 'text/plain', filename: '', body: data('plain') });
  assert.equal((await run('gmail', 'get_message', { id: 'm1' }, json(200, both))).summary.output.text, 'plain');
});

test('the text of a mail is what its sender wrote, in all its parts and at any depth', async () => {
  const text = (words) => ({ mimeType: 'text/plain', filename: '', body: data(words) });
  const multi = (type, ...parts) => ({ mimeType: `multipart/${type}`, filename: '', body: { size: 0 }, parts });
  const attached = { mimeType: 'message/rfc822', filename: 'Offer.eml', body: { attachmentId: 'a1', size: 9 }, parts: [text('another wrote this')] };
  const broken = { mimeType: 'text/plain', filename: '', body: { data: '+/', size: 1 } };
  const deep = multi('mixed', multi('mixed', multi('signed', multi('related', multi('alternative', text('Dear Anna,'))))), attached, broken, text('-- \nthe list'));
  const message = { id: 'm1', payload: { ...deep, headers: [{ name: 'Subject', value: 'Offer' }] } };
  const { output } = (await run('gmail', 'get_message', { id: 'm1' }, json(200, message))).summary;
  assert.equal(output.text, 'Dear Anna,\n\n-- \nthe list');
  assert.equal(output.subject, 'Offer');
  assert.deepEqual(output.attachments, [{ filename: 'Offer.eml', mimeType: 'message/rfc822', size: 9, attachmentId: 'a1' }]);
  const forwarded = { id: 'm2', payload: multi('mixed', attached) };
  assert.equal((await run('gmail', 'get_message', { id: 'm2' }, json(200, forwarded))).summary.output.text, null);
});

const EVENT = {
  id: 'e1',
  etag: '"17"',
  summary: 'Planning',
  attendees: [
    { email: 'anna@example.com', displayName: 'Anna', responseStatus: 'accepted', comment: 'Gladly' },
    { email: 'sam@example.com', self: true, responseStatus: 'needsAction' },
    { email: 'ben@example.org', responseStatus: 'declined', optional: true },
  ],
};
const [anna, sam, ben] = EVENT.attendees;

test('existing attendees stay unchanged, with their answers', async () => {
  const input = { eventId: 'e1', add: ['carla@example.com', 'anna@example.com', { email: 'dan@example.com', optional: true }], remove: ['ben@example.org'], sendUpdates: 'all' };
  const { seen, bodies, summary } = await run('google_calendar', 'change_attendees', input, json(200, EVENT), json(200, EVENT));
  assert.deepEqual(seen.map(({ method, path }) => `${method} ${path}`), ['GET', 'PATCH'].map((method) => `${method} /calendar/v3/calendars/primary/events/e1`));
  assert.equal(seen[1].headers['if-match'], '"17"');
  assert.deepEqual(seen[1].query, [['sendUpdates', 'all']]);
  assert.deepEqual(bodies[1], { attendees: [anna, sam, { email: 'carla@example.com' }, { email: 'dan@example.com', optional: true }] });
  assert.equal(summary.display.summary, 'Planning: Anna, sam@example.com, ben@example.org');
  const alone = await run('google_calendar', 'change_attendees', { eventId: 'e1', add: ['x@example.com'] }, json(200, { id: 'e1', etag: '"1"' }), json(200, EVENT));
  assert.deepEqual(alone.bodies[1], { attendees: [{ email: 'x@example.com' }] });
  const last = await run('google_calendar', 'change_attendees', { eventId: 'e1', remove: ['ben@example.org'] }, json(200, { ...EVENT, attendees: [ben] }), json(200, { id: 'e1' }));
  assert.deepEqual(last.bodies[1], { attendees: [] });
  assert.equal(last.summary.display.summary, 'Untitled: no attendees');
});

test("attendees of Outlook's meetings stay unchanged as well", async () => {
  const of = (address, type, response) => ({ type, status: { response }, emailAddress: { name: address, address } });
  const [mia, max] = [of('mia@example.com', 'required', 'accepted'), of('max@example.com', 'optional', 'declined')];
  const event = { id: 'e1', subject: 'Planning', attendees: [mia, max] };
  const input = { eventId: 'e1', add: ['mia@example.com', 'tom@example.com'], addOptional: ['zoe@example.com'], remove: ['max@example.com'] };
  const { seen, bodies, summary } = await run('outlook_calendar', 'change_attendees', input, json(200, event), json(200, event));
  assert.deepEqual(seen.map(({ method, path }) => `${method} ${path}`), ['GET /v1.0/me/events/e1', 'PATCH /v1.0/me/events/e1']);
  const fresh = (address, type) => ({ emailAddress: { address }, type });
  assert.deepEqual(bodies[1], { attendees: [mia, fresh('tom@example.com', 'required'), fresh('zoe@example.com', 'optional')] });
  assert.equal(summary.display.summary, 'Planning: mia@example.com, max@example.com');
  const first = await run('outlook_calendar', 'change_attendees', { eventId: 'e1', add: ['a@example.com'] }, json(200, { id: 'e1' }), json(200, { id: 'e1' }));
  assert.deepEqual(first.bodies[1], { attendees: [fresh('a@example.com', 'required')] });
});

test('an event that changed in between, or hides attendees, is not changed', async () => {
  const input = { eventId: 'e1', add: ['x@example.com'] };
  const conflict = { error: { code: 412, message: 'Precondition Failed', errors: [{ reason: 'conditionNotMet' }] } };
  const { summary } = await run('google_calendar', 'change_attendees', input, json(200, EVENT), json(412, conflict));
  assert.deepEqual([summary.status, summary.error_code], ['failed', 'execution_failed']);
  assert.match(summary.message, /Nothing was changed/);
  const many = await run('google_calendar', 'change_attendees', input, json(200, { ...EVENT, attendeesOmitted: true }));
  assert.equal(many.summary.error_code, 'unsupported_operation');
});

test('an invitation is answered; only by those who are invited', async () => {
  const input = { eventId: 'e1', response: 'declined', comment: 'On holiday' };
  const { bodies, summary } = await run('google_calendar', 'respond_to_event', input, json(200, EVENT), json(200, EVENT));
  assert.deepEqual(bodies[1], { attendees: [anna, { ...sam, responseStatus: 'declined', comment: 'On holiday' }, ben] });
  assert.equal(summary.display.summary, 'Planning: declined');
  const { summary: refused } = await run('google_calendar', 'respond_to_event', input, json(200, { ...EVENT, attendees: [anna] }));
  assert.equal(refused.error_code, 'validation_error');
  assert.match(refused.message, /not among the attendees of the event Planning/);
});

test("update_event does not send attendees, also in Outlook", async () => {
  const google = await run('google_calendar', 'update_event', { eventId: 'e1', location: 'Room 7' }, json(200, EVENT));
  assert.deepEqual(google.bodies[0], { location: 'Room 7' });
  const outlook = await run('outlook_calendar', 'update_event', { eventId: 'e1', location: 'Room 7' }, json(200, { id: 'e1', subject: 'Planning', start: { dateTime: '2026-03-02T10:00:00.0000000', timeZone: 'UTC' } }));
  assert.deepEqual(outlook.bodies[0], { location: { displayName: 'Room 7' } });
});

test('answers to invitations in Outlook, and events in another calendar', async () => {
  for (const [action, path] of [['accept_event', 'accept'], ['decline_event', 'decline'], ['tentatively_accept_event', 'tentativelyAccept']]) {
    const { seen, bodies } = await run('outlook_calendar', action, { eventId: 'e1', comment: 'Thank you' }, { status: 202, headers: {} });
    assert.deepEqual([seen[0].method, seen[0].path], ['POST', `/v1.0/me/events/e1/${path}`]);
    assert.deepEqual(bodies[0], { comment: 'Thank you', sendResponse: true });
  }
  const { seen } = await run('outlook_calendar', 'list_events', { start: '2026-03-02T00:00:00Z', end: '2026-03-09T00:00:00Z', calendarId: 'c1' }, json(200, { value: [] }));
  assert.equal(seen[0].path, '/v1.0/me/calendars/c1/calendarView');
});

test("Microsoft's pages continue with $skiptoken if the next link has one", async () => {
  const page = (id, query) => json(200, { value: [{ id }], ...(query && { '@odata.nextLink': `https://graph.microsoft.com/v1.0/me/messages?${query}` }) });
  const first = await run('outlook_mail', 'search_messages', { query: 'invoice' }, page('1', '%24search=%22invoice%22&%24top=20&%24skiptoken=MSZZV%3D'));
  assert.deepEqual(first.summary.pages.next, { skiptoken: 'MSZZV=' });
  const second = await run('outlook_mail', 'search_messages', { query: 'invoice', skiptoken: 'MSZZV=' }, page('2'));
  assert.deepEqual(second.seen[0].query.find(([name]) => name === '$skiptoken'), ['$skiptoken', 'MSZZV=']);
  assert.equal(second.summary.pages?.next ?? null, null);
  const { status, summary, seen } = await stage.run({ app: 'outlook_mail' }, 'list_messages', { top: 1 }, (_, nth) => page(String(nth), nth < 2 && `%24skip=${nth + 1}`), { query: '?max_pages=5' });
  assert.equal(status, 200);
  assert.deepEqual(summary.output.messages.map(({ id }) => id), ['0', '1', '2']);
  assert.deepEqual(seen.map(({ query }) => query.find(([name]) => name === '$skip')?.[1]), [undefined, '1', '2']);
});

test('Gmail requests all of the mailbox, and its settings, on demand', async () => {
  const MODIFY = 'https://www.googleapis.com/auth/gmail.modify';
  const { id, key } = await stage.stack.account('careful', { apps: [] });
  await stage.stack.connect(id, 'gmail', { access_token: 'careful' }, ['--scopes', MODIFY]);
  const execute = (action, input) => stage.server.call(key, 'POST', '/api/executions', { integration_id: 'gmail', action_id: action, input, confirm: true });
  for (const [action, input, words] of [
    ['delete_message', { id: 'm1' }, 'Delete messages for good, without the trash'],
    ['create_filter', { from: 'news@example.com', removeLabelIds: ['INBOX'] }, 'Change filters, the vacation responder and signatures'],
    ['set_vacation_responder', { enableAutoReply: false }, 'Change filters, the vacation responder and signatures'],
  ]) {
    const { status, json } = await execute(action, input);
    assert.deepEqual([status, json.status, json.error_code], [409, 'blocked', 'forbidden'], action);
    assert.ok(`${json.message} ${json.hint}`.includes(words), JSON.stringify(json));
  }
  // If Gmail refuses although the scopes were requested, the refusal is not about scopes.
  assert.notEqual((await execute('list_filters', {})).json.status, 'blocked');
});
