// The files of contrib/deploy, installed as an operator would: each proxy runs in front of a server
// and passes requests, long polls and event streams, and systemd's own check reads the unit file.
// Only ports, names and the paths of certificates are replaced. A program that is not installed is
// skipped.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import https from 'node:https';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { startDev, until } from './support/dev.mjs';
import { makeCertificates, startNginx } from './support/nginx.mjs';
import { Running, freePort, makeFolder, must, removeFolder, run } from './support/process.mjs';

const deploy = (name) => new URL(`../../contrib/deploy/${name}`, import.meta.url).pathname;
const path = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
const installed = (name) => path.map((dir) => join(dir, name)).find((file) => existsSync(file));
const without = (name) => (installed(name) ? false : `${name} is not installed`);

let dev, dir, certificates, ca;
before(async () => {
  dir = await makeFolder();
  certificates = await makeCertificates(dir);
  ca = await readFile(certificates.caFile);
  await writeFile(join(dir, 'both.pem'), `${await readFile(certificates.certFile)}${await readFile(certificates.keyFile)}`);
  dev = await startDev({ args: ['--trusted-proxy', '127.0.0.1'] });
});
after(async () => {
  const end = await dev?.stop();
  if (dir) await removeFolder(dir);
  assert.deepEqual([end?.code, end?.signal], [0, null], end?.log.slice(-30000));
});

const read = (name) => readFile(deploy(name), 'utf8');
// Returns the text with every pair's first text replaced by its second. Each must be present.
function putInto(text, pairs) {
  for (const [from, to] of pairs) {
    assert.ok(text.includes(from), from);
    text = text.replaceAll(from, () => to);
  }
  return text;
}

// Sends one request through the proxy. onPart gets the body as it arrives.
function ask(port, method, target, body, { headers = {}, onPart } = {}) {
  return new Promise((resolve, reject) => {
    const all = { Authorization: `Bearer ${dev.key}`, 'Content-Type': 'application/json', ...headers };
    const request = https.request({ host: 'localhost', port, method, path: target, headers: all, ca, agent: false }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (part) => {
        text += part;
        onPart?.(text);
      });
      reply.on('error', reject);
      reply.on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, text }));
    });
    request.on('error', reject);
    request.end(body && JSON.stringify(body));
  });
}

async function waitingFlow(port) {
  const input = { maxResults: 1, taskParent: dev.taskParent };
  const started = await ask(port, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input });
  assert.equal(started.status, 200, started.text);
  const { flowId } = JSON.parse(started.text);
  return until('the flow waits', async () => {
    const view = await ask(port, 'GET', `/api/flows/${flowId}?wait=60&until=settled`);
    return JSON.parse(view.text).flow.status === 'waiting' && { id: flowId, tag: view.headers.etag };
  });
}

// Every spelling of the operators' paths that a proxy or sluice might accept.
const INSIDE = ['/metrics', '/readyz'].flatMap((path) => {
  const name = path.slice(1);
  const first = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
  const all = [...name].map((c) => `%${c.charCodeAt(0).toString(16)}`).join('');
  return [path, `${path}?x=1`, `${path}/`, `/${path}`, `/.${path}`, `/x/..${path}`, `/%2e${path}`, `/x/%2e%2e${path}`,
    `/${first}`, `/${all}`, `/${first.replace('%', '%25')}`, `${path}%2f`, `/%2f${name}`, `${path}%00`, `${path};x`, `/${name.toUpperCase()}`];
});

async function servesThrough(port) {
  await until('the proxy serves', async () => (await ask(port, 'GET', '/healthz').catch(() => null))?.status === 200);
  const labels = await ask(port, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input: {} });
  assert.equal(JSON.parse(labels.text).status, 'succeeded');
  // the audit trail has the client's real address, not the address that the client claims
  const forged = await ask(port, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: {} }, { headers: { 'X-Forwarded-For': '203.0.113.9' } });
  assert.equal(JSON.parse(forged.text).status, 'blocked');
  const trail = await until('it is in the audit trail', async () => {
    const { text } = await ask(port, 'GET', '/api/audit');
    return text.includes('send_message') && text;
  });
  assert.ok(trail.includes('127.0.0.1') && !trail.includes('203.0.113.9'), trail);
  for (const inside of INSIDE) {
    const { status, text } = await ask(port, 'GET', inside);
    assert.ok(status === 404 || status === 400, `${inside}: ${status}`);
    assert.doesNotMatch(text, /sluice_|"ready"/, inside);
  }

  const flow = await waitingFlow(port);
  const poll = ask(port, 'GET', `/api/flows/${flow.id}?wait=60`, undefined, { headers: { 'If-None-Match': flow.tag } });
  let first;
  const begun = new Promise((resolve) => (first = resolve));
  const stream = ask(port, 'GET', `/api/flows/${flow.id}/events`, undefined, {
    onPart: (text) => text.includes('\n\n') && first(text),
  });
  // the first event arrives although nothing follows it: no proxy delays it
  assert.match(await begun, /"status":"waiting"/);
  assert.equal((await ask(port, 'POST', `/api/flows/${flow.id}/approve`)).status, 200);
  const changed = await poll;
  assert.equal(changed.status, 200);
  assert.notEqual(changed.headers.etag, flow.tag);
  const { headers, text } = await stream;
  assert.match(headers['content-type'], /^text\/event-stream/);
  const last = JSON.parse(text.trim().split('\n\n').at(-1).split('\ndata: ')[1]);
  assert.equal(last.flow.status, 'completed');
}

