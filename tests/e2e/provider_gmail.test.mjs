// The Gmail half of the emulated provider: forms of replies, search, writes, errors, and Google's
// own client.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { Provider, ADDRESS, GMAIL, mailId } from './support/provider.mjs';

let provider;
before(async () => {
  provider = await Provider.start();
});
after(async () => {
  const end = await provider.stop();
  assert.deepEqual(end, { code: 0, signal: null, stderr: '' });
});
beforeEach(() => provider.reset());

const base64url = (text) => Buffer.from(text).toString('base64url');
const text = (data) => Buffer.from(data, 'base64url').toString('utf8');
const header = (message, name) => message.payload.headers.find((h) => h.name === name)?.value;
const search = async (q, query = {}) =>
  ((await provider.gmail('GET', '/messages', { query: { q, maxResults: 500, ...query } })).json.messages ?? []).map((m) => m.id);
const ids = (...ks) => ks.map(mailId);
const sorted = (list) => [...list].sort();

async function refused(promise, status, reason, statusText, message) {
  const { status: got, json, headers } = await promise;
  assert.equal(got, status);
  assert.match(headers['content-type'], /^application\/json/);
  assert.equal(json.error.code, status);
  assert.equal(json.error.status, statusText);
  assert.equal(json.error.errors[0].reason, reason);
  assert.equal(typeof json.error.errors[0].domain, 'string');
  assert.match(json.error.message, message);
}

test('messages.list: newest first, references only, pages until the end', async () => {
  const { json } = await provider.gmail('GET', '/messages', { query: { maxResults: 3 } });
  assert.deepEqual(Object.keys(json), ['messages', 'nextPageToken', 'resultSizeEstimate']);
  assert.deepEqual(Object.keys(json.messages[0]), ['id', 'threadId']);
  assert.equal(json.messages.length, 3);
  assert.equal(json.messages[0].id, mailId(1));
  const seen = [];
  let token;
  do {
    const page = (await provider.gmail('GET', '/messages', { query: { maxResults: 7, ...(token && { pageToken: token }) } })).json;
    seen.push(...page.messages.map((m) => m.id));
    token = page.nextPageToken;
  } while (token);
  assert.equal(seen.length, 59, '62 less two of spam and one of the trash');
  assert.equal(new Set(seen).size, 59);
  assert.deepEqual(seen, await search(''));
});

