// Files of Slack, Drive and Dropbox, in both directions, with a provider that enforces each
// vendor's protocol: where bytes are sent, which request announces them, what each header may
// contain, and which host gets the token.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { Scripted } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const TOKENS = { slack: 'xoxb-of-the-test', google_drive: 'ya29.of-the-test', dropbox: 'sl.of-the-test' };
const ORIGINS = ['https://slack.com', 'https://files.slack.com', 'https://www.googleapis.com', 'https://api.dropboxapi.com', 'https://content.dropboxapi.com'];
const LOGIN = '<!DOCTYPE html><html><head><title>Sign in | Slack</title></head></html>';
const JSON_TYPE = { 'content-type': 'application/json' };
const json = (body, status = 200, headers = {}) => ({ status, headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(body) });
const no = (error, more = {}) => json({ ok: false, error, ...more });
const has = (request, app) => request.headers.authorization === `Bearer ${TOKENS[app]}`;

let state; // the vendors' contents

// ---- slack ----

function slackMethod(request, name) {
  if (!has(request, 'slack')) return no('invalid_auth');
  const { query } = request;
  if (name === 'files.getUploadURLExternal') {
    if (!query.get('filename') || !/^[1-9]\d*$/.test(query.get('length') ?? '')) return no('invalid_arguments');
    const id = `F0${state.reserved.size + 1}`;
    state.reserved.set(id, { id, name: query.get('filename'), length: Number(query.get('length')), alt: query.get('alt_txt') });
    return json({ ok: true, file_id: id, upload_url: state.uploadUrl?.(id) ?? `https://files.slack.com/upload/v1/${id}` });
  }
  if (name === 'files.completeUploadExternal') {
    const { files, channel_id, initial_comment, thread_ts } = JSON.parse(request.body);
    const [{ id, title }] = files;
    const file = state.reserved.get(id);
    if (!file?.data) return no('file_not_found');
    if (channel_id && channel_id !== 'C0000000001') return no('channel_not_found');
    Object.assign(file, { title, channel_id, initial_comment, thread_ts });
    state.posted.push(file);
    return json({ ok: true, files: [{ id, title, permalink: `https://acme.slack.com/files/U1/${id}` }] });
  }
  if (name === 'files.info') {
    const file = state.reserved.get(query.get('file'));
    if (!file?.data) return no('file_not_found');
    const url = `https://files.slack.com/files-pri/T1-${file.id}/download/x`;
    return json({ ok: true, file: { id: file.id, name: file.name, mimetype: 'application/octet-stream', url_private: url, url_private_download: state.privateUrl ?? url } });
  }
  return no('unknown_method');
}

function slackFiles(request) {
  const [, upload] = request.path.match(/^\/upload\/v1\/(F\d+)$/) ?? [];
  if (upload) {
    const file = state.reserved.get(upload);
    if (request.headers.authorization) return { status: 400, body: 'a token has no business here' };
    if (request.method !== 'POST' || request.body.length !== file.length) return { status: 400, body: 'length mismatch' };
    file.data = request.body;
    return { status: 200, headers: { 'content-type': 'text/plain' }, body: `OK - ${file.length}` };
  }
  if (!has(request, 'slack')) return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: LOGIN };
  const file = state.reserved.get(request.path.match(/T1-(F\d+)/)[1]);
  return { status: 200, headers: { 'content-type': 'application/octet-stream' }, body: file.data };
}

// ---- drive ----

const driveFile = ({ id, name, mimeType, parents }) => ({ id, name, mimeType, ...(parents && { parents }) });
const driveError = (code, message) => json({ error: { code, message, errors: [{ reason: 'x' }] } }, code);