test('nginx', { skip: without('nginx') }, async () => {
  const text = await read('nginx.conf');
  const nginx = await startNginx(dir, (port) =>
    putInto(text, [['127.0.0.1:8080', `127.0.0.1:${dev.port}`], ['listen 443', `listen 127.0.0.1:${port}`],
      ['sluice.example.com', 'localhost'], ['/etc/ssl/sluice/fullchain.pem', certificates.certFile],
      ['/etc/ssl/sluice/privkey.pem', certificates.keyFile]]));
  try {
    await must(installed('nginx'), ['-t', '-p', nginx.root, '-e', `${nginx.root}/test.log`, '-c', `${nginx.root}/nginx.conf`]);
    await servesThrough(nginx.port);
  } finally {
    await nginx.stop();
  }
});

test('HAProxy', { skip: without('haproxy') }, async () => {
  const port = await freePort();
  const file = join(dir, 'haproxy.cfg');
  await writeFile(file, putInto(await read('haproxy.cfg'), [['127.0.0.1:8080', `127.0.0.1:${dev.port}`],
    ['bind :443', `bind 127.0.0.1:${port}`], ['/etc/ssl/sluice/sluice.pem', join(dir, 'both.pem')]]));
  await must(installed('haproxy'), ['-c', '-f', file]);
  const haproxy = new Running(installed('haproxy'), ['-db', '-f', file]);
  try {
    await servesThrough(port);
  } finally {
    await haproxy.stop('SIGINT');
  }
});

test('Caddy', { skip: without('caddy') }, async () => {
  const port = await freePort();
  const file = join(dir, 'Caddyfile');
  const text = putInto(await read('Caddyfile'), [['{$SITE:sluice.example.com} {',
    `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${certificates.certFile} ${certificates.keyFile}`]]);
  await writeFile(file, `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${text}`);
  const env = { HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir, SLUICE: `127.0.0.1:${dev.port}` };
  await must(installed('caddy'), ['validate', '--adapter', 'caddyfile', '--config', file], { env });
  const caddy = new Running(installed('caddy'), ['run', '--adapter', 'caddyfile', '--config', file], { env });
  try {
    await servesThrough(port);
  } finally {
    await caddy.stop();
  }
});

test('systemd accepts the units, and finds them sandboxed', { skip: without('systemd-analyze') }, async () => {
  const [service, socket] = ['sluice.service', 'sluice.socket'].map((name) => join(dir, name));
  await writeFile(service, putInto(await read('sluice.service'), [['/usr/local/bin/sluice', process.env.SLUICE_BIN]]));
  await writeFile(socket, await read('sluice.socket'));
  const said = await run(installed('systemd-analyze'), ['verify', service, socket]);
  assert.equal(said.code, 0, said.stderr);
  assert.doesNotMatch(said.stderr, /sluice\.(service|socket)/, 'it has nothing to report');
  for (const unit of [service, socket]) {
    const shut = await must(installed('systemd-analyze'), ['security', '--offline=true', '--no-pager', unit]);
    const exposure = Number(/Overall exposure level for sluice\.(?:service|socket): ([\d.]+)/.exec(shut)?.[1]);
    assert.ok(exposure <= 1.5, shut);
  }
});

test('the settings exist in the program', async () => {
  const home = join(dir, 'etc');
  await mkdir(home);
  const key = join(home, 'master-key');
  await writeFile(key, await must(process.env.SLUICE_BIN, ['keys', 'master']), { mode: 0o600 });
  const nowhere = `postgresql:///sluice?host=${dir}`;
  const text = putInto(await read('sluice.conf'), [['/etc/sluice/master-key', key], ['postgresql:///sluice?host=/run/postgresql', nowhere]]);
  const file = join(home, 'sluice.conf');
  await writeFile(file, text.replace(/^workers.*$/m, 'workers = 0').replace(':8080', ':0').replace(':9464', ':0'), { mode: 0o640 });
  const end = await run(process.env.SLUICE_BIN, ['serve', '--config', file]);
  // the server read all settings, and failed only to reach the database, which does not exist
  assert.equal(end.code, 1, end.stderr);
  assert.match(end.stderr, /\.s\.PGSQL\.5432/, end.stderr);
});
