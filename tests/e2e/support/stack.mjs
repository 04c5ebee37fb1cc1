// The parts of a deployment, each started by the test itself: a private PostgreSQL, the emulated
// provider, and `sluice serve`. Accounts and connections are made with the operator commands. For
// tests that must stop or break one part while another keeps running, which `sluice dev` does not
// allow.
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CitusCluster } from './citus.mjs';
import { call, control, until } from './client.mjs';
import { TURN_LIMITS } from './dev.mjs';
import { printed, query } from './postgres.mjs';
import { Running, makeFolder, must, removeFolder, run } from './process.mjs';

export const sluiceBin = process.env.SLUICE_BIN;
// Not the sanitized build: the provider is not under test here, and its TLS costs several times as
// much in that build. It has its own tests (provider_faults.test.mjs).
const { SLUICE_RELEASE_BIN, SLUICE_PROVIDER_BIN } = process.env;
const providerBin = SLUICE_RELEASE_BIN ? `${SLUICE_RELEASE_BIN}-provider` : SLUICE_PROVIDER_BIN;
const catalogDir = new URL('catalog', import.meta.url).pathname;
const START_MS = 180_000;
// A Citus cluster instead of a single PostgreSQL, unless the test asks for the latter.
const isSharded = process.env.SLUICE_CITUS_BIN !== undefined;
// A data folder to copy, made with initdb and `sluice migrate` (tests/cluster.sh).
const made = process.env.SLUICE_TEST_CLUSTER;

export const credentials = {
  gmail: { access_token: 'ya29.demo-gmail-full' },
  notion: { access_token: 'ntn_demo_notion' },
  probe: { token: 'ya29.demo-gmail-full' },
};

// The user to run PostgreSQL as, since it refuses to run as root.
async function databaseUser() {
  if (process.getuid() !== 0) return {};
  const id = async (flag) => Number(await must('id', [flag, 'postgres']));
  return { uid: await id('-u'), gid: await id('-g') };
}

async function databasePrograms() {
  const root = '/usr/lib/postgresql';
  const versions = (await readdir(root)).map(Number).sort((a, b) => b - a);
  const version = versions.find((one) => existsSync(`${root}/${one}/bin/initdb`));
  return `${root}/${version}/bin`;
}

export class Cluster {
  static async start(dir, settings = {}) {
    const cluster = new this();
    cluster.user = await databaseUser();
    cluster.bin = await databasePrograms();
    cluster.home = join(dir, 'pg');
    cluster.settings = settings;
    await mkdir(cluster.home, { mode: 0o700 });
    if (cluster.user.uid !== undefined) {
      await chmod(dir, 0o711);
      await chown(cluster.home, cluster.user.uid, cluster.user.gid);
    }
    if (made) await must('cp', ['-a', '--sparse=always', `${made}/.`, cluster.home]);
    else await cluster.make();
    await cluster.up();
    if (!made) await cluster.sql('create database sluice', 'postgres');
    return cluster;
  }