function driveUpload(request) {
  const { query, headers, body } = request;
  const session = query.get('upload_id');
  if (session) {
    const file = state.sessions.get(session);
    if (!file) return driveError(404, 'the session is over');
    if (request.method !== 'PUT' || body.length !== file.length || headers['content-type'] !== file.type) return driveError(400, 'not the bytes that were announced');
    state.sessions.delete(session);
    const made = { id: `d${state.drive.size + 1}`, mimeType: file.type, ...file.meta, data: body };
    state.drive.set(made.id, made);
    return json(driveFile(made));
  }
  if (!has(request, 'google_drive')) return driveError(401, 'no token');
  if (request.method === 'POST' && query.get('uploadType') === 'resumable') {
    const id = `s${state.sessions.size + 1}`;
    state.sessions.set(id, { meta: JSON.parse(body), length: Number(headers['x-upload-content-length']), type: headers['x-upload-content-type'] });
    if (state.isSessionLost) state.sessions.clear();
    return { status: 200, headers: { location: `https://www.googleapis.com/upload/drive/v3/files?uploadType=resumable&upload_id=${id}`, 'content-length': '0' }, body: '' };
  }
  const file = state.drive.get(request.path.split('/').at(-1));
  if (request.method !== 'PATCH' || query.get('uploadType') !== 'media' || !file) return driveError(404, 'File not found');
  Object.assign(file, { data: body, mimeType: headers['content-type'] });
  return json(driveFile(file));
}

function driveRead(request) {
  if (!has(request, 'google_drive')) return driveError(401, 'no token');
  const [, id, verb] = request.path.match(/^\/drive\/v3\/files\/([^/]+)(\/export)?$/) ?? [];
  const file = state.drive.get(id);
  if (!file) return driveError(404, 'File not found');
  if (verb) return { status: 200, headers: { 'content-type': request.query.get('mimeType') }, body: `%PDF of ${id}` };
  if (request.query.get('alt') !== 'media') return json(driveFile(file));
  return { status: 200, headers: { 'content-type': file.mimeType }, body: file.data };
}

// ---- dropbox ----

function dropbox(request) {
  const { headers, body, path } = request;
  const text = headers['dropbox-api-arg'];
  if (!has(request, 'dropbox')) return json({ error_summary: 'invalid_access_token/', error: { '.tag': 'invalid_access_token' } }, 401);
  if (request.host !== 'content.dropboxapi.com' || !text || /[^ -~]/.test(text)) return { status: 400, headers: { 'content-type': 'text/plain' }, body: 'Error in call: HTTP header "Dropbox-API-Arg" is wrong' };
  const arg = JSON.parse(text);
  const found = state.dropbox.get(arg.path);
  if (path === '/2/files/upload') {
    if (headers['content-type'] !== 'application/octet-stream') return { status: 400, headers: { 'content-type': 'text/plain' }, body: 'Error in call: bad HTTP "Content-Type" header' };
    const isUpdate = arg.mode?.['.tag'] === 'update' && found?.rev === arg.mode.update;
    if (found && arg.mode !== 'overwrite' && !isUpdate && !arg.autorename) return json({ error_summary: 'path/conflict/file/..', error: { '.tag': 'path', reason: { '.tag': 'conflict' } } }, 409);
    const name = arg.path.split('/').at(-1);
    const file = { name, path_display: arg.path, path_lower: arg.path.toLowerCase(), id: `id:${state.dropbox.size}`, rev: createHash('sha256').update(body).digest('hex').slice(0, 16), size: body.length };
    state.dropbox.set(arg.path, { ...file, data: body });
    return json(file);
  }
  if (body.length > 0) return { status: 400, body: 'a download has no body' };
  if (!found && path === '/2/files/download') return json({ error_summary: 'path/not_found/..', error: { '.tag': 'path' } }, 409);
  const data = path === '/2/files/download' ? found.data : Buffer.from('PK zip');
  return { status: 200, headers: { 'content-type': path === '/2/files/download' ? 'application/octet-stream' : 'application/zip', 'dropbox-api-result': '{}' }, body: data };
}

function answer(request) {
  if (request.host === 'slack.com') return slackMethod(request, request.path.replace('/api/', ''));
  if (request.host === 'files.slack.com') return slackFiles(request);
  if (request.path.startsWith('/upload/drive/')) return driveUpload(request);
  if (request.host === 'www.googleapis.com') return driveRead(request);
  return dropbox(request);
}

function on(request, reply, url) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const one = { method: request.method, host: request.headers.host, path: url.pathname, query: url.searchParams, headers: request.headers, body: Buffer.concat(parts) };
    state.seen.push(`${one.method} ${one.host}${one.path}`);
    const { status, headers = {}, body } = answer(one);
    reply.writeHead(status, headers).end(body);
  });
}

