// Starts the real program as `sluice dev` and talks to it: every end-to-end test begins here.
// The binary is $SLUICE_BIN (the sanitizer build in `make test`); each start has a data folder of
// its own under the system's temporary folder, removed by stop() unless the test keeps it.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const bin = process.env.SLUICE_BIN;
const START_MS = 60_000;
const POLL_MS = 20;

// No turn of the loop may take longer than this in thread CPU time (PROVING.md, failure 2). The
// sanitizers make everything some times slower, so the limit is theirs, too: it is the same 50 ms.
export const TURN_CPU_MS_MAX = '50';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits for a condition, never for a time: fn is called until it gives something true.
export async function until(what, fn, ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await fn();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out waiting until ${what}`);
    await pause(POLL_MS);
  }
}

export class Dev {
  constructor(child, dir, info, log) {
    Object.assign(this, { child, dir, log });
    Object.assign(this, {
      base: info.base_url,
      key: info.api_key,
      provider: info.provider_url,
      database: info.database_url,
      accountId: info.account_id,
      taskParent: info.demo.task_parent,
      info,
    });
  }

  // One request with the demo key; body is sent as JSON unless it is a string.
  async call(method, path, body, headers = {}) {
    const init = { method, headers: { authorization: `Bearer ${this.key}`, ...headers } };
    for (const name of Object.keys(init.headers))
      if (init.headers[name] === undefined) delete init.headers[name];
    if (body !== undefined) {
      init.body = typeof body === 'string' ? body : JSON.stringify(body);
      init.headers['content-type'] ??= 'application/json';
    }
    const reply = await fetch(this.base + path, init);
    const text = await reply.text();
    let json;
    try {
      json = text === '' ? undefined : JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status: reply.status, headers: reply.headers, text, json };
  }

  execute(integration_id, action_id, input, more = {}) {
    return this.call('POST', '/api/executions', { integration_id, action_id, input, ...more });
  }

  // The emulated provider's control endpoint (bench/provider/README.md).
  async control(method, path, body) {
    const ca = await readFile(this.info.provider_ca_file);
    return new Promise((resolve, reject) => {
      const request = https.request(
        this.provider + '/__control' + path,
        { method, ca, agent: false, headers: { 'x-control': '1', 'content-type': 'application/json' } },
        (reply) => {
          let text = '';
          reply.setEncoding('utf8');
          reply.on('data', (part) => (text += part));
          reply.on('end', () =>
            reply.statusCode < 300
              ? resolve(text === '' ? undefined : JSON.parse(text))
              : reject(new Error(`control ${method} ${path}: ${reply.statusCode} ${text}`)),
          );
        },
      );
      request.on('error', reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  // All writes that the provider has done, oldest first.
  async ledger() {
    const reply = await this.control('GET', '/ledger');
    return reply.writes ?? reply;
  }

  faults(rules) {
    return this.control('PUT', '/faults', { rules });
  }

  kill(signal) {
    this.child.kill(signal);
  }

  // Resolves with {code, signal} once the process has gone.
  async ended() {
    if (this.child.exitCode === null && this.child.signalCode === null)
      await new Promise((resolve) => this.child.once('exit', resolve));
    return { code: this.child.exitCode, signal: this.child.signalCode };
  }

  // SIGTERM, a clean exit asserted by the caller's look at what it returns.
  async stop({ keep = false } = {}) {
    this.kill('SIGTERM');
    const end = await this.ended();
    if (!keep) await rm(this.dir, { recursive: true, force: true });
    return { ...end, log: this.log.text };
  }
}

// options: dir (an earlier start's data folder), env, args
export async function startDev(options = {}) {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'sluice-e2e-')));
  const ready = join(dir, 'ready.json');
  await rm(ready, { force: true });
  const args = ['dev', '--port', '0', '--data', join(dir, 'data'), '--ready-file', ready];
  const child = spawn(bin, [...args, ...(options.args ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, SLUICE_TURN_CPU_MS_MAX: TURN_CPU_MS_MAX, ...options.env },
  });
  const log = { text: '' };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (log.text += part));
  try {
    await until(
      'sluice dev is ready',
      () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`sluice dev ended early:\n${log.text}`);
        return existsSync(ready);
      },
      START_MS,
    );
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`${error.message}\n${log.text}`);
  }
  return new Dev(child, dir, JSON.parse(await readFile(ready, 'utf8')), log);
}
