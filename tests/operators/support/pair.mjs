// A primary and its synchronous standby on loopback ports, promoted by an operator or by Patroni.
import { chmod, chown, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../../e2e/support/client.mjs';
import { Pooler } from '../../e2e/support/pooler.mjs';
import { printed } from '../../e2e/support/postgres.mjs';
import { Running, freePort, must, run } from '../../e2e/support/process.mjs';

const root = '/usr/lib/postgresql';

// Shared by both: the nodes' addresses, and queries to one of them.
class Nodes {
  names = ['a', 'b'];
  nodes = {};

  async prepare(dir, settings) {
    const id = async (flag) => Number(await must('id', [flag, 'postgres']));
    const version = (await readdir(root)).map(Number).sort((one, other) => other - one)[0];
    // PostgreSQL refuses to run as root
    this.user = process.getuid() === 0 ? { uid: await id('-u'), gid: await id('-g') } : {};
    Object.assign(this, { settings, bin: join(root, String(version), 'bin'), home: join(dir, 'pg'), port: await freePort(5) });
    await mkdir(this.home, { mode: 0o700 });
    if (this.user.uid === undefined) return;
    await chmod(dir, 0o711);
    await chown(this.home, this.user.uid, this.user.gid);
  }

  portOf(name) {
    return this.port + this.names.indexOf(name);
  }

  other(name) {
    return this.names.find((one) => one !== name);
  }

  get url() {
    const ports = this.names.map((name) => this.portOf(name));
    return `host=127.0.0.1,127.0.0.1 port=${ports} user=sluice dbname=sluice target_session_attrs=read-write`;
  }

  // A node that accepts writes, or undefined while there is none.
  async findPrimary() {
    for (const name of this.names)
      if ((await this.psql('select pg_is_in_recovery()', 'postgres', name)).stdout.trim() === 'f') return name;
  }

  psql(text, database = 'sluice', name = this.primary) {
    const args = ['-h', '127.0.0.1', '-p', String(this.portOf(name)), '-U', 'sluice', '-d', database];
    return run(join(this.bin, 'psql'), [...args, '-XAtq', '-v', 'ON_ERROR_STOP=1', '-c', text]);
  }

  sql(text, database, name) {
    return printed(text, () => this.psql(text, database, name));
  }

  // Waits until a commit is acknowledged only after both nodes have it.
  isSynchronous() {
    return until('the standby is synchronous', async () => {
      const state = await this.psql('select sync_state from pg_stat_replication', 'postgres');
      return state.stdout.trim() === 'sync';
    });
  }
}

export class Pair extends Nodes {
  static async start(dir, settings) {
    const pair = new this();
    await pair.prepare(dir, settings);
    pair.primary = 'a';
    const args = ['-D', join(pair.home, 'a'), '-U', 'sluice', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await must(join(pair.bin, 'initdb'), args, pair.user);
    await pair.up('a');
    await pair.sql('create database sluice', 'postgres');
    await pair.follow('b');
    return pair;
  }

  get server() {
    return this.nodes[this.primary];
  }

  async up(name) {
    const settings = { listen_addresses: '127.0.0.1', port: this.portOf(name), log_min_messages: 'error', ...this.settings };
    const args = ['-D', join(this.home, name), '-k', ''];
    for (const [key, value] of Object.entries(settings)) args.push('-c', `${key}=${value}`);
    this.nodes[name] = new Running(join(this.bin, 'postgres'), args, this.user);
    await until(`${name} answers`, async () => {
      this.nodes[name].check();
      return (await this.psql('select 1', 'postgres', name)).code === 0;
    });
  }

  // Makes a standby as a copy of the primary, and waits until it streams the primary's changes.
  async follow(name) {
    const data = join(this.home, name);
    await rm(data, { recursive: true, force: true });
    const from = ['-h', '127.0.0.1', '-p', String(this.portOf(this.primary)), '-U', 'sluice'];
    await must(join(this.bin, 'pg_basebackup'), [...from, '-D', data, '-X', 'stream', '-R', '-c', 'fast', '--no-sync'], this.user);
    await this.up(name);
    await this.sql(`alter system set synchronous_standby_names = '*'`, 'postgres');
    await this.sql('select pg_reload_conf()', 'postgres');
    await this.isSynchronous();
  }

  async promote(name) {
    await this.sql('select pg_promote()', 'postgres', name);
    this.primary = name;
  }

  async down() {
    await Promise.all(this.names.map((name) => this.nodes[name].stop('SIGQUIT')));
  }
}

// A pair whose clients connect through PgBouncer, which knows only the primary.
export class PooledPair extends Pair {
  static async start(dir, settings) {
    const pair = await super.start(dir, settings);
    pair.pooler = await Pooler.start(dir, pair.user, pair.target);
    return pair;
  }

  get target() {
    return `host=127.0.0.1 port=${this.portOf(this.primary)}`;
  }

  get url() {
    return this.pooler.url;
  }

  async promote(name) {
    await super.promote(name);
    await this.pooler.point(this.target);
    this.pooler.reload();
  }

  async down() {
    await super.down();
    await this.pooler.stop();
  }
}

// Two nodes of Patroni, and the etcd that stores its leader.
export class Patroni extends Nodes {
  static async start(dir, settings) {
    const patroni = new this();
    await patroni.prepare(dir, settings);
    const [client, peer] = [patroni.port + 4, patroni.port + 5].map((port) => `http://127.0.0.1:${port}`);
    const args = ['--data-dir', join(patroni.home, 'etcd'), '--listen-client-urls', client, '--advertise-client-urls', client];
    args.push('--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`);
    patroni.etcd = new Running('/usr/bin/etcd', args, patroni.user);
    for (const name of patroni.names) {
      await patroni.up(name);
      await until(`${name} answers`, async () => (await patroni.psql('select 1', 'postgres', name)).code === 0);
      patroni.primary ??= name;
    }
    await patroni.isSynchronous();
    await patroni.sql('create database sluice', 'postgres');
    return patroni;
  }

  get server() {
    return this.etcd;
  }

  fileOf(name) {
    return join(this.home, `${name}.yml`);
  }

  // Starts a node of Patroni. Its settings are JSON, which is also YAML.
  async up(name) {
    const at = (port) => ({ listen: `127.0.0.1:${port}`, connect_address: `127.0.0.1:${port}` });
    const hba = ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'];
    const settings = {
      scope: 'sluice',
      name,
      restapi: at(this.portOf(name) + 2),
      etcd3: { host: `127.0.0.1:${this.port + 4}` },
      bootstrap: {
        dcs: { ttl: 20, loop_wait: 1, retry_timeout: 3, synchronous_mode: true, postgresql: { use_pg_rewind: true, parameters: this.settings } },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'no-sync'],
        pg_hba: hba,
      },
      postgresql: {
        ...at(this.portOf(name)),
        data_dir: join(this.home, name),
        bin_dir: this.bin,
        pgpass: join(this.home, `${name}.pass`),
        authentication: { superuser: { username: 'sluice' }, replication: { username: 'sluice' }, rewind: { username: 'sluice' } },
        parameters: { unix_socket_directories: '' },
        pg_hba: hba,
      },
    };
    await writeFile(this.fileOf(name), JSON.stringify(settings));
    this.nodes[name] = new Running('/usr/bin/patroni', [this.fileOf(name)], { ...this.user, cwd: this.home });
  }

  // Kills the node's agent and postmaster together, as if the machine died.
  async kill(name) {
    const pid = (await must('head', ['-1', join(this.home, name, 'postmaster.pid')])).trim();
    this.nodes[name].kill('SIGKILL');
    process.kill(Number(pid), 'SIGKILL');
    await this.nodes[name].gone;
  }

  async isPromoted(name) {
    await until(`${name} is promoted`, async () => (await this.findPrimary()) === name);
    this.primary = name;
  }

  // Patroni refuses a candidate that it does not yet know to be synchronous, so this retries.
  async switchOver(name) {
    const args = ['-c', this.fileOf(name), 'switchover', 'sluice', '--master', this.primary, '--candidate', name, '--force'];
    await until(`${name} is switched over to`, async () => {
      const { stdout } = await run('/usr/bin/patronictl', args, { ...this.user, cwd: this.home });
      return stdout.includes('Successfully switched over');
    });
  }

  async down() {
    await Promise.all(this.names.map((name) => this.nodes[name].stop('SIGTERM')));
    await this.etcd.stop();
  }
}