let stack, provider, server, account;
before(async () => {
  provider = await Scripted.start(on);
  stack = await Stack.start({ catalog: false, provider: false });
  server = await stack.serve({ args: ORIGINS.flatMap((origin) => ['--origin-override', `${origin}=${provider.url}`]) });
  account = await stack.account('files', { apps: [] });
  for (const [app, access_token] of Object.entries(TOKENS)) await stack.connect(account.id, app, { access_token });
});
beforeEach(() => (state = { seen: [], reserved: new Map(), posted: [], sessions: new Map(), drive: new Map(), dropbox: new Map() }));
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const BYTES = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7) % 256));
const file = (name, contentType) => [{ name, ...(contentType && { contentType }), data: BYTES.toString('base64') }];
const run = (tool, args, files, headers) => server.call(account.key, 'POST', `/api/tools/${tool}/execute`, { arguments: args, confirmed: true, ...(files && { files }) }, headers);
async function good(...args) {
  const { status, json, text } = await run(...args);
  assert.equal(status, 200, text);
  return { ...json.data, summary: json.canonical.display.summary };
}
async function bad(...args) {
  const { status, json, text } = await run(...args);
  assert.notEqual(status, 200, text);
  return { status, ...json.canonical, code: json.error.code };
}
const isSame = (output, type) => assert.deepEqual([output.bytes, output.content_type, Buffer.from(output.data, 'base64').equals(BYTES)], [BYTES.length, type, true]);

test('slack: reserved, uploaded, posted; and downloaded again', async () => {
  const output = await good('slack_upload_file', { channel: 'C0000000001', text: 'Grüße', thread_ts: '1772445600.123456', title: 'März', alt_text: 'a chart' }, file('Übersicht.png', 'image/png'));
  assert.deepEqual(output, { id: 'F01', title: 'März', permalink: 'https://acme.slack.com/files/U1/F01', channel: 'C0000000001', summary: 'März, posted to C0000000001' });
  const [{ data, ...posted }] = state.posted;
  assert.deepEqual(posted, { id: 'F01', name: 'Übersicht.png', length: BYTES.length, alt: 'a chart', title: 'März', channel_id: 'C0000000001', initial_comment: 'Grüße', thread_ts: '1772445600.123456' });
  assert.ok(data.equals(BYTES));
  assert.deepEqual(state.seen, ['POST slack.com/api/files.getUploadURLExternal', 'POST files.slack.com/upload/v1/F01', 'POST slack.com/api/files.completeUploadExternal']);
  const back = await good('slack_download_file', { file: 'F01' });
  isSame(back, 'application/octet-stream');
  assert.deepEqual([back.id, back.name, back.summary], ['F01', 'Übersicht.png', 'Übersicht.png (70000 bytes)']);
});

test('slack: kept private if no channel is named', async () => {
  assert.equal((await good('slack_upload_file', {}, file('a.bin'))).summary, 'a.bin, not posted');
  assert.equal(state.posted[0].channel_id, undefined);
  const faulty = await bad('slack_upload_file', { text: 'to whom?' }, file('a.bin'));
  assert.equal(faulty.error_code, 'validation_error');
  assert.match((await bad('slack_upload_file', { channel: 'C1' })).message, /needs a file, but the request has none/);
});

