// Starts the real program as `sluice dev` and talks to it. For tests that need no more than a user
// has. The binary is $SLUICE_BIN (the sanitizer build in `make test`). Each start has its own data
// folder in the system's temporary folder. stop() removes the folder unless the test keeps it.
import { existsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { call, control, until } from './client.mjs';
import { Running, makeFolder, removeFolder } from './process.mjs';

export { hold, until } from './client.mjs';

const bin = process.env.SLUICE_BIN;
const isSharded = process.env.SLUICE_CITUS_BIN !== undefined;
const START_MS = 180_000;

// No turn of the loop may take longer than 50 ms of thread CPU time. If other tests run
// concurrently, five turns in a thousand may take up to ten times that, since a virtual machine
// that the host pauses for a while charges that time to the running thread (turns that freed some
// blocks or sent a reply took up to 230 ms). A turn that is too long by itself is too long each
// time. loop.test.mjs runs alone and allows no such turn.
export const TURN_LIMITS = { SLUICE_TURN_CPU_MS_MAX: '50', SLUICE_TURNS_OVER_MAX: '5' };

export class Dev {
  constructor(process, dir, info) {
    Object.assign(this, { process, dir });
    Object.assign(this, {
      base: info.base_url,
      port: Number(new URL(info.base_url).port),
      key: info.api_key,
      provider: info.provider_url,
      database: info.database_url,
      accountId: info.account_id,
      taskParent: info.demo.task_parent,
      info,
    });
  }

  get log() {
    return this.process.log;
  }

  // Sends one request with the demo key. The body is sent as JSON unless it is a string.
  async call(method, path, body, headers = {}) {
    try {
      return await call(this.base, this.key, method, path, body, headers);
    } catch (error) {
      throw await this.process.explain(error);
    }
  }

  execute(integration_id, action_id, input, more = {}) {
    return this.call('POST', '/api/executions', { integration_id, action_id, input, ...more });
  }

  // Sends a request to the emulated provider's control endpoint (bench/provider/README.md).
  async control(method, path, body) {
    this.ca ??= await readFile(this.info.provider_ca_file);
    return control(this.provider, this.ca, method, path, body);
  }

  // All writes that the provider has made, oldest first.
  async ledger() {
    return (await this.control('GET', '/ledger')).entries;
  }

  faults(rules) {
    return this.control('PUT', '/faults', { rules });
  }

  kill(signal) {
    this.process.kill(signal);
  }

  // Resolves with {code, signal} once the process has ended.
  ended() {
    return this.process.gone;
  }

  // Sends SIGTERM. The caller checks the returned value for a clean exit.
  async stop({ keep = false } = {}) {
    const end = await this.process.stop();
    if (!keep) await removeFolder(this.dir);
    return { ...end, log: this.log };
  }
}

// On a cluster (SLUICE_CITUS_BIN), this is a server with the same account and apps, since `sluice
// dev` starts its own PostgreSQL.
class Sharded extends Dev {
  async stop() {
    const [end] = await this.stack.stop();
    return end;
  }
}

async function startSharded(options) {
  const { Stack } = await import('./stack.mjs');
  const stack = await Stack.start();
  const { id, key } = await stack.account('demo', { apps: ['gmail', 'notion'] });
  const server = await stack.serve({ env: options.env, args: options.args });
  const dev = new Sharded(server.process, stack.dir, {
    base_url: server.base,
    api_key: key,
    provider_url: stack.provider.url,
    provider_ca_file: stack.provider.caFile,
    database_url: stack.cluster.url,
    account_id: id,
    demo: { task_parent: stack.provider.taskParent },
  });
  return Object.assign(dev, { stack });
}

// options: dir (an earlier start's data folder), env, args
export async function startDev(options = {}) {
  if (isSharded) return startSharded(options);
  const dir = options.dir ?? (await makeFolder());
  const ready = join(dir, 'ready.json');
  await rm(ready, { force: true });
  const args = ['dev', '--port', '0', '--data', join(dir, 'data'), '--ready-file', ready];
  const process = new Running(bin, [...args, ...(options.args ?? [])], {
    env: { ...TURN_LIMITS, ...options.env },
  });
  try {
    await until(
      'sluice dev is ready',
      () => {
        process.check();
        return existsSync(ready);
      },
      START_MS,
    );
  } catch (error) {
    await process.stop('SIGKILL');
    throw new Error(`${error.message}\n${process.log}`);
  }
  return new Dev(process, dir, JSON.parse(await readFile(ready, 'utf8')));
}