test('messages.list: all labelIds must match, and spam and trash are left out unless requested', async () => {
  const both = await provider.gmail('GET', '/messages', { query: { labelIds: ['INBOX', 'STARRED'] } });
  assert.equal(both.json.resultSizeEstimate, 3);
  assert.equal((await search('', { includeSpamTrash: true })).length, 62);
  assert.deepEqual(await search('', { labelIds: 'TRASH' }), ids(0x3c));
  assert.deepEqual((await provider.gmail('GET', '/messages', { query: { q: 'nothingmatchesthis' } })).json, { resultSizeEstimate: 0 });
  await refused(provider.gmail('GET', '/messages', { query: { labelIds: 'NOPE' } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid label/);
  await refused(provider.gmail('GET', '/messages', { query: { maxResults: 'x' } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /maxResults/);
  await refused(provider.gmail('GET', '/messages', { query: { pageToken: '!' } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /pageToken/);
});

test('a page token survives new mail', async () => {
  const first = (await provider.gmail('GET', '/messages', { query: { maxResults: 5 } })).json;
  await provider.control('POST', '/mail', { from: 'new@example.org', subject: 'Just now', text: 'x' });
  const second = (await provider.gmail('GET', '/messages', { query: { maxResults: 5, pageToken: first.nextPageToken } })).json;
  const all = await search('');
  assert.deepEqual(second.messages.map((m) => m.id), all.slice(6, 11));
});

const count = (n) => (found) => assert.equal(found.length, n);
const exactly = (...ks) => (found) => assert.deepEqual(sorted(found), sorted(ids(...ks)));
for (const [q, check] of [
  ['is:unread', count(14)],
  ['is:read in:inbox', count(34)],
  ['is:starred', exactly(12, 36, 51)],
  ['is:important is:unread', exactly(1, 21)],
  ['in:sent', count(9)],
  ['in:drafts', exactly(61, 62)],
  ['in:trash', exactly(60)],
  ['in:anywhere from:winner', exactly(58)],
  ['from:winner', count(0)],
  ['from:billing', exactly(3, 16, 45)],
  ['from:northwind.example', exactly(3, 16, 45)],
  ['from:anna.keller@example.com subject:offsite', exactly(4)],
  ['from:"Anna Keller" offsite', exactly(1, 4)],
  ['to:mira', exactly(10, 27)],
  ['subject:invoice', exactly(3, 45)],
  ['subject:(offsite march)', exactly(4, 8, 9)],
  ['subject:{invoice lunch}', exactly(3, 34, 35, 45)],
  ['subject:"user visits"', exactly(36)],
  ['is:unread subject:invoice', exactly(3)],
  ['has:attachment', exactly(3, 16, 18, 25, 45)],
  ['filename:csv', exactly(18)],
  ['filename:"whiteboard.png"', exactly(25)],
  ['label:receipts', exactly(16, 37, 45)],
  ['liability', exactly(2)],
  ['LIABILITY contract', exactly(2)],
  ['"finish the numbers"', count(0)],
  ['liabil', count(0)],
  ['from:anna OR from:billing has:attachment', exactly(3, 16, 18, 45)],
  ['{from:anna from:billing} has:attachment', exactly(3, 16, 18, 45)],
  ['from:billing -subject:invoice', exactly(16)],
  ['from:billing -is:unread', exactly(16, 45)],
  ['has:attachment -{from:billing from:ben}', exactly(18)],
  ['newer_than:1d', exactly(1, 2, 3, 5, 6, 7, 8, 61)],
  ['newer_than:1d is:unread', exactly(1, 2, 3, 5, 6, 7, 8)],
  ['older_than:30d', exactly(57)],
  ['older_than:1y', count(0)],
  ['newer_than:1y in:inbox', count(48)],
  ['Größe', count(0)],
  ['aus Äthiopien', exactly(24)],
  ['(((', count(59)],
  ['- OR )', count(59)],
  ['is:nonsense', count(0)],
]) {
  test(`search: ${q}`, async () => check(await search(q)));
}

test('search: days, from now back', async () => {
  const day = (ago) => new Date(Date.now() - ago * 86400000).toISOString().slice(0, 10);
  const slashes = (ago) => day(ago).replaceAll('-', '/');
  const all = await search('');
  const time = async (id) => Number((await provider.gmail('GET', `/messages/${id}`, { query: { format: 'minimal' } })).json.internalDate);
  const times = new Map();
  for (const id of all) times.set(id, await time(id));
  const edge = Date.parse(`${day(5)}T00:00:00Z`);
  const newer = all.filter((id) => times.get(id) >= edge);
  assert.ok(newer.length > 10 && newer.length < all.length);
  assert.deepEqual(await search(`after:${slashes(5)}`), newer);
  assert.deepEqual(await search(`after:${day(5)}`), newer);
  assert.deepEqual(await search(`after:${edge / 1000}`), newer);
  assert.deepEqual(await search(`before:${slashes(5)}`), all.filter((id) => times.get(id) < edge));
});

test('messages.get: full, metadata, minimal, raw', async () => {
  const full = (await provider.gmail('GET', `/messages/${mailId(3)}`)).json;
  assert.deepEqual(Object.keys(full), ['id', 'threadId', 'labelIds', 'snippet', 'payload', 'sizeEstimate', 'historyId', 'internalDate']);
  assert.match(full.historyId, /^\d+$/);
  assert.ok(Math.abs(Date.now() - Number(full.internalDate)) < 8 * 3600 * 1000);
  assert.equal(full.payload.mimeType, 'multipart/mixed');
  assert.equal(header(full, 'Subject'), 'Invoice INV-4217 for November');
  const [alternative, attachment] = full.payload.parts;
  assert.deepEqual(alternative.parts.map((p) => [p.partId, p.mimeType]), [['0.0', 'text/plain'], ['0.1', 'text/html']]);
  assert.match(text(alternative.parts[0].body.data), /1,249\.00 EUR/);
  assert.equal(alternative.parts[0].body.size, text(alternative.parts[0].body.data).length);
  assert.deepEqual(attachment.body, { attachmentId: `ANGjdJ${mailId(3).slice(1)}-1`, size: attachment.body.size });
  assert.equal(attachment.filename, 'invoice-INV-4217.pdf');

  const metadata = (await provider.gmail('GET', `/messages/${mailId(3)}`, { query: { format: 'metadata', metadataHeaders: ['from', 'Subject'] } })).json;
  assert.deepEqual(metadata.payload.headers.map((h) => h.name), ['From', 'Subject']);
  assert.equal(metadata.payload.parts, undefined);
  const minimal = (await provider.gmail('GET', `/messages/${mailId(3)}`, { query: { format: 'minimal' } })).json;
  assert.equal(minimal.payload, undefined);
  const raw = (await provider.gmail('GET', `/messages/${mailId(3)}`, { query: { format: 'RAW' } })).json;
  assert.match(text(raw.raw), /^Delivered-To: .*\r\n/);
  assert.equal(Buffer.from(raw.raw, 'base64url').length, raw.sizeEstimate);

  await refused(provider.gmail('GET', `/messages/${mailId(0x999)}`), 404, 'notFound', 'NOT_FOUND', /not found/);
  await refused(provider.gmail('GET', '/messages/xyz'), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid id/);
  await refused(provider.gmail('GET', `/messages/${mailId(3)}`, { query: { format: 'huge' } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /format/);
});

test('texts in other languages and HTML-only mail', async () => {
  const german = (await provider.gmail('GET', `/messages/${mailId(24)}`)).json;
  assert.equal(header(german, 'Subject'), 'Neue Ernte aus Äthiopien');
  assert.equal(header(german, 'From'), 'Kaffeerösterei <post@roesterei.example>');
  assert.equal(german.payload.mimeType, 'text/html');
  assert.match(text(german.payload.body.data), /12,50 €/);
  assert.match(german.snippet, /^Die neue Ernte ist da/);
});

test('attachments.get returns the bytes', async () => {
  const { json } = await provider.gmail('GET', `/messages/${mailId(3)}/attachments/ANGjdJ${mailId(3).slice(1)}-1`);
  const bytes = Buffer.from(json.data, 'base64url');
  assert.equal(bytes.length, json.size);
  assert.equal(bytes.subarray(0, 9).toString(), '%PDF-1.7\n');
  await refused(provider.gmail('GET', `/messages/${mailId(3)}/attachments/nope`), 400, 'invalidArgument', 'INVALID_ARGUMENT', /attachment/);
});

test('messages.send: the mail is stored, found and counted once', async () => {
  const raw = `To: Bob <bob@example.net>\r\nSubject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe_?= =?utf-8?B?YXVz?=\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nSch=F6ne=\r\n Gr=FC=DFe\r\n`;
  const sent = await provider.gmail('POST', '/messages/send', { body: { raw: base64url(raw) } });
  assert.equal(sent.status, 200);
  assert.deepEqual(Object.keys(sent.json), ['id', 'threadId', 'labelIds']);
  assert.deepEqual(sent.json.labelIds, ['SENT']);
  assert.match(sent.json.id, /^[0-9a-f]{16}$/);
  const message = (await provider.gmail('GET', `/messages/${sent.json.id}`)).json;
  assert.equal(header(message, 'Subject'), 'Grüße aus');
  assert.equal(header(message, 'From'), `Sam Rivera <${ADDRESS}>`);
  assert.match(header(message, 'Message-ID'), /^<.+@mail\.gmail\.com>$/);
  assert.equal(text(message.payload.body.data), 'Schöne Grüße\r\n');
  assert.deepEqual(await search('in:sent newer_than:1h'), [sent.json.id]);
  assert.deepEqual(await search('Grüße'), [sent.json.id]);
  const { entries, total } = await provider.ledger();
  assert.equal(total, 1);
  assert.equal(entries[0].kind, 'gmail.messages.send');
  assert.equal(entries[0].object_id, sent.json.id);
  assert.equal(entries[0].marker, 'Grüße aus');
  assert.equal(entries[0].path, '/gmail/v1/users/me/messages/send');
});

test('messages.send: to oneself, into a thread, with padding', async () => {
  const self = (await provider.gmail('POST', '/messages/send', { body: { raw: base64url(`To: ${ADDRESS}\n\nhi`) } })).json;
  assert.deepEqual(sorted(self.labelIds), ['INBOX', 'SENT', 'UNREAD']);
  const named = (await provider.gmail('POST', '/messages/send', { body: { raw: base64url('To: a@b.org\n\n??>>') + '=', threadId: mailId(4) } })).json;
  assert.equal(named.threadId, mailId(4));
  const referring = (await provider.gmail('POST', '/messages/send', { body: { raw: base64url(`To: a@b.org\nIn-Reply-To: <${mailId(18)}@mail.example.com>\n\nhi`) } })).json;
  assert.equal(referring.threadId, mailId(18));
  assert.equal((await provider.ledger()).total, 3);
});

test('messages.send: invalid messages are refused and not counted', async () => {
  const send = (body) => provider.gmail('POST', '/messages/send', { body });
  await refused(send({}), 400, 'invalidArgument', 'INVALID_ARGUMENT', /"raw"/);
  await refused(send({ raw: '***' }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Base64 decoding failed/);
  await refused(send({ raw: base64url('no header here at all') }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /could not be parsed/);
  await refused(send({ raw: base64url('Subject: nobody\r\n\r\nx') }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Recipient address required/);
  await refused(send({ raw: base64url('To: nobody\r\n\r\nx') }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid To header/);
  await refused(send({ raw: base64url('To: a@b.org\r\nContent-Type: multipart/mixed\r\n\r\nx') }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /boundary/);
  await refused(send({ raw: base64url('To: a@b.org\r\n\r\nx'), threadId: mailId(0x999) }), 404, 'notFound', 'NOT_FOUND', /not found/);
  await refused(provider.gmail('POST', '/messages/send', { body: '{"raw": ' }), 400, 'parseError', 'INVALID_ARGUMENT', /Invalid JSON/);
  await refused(provider.gmail('POST', '/messages/send', { body: '[]' }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /body: must be object/);
  assert.equal((await provider.ledger()).total, 0);
});

test('modify, batchModify, trash, untrash, delete, batchDelete', async () => {
  const id = mailId(5);
  const before = (await provider.gmail('GET', `/messages/${id}`)).json;
  const changed = await provider.gmail('POST', `/messages/${id}/modify`, { body: { addLabelIds: ['STARRED', 'Label_1'], removeLabelIds: ['UNREAD'] } });
  assert.deepEqual(changed.json, { id, threadId: id, labelIds: ['INBOX', 'CATEGORY_PERSONAL', 'STARRED', 'Label_1'] });
  const message = (await provider.gmail('GET', `/messages/${id}`)).json;
  assert.ok(Number(message.historyId) > Number(before.historyId));
  assert.ok((await search('is:starred')).includes(id));
  assert.ok(!(await search('is:unread')).includes(id));

  const batch = await provider.gmail('POST', '/messages/batchModify', { body: { ids: ids(6, 7), removeLabelIds: ['UNREAD'] } });
  assert.deepEqual([batch.status, batch.text], [204, '']);
  assert.equal((await search('is:unread')).length, 11);

  assert.deepEqual(sorted((await provider.gmail('POST', `/messages/${id}/trash`)).json.labelIds), ['CATEGORY_PERSONAL', 'Label_1', 'STARRED', 'TRASH']);
  assert.ok(!(await search('')).includes(id));
  assert.ok(!(await provider.gmail('POST', `/messages/${id}/untrash`)).json.labelIds.includes('TRASH'));
  assert.equal((await provider.gmail('DELETE', `/messages/${id}`)).status, 204);
  await refused(provider.gmail('DELETE', `/messages/${id}`), 404, 'notFound', 'NOT_FOUND', /not found/);
  assert.equal((await provider.gmail('POST', '/messages/batchDelete', { body: { ids: ids(6, 6, 7) } })).status, 204);
  assert.equal((await search('')).length, 56);

  await refused(provider.gmail('POST', `/messages/${mailId(1)}/modify`, { body: {} }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /No label/);
  await refused(provider.gmail('POST', `/messages/${mailId(1)}/modify`, { body: { addLabelIds: ['Nope'] } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /labelId not found/);
  await refused(provider.gmail('POST', `/messages/${mailId(1)}/modify`, { body: { addLabelIds: ['SENT'] } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid label: SENT/);
  await refused(provider.gmail('POST', '/messages/batchModify', { body: { ids: [] } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /ids/);
  assert.deepEqual((await provider.ledger()).entries.map((e) => e.kind), ['gmail.messages.modify', 'gmail.messages.batchModify', 'gmail.messages.trash', 'gmail.messages.untrash', 'gmail.messages.delete', 'gmail.messages.batchDelete']);
});

test('threads: list shows the newest message, get has all, oldest first', async () => {
  const list = (await provider.gmail('GET', '/threads', { query: { q: 'subject:offsite' } })).json;
  assert.deepEqual(list.threads.map((t) => t.id), [mailId(4)]);
  assert.deepEqual(Object.keys(list.threads[0]), ['id', 'snippet', 'historyId']);
  const thread = (await provider.gmail('GET', `/threads/${mailId(4)}`, { query: { format: 'metadata' } })).json;
  assert.deepEqual(thread.messages.map((m) => m.id), ids(4, 9, 8));
  const all = (await provider.gmail('GET', '/threads', { query: { maxResults: 500 } })).json.threads;
  assert.equal(new Set(all.map((t) => t.id)).size, all.length);
  const pages = [];
  for (let token; ; ) {
    const page = (await provider.gmail('GET', '/threads', { query: { maxResults: 9, ...(token && { pageToken: token }) } })).json;
    pages.push(...page.threads);
    if (!(token = page.nextPageToken)) break;
  }
  assert.deepEqual(pages, all);
  await provider.gmail('POST', `/threads/${mailId(4)}/modify`, { body: { addLabelIds: ['STARRED'] } });
  assert.equal((await search('is:starred subject:offsite')).length, 3);
  await provider.gmail('POST', `/threads/${mailId(4)}/trash`);
  assert.equal((await search('subject:offsite')).length, 0);
  await provider.gmail('POST', `/threads/${mailId(4)}/untrash`);
  assert.equal((await provider.gmail('DELETE', `/threads/${mailId(4)}`)).status, 204);
  await refused(provider.gmail('GET', `/threads/${mailId(4)}`), 404, 'notFound', 'NOT_FOUND', /not found/);
});

test('labels: list, get with counts, create, rename, delete', async () => {
  const { labels } = (await provider.gmail('GET', '/labels')).json;
  assert.deepEqual(labels.filter((l) => l.type === 'user').map((l) => l.name), ['Receipts']);
  assert.ok(['INBOX', 'UNREAD', 'SENT', 'IMPORTANT', 'STARRED', 'CATEGORY_UPDATES'].every((id) => labels.some((l) => l.id === id && l.type === 'system')));
  const inbox = (await provider.gmail('GET', '/labels/INBOX')).json;
  assert.equal(inbox.messagesTotal, (await search('in:inbox')).length);
  assert.equal(inbox.messagesUnread, (await search('in:inbox is:unread')).length);
  assert.equal(inbox.threadsTotal, (await provider.gmail('GET', '/threads', { query: { labelIds: 'INBOX', maxResults: 500 } })).json.threads.length);
  const made = (await provider.gmail('POST', '/labels', { body: { name: 'Clients/ACME', labelListVisibility: 'labelHide' } })).json;
  assert.deepEqual(made, { id: 'Label_2', name: 'Clients/ACME', messageListVisibility: 'show', labelListVisibility: 'labelHide', type: 'user' });
  await provider.gmail('POST', `/messages/${mailId(1)}/modify`, { body: { addLabelIds: ['Label_2'] } });
  assert.deepEqual(await search('label:clients-acme'), ids(1));
  const listed = async () => (await provider.gmail('GET', '/labels')).json.labels.filter((l) => l.type === 'user').map((l) => l.name);
  assert.deepEqual(await listed(), ['Receipts', 'Clients/ACME']);
  assert.equal((await provider.gmail('PATCH', '/labels/Label_2', { body: { name: 'ACME' } })).json.name, 'ACME');
  assert.deepEqual(await listed(), ['Receipts', 'ACME']);
  assert.equal((await provider.gmail('DELETE', '/labels/Label_2')).status, 204);
  assert.deepEqual(await listed(), ['Receipts']);
  assert.deepEqual((await provider.gmail('GET', `/messages/${mailId(1)}`)).json.labelIds.includes('Label_2'), false);
  await refused(provider.gmail('POST', '/labels', { body: { name: 'receipts' } }), 409, 'aborted', 'ABORTED', /exists/);
  await refused(provider.gmail('POST', '/labels', { body: { name: 'inbox' } }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid label name/);
  await refused(provider.gmail('POST', '/labels', { body: {} }), 400, 'invalidArgument', 'INVALID_ARGUMENT', /Invalid label name/);
  await refused(provider.gmail('DELETE', '/labels/INBOX'), 400, 'invalidArgument', 'INVALID_ARGUMENT', /delete/);
  await refused(provider.gmail('GET', '/labels/Label_2'), 404, 'notFound', 'NOT_FOUND', /not found/);
});

test('drafts: create, list, get, replace, send, delete', async () => {
  const raw = base64url('To: ben@example.org\r\nSubject: Budget\r\n\r\nDear Ben');
  const made = (await provider.gmail('POST', '/drafts', { body: { message: { raw } } })).json;
  assert.match(made.id, /^r\d+$/);
  assert.deepEqual(made.message.labelIds, ['DRAFT']);
  const list = (await provider.gmail('GET', '/drafts')).json;
  assert.deepEqual(list.drafts.map((d) => d.id), [made.id, 'r7190000000000000002', 'r7190000000000000001']);
  assert.equal((await provider.gmail('GET', '/drafts', { query: { q: 'subject:budget' } })).json.drafts.length, 1);
  const page = (await provider.gmail('GET', '/drafts', { query: { maxResults: 2 } })).json;
  assert.equal((await provider.gmail('GET', '/drafts', { query: { maxResults: 2, pageToken: page.nextPageToken } })).json.drafts.length, 1);
  const put = (await provider.gmail('PUT', `/drafts/${made.id}`, { body: { message: { raw: base64url('To: ben@example.org\r\nSubject: Budget 2\r\n\r\nx') } } })).json;
  assert.notEqual(put.message.id, made.message.id);
  assert.equal(header((await provider.gmail('GET', `/drafts/${made.id}`)).json.message, 'Subject'), 'Budget 2');
  const sent = (await provider.gmail('POST', '/drafts/send', { body: { id: made.id } })).json;
  assert.deepEqual(sent.labelIds, ['SENT']);
  await refused(provider.gmail('GET', `/drafts/${made.id}`), 404, 'notFound', 'NOT_FOUND', /not found/);
  await refused(provider.gmail('GET', `/messages/${put.message.id}`), 404, 'notFound', 'NOT_FOUND', /not found/);
  assert.equal((await provider.gmail('DELETE', '/drafts/r7190000000000000001')).status, 204);
  const lost = (await provider.gmail('GET', '/drafts')).json.drafts[0];
  assert.equal((await provider.gmail('DELETE', `/messages/${lost.message.id}`)).status, 204);
  assert.deepEqual((await provider.gmail('GET', '/drafts')).json, { resultSizeEstimate: 0 });
});

test('profile, and an unknown user or path', async () => {
  const profile = (await provider.gmail('GET', '/profile')).json;
  assert.equal(profile.emailAddress, ADDRESS);
  assert.equal(profile.messagesTotal, 62);
  assert.equal((await provider.call('GET', `/gmail/v1/users/${encodeURIComponent(ADDRESS)}/profile`, { token: GMAIL })).status, 200);
  await refused(provider.call('GET', '/gmail/v1/users/other@example.com/profile', { token: GMAIL }), 403, 'forbidden', 'PERMISSION_DENIED', /Delegation denied/);
  const page = await provider.gmail('GET', '/nothing');
  assert.equal(page.status, 404);
  assert.match(page.headers['content-type'], /text\/html/);
});

test('tokens and scopes', async () => {
  for (const token of [undefined, 'wrong', 'ya29.demo-gmail-expired', 'ntn_demo_notion'])
    await refused(provider.gmail('GET', '/profile', { token }), 401, 'authError', 'UNAUTHENTICATED', /invalid authentication credentials/);
  assert.match((await provider.gmail('GET', '/profile', { token: 'x' })).headers['www-authenticate'], /invalid_token/);
  const raw = base64url('To: a@b.org\r\n\r\nx');
  const send = (token) => provider.gmail('POST', '/messages/send', { body: { raw }, token });
  await refused(send('ya29.demo-gmail-readonly'), 403, 'insufficientPermissions', 'PERMISSION_DENIED', /insufficient authentication scopes/);
  assert.equal((await send('ya29.demo-gmail-send')).status, 200);
  await refused(provider.gmail('GET', '/messages', { token: 'ya29.demo-gmail-send' }), 403, 'insufficientPermissions', 'PERMISSION_DENIED', /scopes/);
  await refused(provider.gmail('DELETE', `/messages/${mailId(1)}`, { token: 'ya29.demo-gmail-modify' }), 403, 'insufficientPermissions', 'PERMISSION_DENIED', /scopes/);
  assert.equal((await provider.ledger()).total, 1);
});

test("Google's own client works with it", async () => {
  const { gmail, auth } = await import('@googleapis/gmail');
  const oauth = new auth.OAuth2();
  oauth.setCredentials({ access_token: GMAIL });
  const agent = provider.agent;
  const client = gmail({ version: 'v1', auth: oauth, rootUrl: `${provider.url}/` });
  const me = { userId: 'me' };
  const list = await client.users.messages.list({ ...me, q: 'is:unread', maxResults: 5 }, { agent });
  assert.equal(list.data.messages.length, 5);
  const message = await client.users.messages.get({ ...me, id: list.data.messages[0].id }, { agent });
  assert.equal(message.data.id, mailId(1));
  const sent = await client.users.messages.send({ ...me, requestBody: { raw: base64url('To: a@b.org\r\nSubject: client\r\n\r\nx') } }, { agent });
  assert.deepEqual(sent.data.labelIds, ['SENT']);
  await client.users.messages.modify({ ...me, id: mailId(1), requestBody: { removeLabelIds: ['UNREAD'] } }, { agent });
  await client.users.messages.trash({ ...me, id: mailId(2) }, { agent });
  const missing = await client.users.messages.get({ ...me, id: mailId(0x999) }, { agent }).catch((error) => error);
  assert.equal(missing.status ?? missing.code, 404);
  assert.match(missing.message, /not found/);
});