test('slack: uploaded and not posted, and nothing is repeated with its key', async () => {
  const headers = { 'idempotency-key': 'one upload' };
  const first = await bad('slack_upload_file', { channel: 'C404' }, file('a.bin'), headers);
  assert.deepEqual([first.status, first.error_code, first.code], ['failed', 'execution_failed', 'partly_done']);
  assert.match(first.message, /^The bytes of the file were uploaded \(F01\), but the upload was not completed, so the file was not posted\. Slack: channel_not_found/);
  assert.match(first.hint, /^Take the channel's id from list_channels.*What was done stays done/);
  await bad('slack_upload_file', { channel: 'C404' }, file('a.bin'), headers);
  assert.equal(state.seen.length, 3);
});

test('slack: neither bytes nor the token are sent outside of Slack', async () => {
  state.uploadUrl = () => 'https://files.slack.com.evil.example/upload';
  const away = await bad('slack_upload_file', {}, file('a.bin'));
  assert.deepEqual([away.error_code, state.seen.length], ['unsupported_operation', 1]);
  delete state.uploadUrl;
  await good('slack_upload_file', {}, file('a.bin'));
  state.privateUrl = 'https://docs.google.com/document/d/x';
  assert.equal((await bad('slack_download_file', { file: 'F02' })).error_code, 'unsupported_operation');
  assert.equal((await bad('slack_download_file', { file: 'F404' })).error_code, 'execution_failed');
});

test('drive: announced, sent, replaced, downloaded, exported', async () => {
  const made = await good('google_drive_upload_file', { parents: ['p1'], description: 'Für den März' }, file('Rechnung März.pdf', 'application/pdf'));
  assert.deepEqual([made.id, made.name, made.parents, made.summary], ['d1', 'Rechnung März.pdf', ['p1'], 'Rechnung März.pdf']);
  assert.deepEqual(state.seen, ['POST www.googleapis.com/upload/drive/v3/files', 'PUT www.googleapis.com/upload/drive/v3/files']);
  assert.ok(state.drive.get('d1').data.equals(BYTES));
  isSame(await good('google_drive_download_file', { fileId: 'd1' }), 'application/pdf');
  const doc = await good('google_drive_upload_file', { name: 'Doc', convertTo: 'application/vnd.google-apps.document' }, file('a.docx'));
  assert.deepEqual([doc.name, doc.mimeType], ['Doc', 'application/vnd.google-apps.document']);
  await good('google_drive_replace_file_content', { fileId: 'd2' }, [{ name: 'b', contentType: 'text/plain', data: Buffer.from('anew').toString('base64') }]);
  assert.equal(Buffer.from((await good('google_drive_download_file', { fileId: 'd2' })).data, 'base64').toString(), 'anew');
  const pdf = await good('google_drive_export_file', { fileId: 'd2', mimeType: 'application/pdf' });
  assert.deepEqual([pdf.content_type, Buffer.from(pdf.data, 'base64').toString()], ['application/pdf', '%PDF of d2']);
});

test('drive: an expired session leaves nothing, so the key is free', async () => {
  state.isSessionLost = true;
  const headers = { 'idempotency-key': 'one session' };
  const lost = await bad('google_drive_upload_file', {}, file('a.bin'), headers);
  assert.deepEqual([lost.status, lost.error_code], ['failed', 'execution_failed']);
  assert.match(lost.message, /the session is over/);
  assert.doesNotMatch(lost.message, /upload_id/);
  assert.equal((await bad('google_drive_download_file', { fileId: 'none' })).error_code, 'execution_failed');
});

test('dropbox: a name that is not ASCII, in a header; and back', async () => {
  const path = '/Rechnungen/März "1" 😀\u007f.pdf';
  const made = await good('dropbox_upload_file', { path }, file('x.pdf', 'application/pdf'));
  assert.deepEqual([made.path_display, made.size, made.summary], [path, BYTES.length, made.summary]);
  assert.ok(state.dropbox.get(path).data.equals(BYTES));
  isSame(await good('dropbox_download_file', { path }), 'application/octet-stream');
  assert.deepEqual(state.seen, ['POST content.dropboxapi.com/2/files/upload', 'POST content.dropboxapi.com/2/files/download']);
  assert.equal((await good('dropbox_download_folder', { path: '/Rechnungen' })).content_type, 'application/zip');
});

test('dropbox: an existing file is replaced only on request', async () => {
  const { rev } = await good('dropbox_upload_file', { path: '/a' }, file('a'));
  const conflict = await bad('dropbox_upload_file', { path: '/a' }, file('a'));
  assert.deepEqual([conflict.status, conflict.error_code], ['failed', 'execution_failed']);
  assert.match(conflict.hint, /autorename/);
  await good('dropbox_upload_file', { path: '/a', mode: 'overwrite' }, file('a'));
  await good('dropbox_upload_file', { path: '/a', rev }, file('a'));
  await bad('dropbox_upload_file', { path: '/a', rev: '0123456789abcdef' }, file('a'));
  const missing = await bad('dropbox_download_file', { path: '/none' });
  assert.match(missing.message, /did not find it/);
});
