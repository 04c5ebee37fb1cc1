// A Citus cluster instead of the one PostgreSQL: a coordinator and two workers on loopback ports.
import { chmod, chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from './client.mjs';
import { printed } from './postgres.mjs';
import { Running, freePort, must, run } from './process.mjs';

const START_MS = 180_000;
const bin = process.env.SLUICE_CITUS_BIN;
// Citus refuses to lock a shard that a statement names directly, as the servers' statements do.
const PGOPTIONS = '--client-min-messages=warning --citus.enable_manual_changes_to_shards=on';

export class CitusCluster {
  static async start(dir, settings, user) {
    const cluster = new CitusCluster();
    Object.assign(cluster, { user, bin, settings, home: join(dir, 'pg'), port: await freePort(3), names: ['c', 'w1', 'w2'], servers: {}, ports: {} });
    await mkdir(cluster.home, { mode: 0o700 });
    if (user.uid !== undefined) {
      await chmod(dir, 0o711);
      await chown(cluster.home, user.uid, user.gid);
    }
    await Promise.all(cluster.names.map((name) => cluster.make(name)));
    await cluster.sql(`select citus_set_coordinator_host('127.0.0.1', ${cluster.port})`);
    for (const name of cluster.names.slice(1)) await cluster.join(name);
    return cluster;
  }

  portOf(name) {
    return this.ports[name] ?? this.port + this.names.indexOf(name);
  }

  // The node that has the account's rows.
  async nodeOf(account) {
    const port = await this.sql(
      `select n.nodeport from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid
       where p.shardid = get_shard_id_for_distribution_column('sluice.connection', '${account}')`,
    );
    return this.names.find((name) => this.portOf(name) === Number(port));
  }

  // {table, node}: the shard of a table that has the account's rows. Servers use this name
  // themselves.
  async shardOf(table, account) {
    const id = await this.sql(`select get_shard_id_for_distribution_column('sluice.${table}', '${account}')`);
    return { table: `${table}_${id}`, node: await this.nodeOf(account) };
  }

  // Acts like a standby that replaces a worker: the worker dies, and another address serves its
  // data.
  async readdress(name) {
    const id = await this.sql(`select nodeid from pg_dist_node where nodeport = ${this.portOf(name)}`);
    await this.killOne(name);
    this.ports[name] = await freePort();
    await this.upOne(name);
    await this.sql(`select citus_update_node(${id}, '127.0.0.1', ${this.ports[name]})`);
  }

  // Creates a PostgreSQL that does not yet know of any other.
  async make(name) {
    const args = ['-D', join(this.home, name), '-U', 'sluice', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await must(join(bin, 'initdb'), args, this.user);
    await this.upOne(name);
    // Newer minor versions of PostgreSQL need the list of libraries that may decode. The writes of
    // a split shard are decoded.
    const setting = `from pg_settings where name = 'output_plugin_libraries'`;
    if ((await this.sql(`select count(*) ${setting}`, 'postgres', name)) === '1') {
      const plugins = await this.sql(`select concat_ws(',', nullif(setting, ''), 'citus') ${setting}`, 'postgres', name);
      await this.sql(`alter system set output_plugin_libraries = ${plugins}`, 'postgres', name);
      await this.sql('select pg_reload_conf()', 'postgres', name);
    }
    await this.sql('create database sluice', 'postgres', name);
    await this.sql('create extension citus', 'sluice', name);
  }

  join(name) {
    return this.sql(`select citus_add_node('127.0.0.1', ${this.portOf(name)})`);
  }

  // Adds a worker, for which a port is reserved.
  async add(name) {
    this.names.push(name);
    await this.make(name);
    await this.join(name);
  }

  get url() {
    return `host=127.0.0.1 port=${this.port} user=sluice dbname=sluice`;
  }

  async upOne(name) {
    const settings = {
      listen_addresses: '127.0.0.1',
      port: this.portOf(name),
      shared_preload_libraries: 'citus',
      wal_level: 'logical',
      log_min_messages: 'warning',
      'citus.node_conninfo': 'sslmode=disable',
      'citus.enable_statistics_collection': 'off',
      'citus.recover_2pc_interval': '2s',
      ...this.settings,
      max_connections: 300,
      max_prepared_transactions: 300,
    };
    const args = ['-D', join(this.home, name), '-k', ''];
    for (const [key, value] of Object.entries(settings)) args.push('-c', `${key}=${value}`);
    const begin = () => new Running(join(bin, 'postgres'), args, { ...this.user, env: { HOME: '/nonexistent' } });
    this.servers[name] = begin();
    if (name === 'c') this.server = this.servers.c;
    await until(
      `Citus' ${name} answers`,
      async () => {
        // After a kill -9, the shared memory is in use until the last backend has ended.
        if (!this.servers[name].isRunning && /still in use|lock file/.test(this.servers[name].log)) this.servers[name] = begin();
        this.servers[name].check();
        if (name === 'c') this.server = this.servers.c;
        return (await this.psql('select 1', 'postgres', name)).code === 0;
      },
      START_MS,
    );
  }

  // Kills the postmaster with SIGKILL; its backends notice that and end.
  async killOne(name) {
    await this.servers[name].stop('SIGKILL');
  }

  async up() {
    await Promise.all(this.names.map((name) => this.upOne(name)));
    this.server = this.servers.c;
  }

  async down(mode = 'fast') {
    const signal = { smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' }[mode];
    await Promise.all(this.names.map((name) => this.servers[name].stop(signal)));
  }

  // Stops all nodes, the coordinator, or a worker, in rotation.
  async outage() {
    this.outages = (this.outages ?? -1) + 1;
    const names = [this.names, ['c'], ['w1']][this.outages % 3];
    await Promise.all(names.map((name) => this.killOne(name)));
    await Promise.all(names.map((name) => this.upOne(name)));
  }

  psql(text, database = 'sluice', name = 'c') {
    const port = String(this.portOf(name));
    const args = ['-h', '127.0.0.1', '-p', port, '-U', 'sluice', '-d', database, '-XAtq', '-v', 'ON_ERROR_STOP=1', '-c', text];
    return run(join(bin, 'psql'), args, { env: { PGOPTIONS } });
  }

  sql(text, database, name) {
    return printed(text, () => this.psql(text, database, name));
  }

  dump() {
    return must(join(bin, 'pg_dump'), ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'sluice', 'sluice']);
  }
}