  make() {
    const args = ['-D', this.home, '-U', 'sluice', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    return must(join(this.bin, 'initdb'), args, this.user);
  }

  get url() {
    return `host=${this.home} user=sluice dbname=sluice`;
  }

  async up() {
    const settings = { listen_addresses: '', max_connections: 60, log_min_messages: 'warning', ...this.settings };
    const args = ['-D', this.home, '-k', this.home];
    for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`);
    this.server = new Running(join(this.bin, 'postgres'), args, this.user);
    await until(
      'PostgreSQL answers',
      async () => {
        this.server.check();
        const answer = await this.psql('select 1', 'postgres');
        return answer.code === 0;
      },
      START_MS,
    );
  }

  // Stops like `pg_ctl stop -m`: smart, fast or immediate (without a checkpoint, so the next start
  // runs a recovery).
  async down(mode = 'fast') {
    await this.server.stop({ smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' }[mode]);
  }

  async nodeOf() {} // the node of an account; here there is only one

  async outage() {
    await this.down('immediate');
    await this.up();
  }

  psql(text, database = 'sluice') {
    return query({ path: join(this.home, '.s.PGSQL.5432') }, 'sluice', database, text);
  }

  sql(text, database) {
    return printed(text, () => this.psql(text, database));
  }

  // {table, node}: the location of an account's rows of a table, as arguments of psql and sql.
  async shardOf(table) {
    return { table };
  }

  dump() {
    return must(join(this.bin, 'pg_dump'), ['-h', this.home, '-U', 'sluice', 'sluice']);
  }
}

export class Provider {
  static async start(dir, { tokens = [] } = {}) {
    const home = join(dir, 'provider');
    await mkdir(home, { recursive: true });
    const ready = join(home, 'ready.json');
    await rm(ready, { force: true });
    const provider = new Provider();
    const args = ['--port', '0', '--data', home, '--ready-file', ready];
    provider.process = new Running(providerBin, [...args, ...tokens.flatMap((token) => ['--token', token])]);
    await until(
      'the provider is ready',
      () => {
        provider.process.check();
        return existsSync(ready);
      },
      START_MS,
    );
    const info = JSON.parse(await readFile(ready, 'utf8'));
    provider.url = info.url;
    provider.caFile = info.ca_file;
    provider.taskParent = info.task_parent;
    provider.ca = await readFile(info.ca_file);
    return provider;
  }

  control(method, path, body) {
    return control(this.url, this.ca, method, path, body);
  }

  async ledger() {
    return (await this.control('GET', '/ledger')).entries;
  }

  faults(rules) {
    return this.control('PUT', '/faults', { rules });
  }
}

// A running `sluice serve`.
export class Server {
  constructor(process, info) {
    this.process = process;
    this.base = info.base_url;
    this.port = Number(new URL(info.base_url).port);
  }

  get log() {
    return this.process.log;
  }

  async call(key, method, path, body, headers) {
    try {
      return await call(this.base, key, method, path, body, headers);
    } catch (error) {
      throw await this.process.explain(error);
    }
  }

  execute(key, integration_id, action_id, input, more = {}) {
    return this.call(key, 'POST', '/api/executions', { integration_id, action_id, input, ...more });
  }

  async metrics() {
    return (await fetch(`${this.base}/metrics`)).text();
  }

  stop(signal) {
    return this.process.stop(signal);
  }
}

export class Stack {
  // options: postgres (settings of the cluster), cluster (its class), isSharded, provider (false:
  // none), tokens (APP=TOKEN: further tokens that the provider accepts), catalog (false: only the
  // built-in apps, without `probe`; a sanitized server then starts in a fifth of the CPU time,
  // since it checks and packs nothing)
  static async start(options = {}) {
    const stack = new Stack();
    stack.catalogDir = options.catalog === false ? '' : catalogDir;
    stack.isSharded = options.isSharded ?? isSharded;
    stack.dir = await makeFolder();
    stack.servers = [];
    stack.started = 0;
    try {
      // These tests are not about power failures or the speed of a disk.
      const settings = { fsync: 'off', ...options.postgres };
      stack.cluster = stack.isSharded ? await CitusCluster.start(stack.dir, settings, await databaseUser()) : await (options.cluster ?? Cluster).start(stack.dir, settings);
      if (options.provider !== false) stack.provider = await Provider.start(stack.dir, options);
      stack.masterKeyFile = join(stack.dir, 'master.key');
      await writeFile(stack.masterKeyFile, await stack.must(['keys', 'master']), { mode: 0o600 });
      await stack.must(['migrate', ...(stack.isSharded ? ['--citus', '--shards', '8'] : [])]);
    } catch (error) {
      await stack.stop();
      throw error;
    }
    return stack;
  }

  get env() {
    return {
      DATABASE_URL: this.cluster.url,
      SLUICE_MASTER_KEY_FILE: this.masterKeyFile,
      SLUICE_CATALOG: this.catalogDir,
    };
  }

  // Runs an operator command: {code, stdout, stderr}.
  sluice(args, options = {}) {
    return run(options.bin ?? sluiceBin, args, { ...options, env: { ...this.env, ...options.env } });
  }

  must(args, options = {}) {
    return must(options.bin ?? sluiceBin, args, { ...options, env: { ...this.env, ...options.env } });
  }

  // Like must, with the release build, for preparations. Tests run hundreds of these commands, and
  // the sanitized build takes three to eight times as long. integration/test_commands.c tests the
  // commands themselves.
  prepare(args, options) {
    return this.must(args, { bin: process.env.SLUICE_RELEASE_BIN, ...options });
  }

  // {id, key}: an account with a key and connections
  async account(name, { apps = Object.keys(credentials).filter((app) => this.catalogDir || app !== 'probe'), key = [] } = {}) {
    const { account_id: id } = JSON.parse(await this.prepare(['accounts', 'create', name, '--again', '--json']));
    for (const app of apps) await this.connect(id, app, credentials[app]);
    return { id, key: await this.key(id, key) };
  }

  async key(account, args = [], options = {}) {
    return (await this.prepare(['keys', 'create', account, ...args], options)).trim();
  }

  // options: env, bin
  async connect(account, app, credential, args = [], options = {}) {
    const text = await this.prepare(['connections', 'add', account, app, '--credential-file', '-', '--json', ...args], {
      ...options,
      // a built-in app needs none
      env: { ...(app === 'probe' ? {} : { SLUICE_CATALOG: '' }), ...options.env },
      input: JSON.stringify(credential),
    });
    return JSON.parse(text).id;
  }

  // options: args, env, bin, provider (the address that calls go to; this stack's own by default)
  async serve(options = {}) {
    const ready = join(this.dir, `ready-${++this.started}.json`);
    const args = ['serve', '--listen', '127.0.0.1:0', '--ready-file', ready];
    const target = options.provider ?? this.provider;
    if (target) {
      args.push('--ca-file', target.caFile);
      for (const origin of ['https://gmail.googleapis.com', 'https://api.notion.com'])
        args.push('--origin-override', `${origin}=${target.url}`);
    }
    const process = new Running(options.bin ?? sluiceBin, [...args, ...(options.args ?? [])], {
      // the emulated provider does not enforce the limits of the manifests, as in `sluice dev`
      env: { ...this.env, ...TURN_LIMITS, SLUICE_CONNECTION_LIMITS: 'off', SLUICE_DRAIN_GRACE: '0', ...(this.isSharded ? { SLUICE_DATABASE_BATCH: 'sharded' } : {}), ...options.env },
    });
    this.servers.push(process);
    await until(
      'sluice serve is ready',
      () => {
        process.check();
        return existsSync(ready);
      },
      START_MS,
    );
    return new Server(process, JSON.parse(await readFile(ready, 'utf8')));
  }

  // Removes a server that is meant to die. The test checks how it ends.
  forget(server) {
    this.servers = this.servers.filter((one) => one !== server.process);
  }

  // Stops everything, and resolves with how each server ended, which the caller checks.
  async stop() {
    const ends = await Promise.all((this.servers ?? []).map(async (one) => ({ ...(await one.stop()), log: one.log })));
    await this.provider?.process.stop();
    if (this.cluster?.server?.isRunning) await this.cluster.down('immediate');
    await removeFolder(this.dir);
    return ends;
  }

  // Like stop, and checks that every server ended well: exit code 0 means that no sanitizer
  // reported anything and no turn of the loop was too long.
  async stopWell(assert) {
    for (const end of await this.stop()) assert.deepEqual([end.code, end.signal], [0, null], end.log.slice(-30000));
  }
}
