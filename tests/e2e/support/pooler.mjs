// PgBouncer in session mode in front of a PostgreSQL.
import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from './client.mjs';
import { Running, freePort, run } from './process.mjs';
import { Cluster } from './stack.mjs';

export class Pooler {
  // user: {uid, gid} to run as (not root), or {}; target: "host=... port=..."
  static async start(dir, user, target) {
    const pooler = new Pooler();
    Object.assign(pooler, { user, home: join(dir, 'pooler'), port: await freePort() });
    await mkdir(pooler.home);
    await writeFile(join(pooler.home, 'users'), '"sluice" ""\n');
    await pooler.point(target);
    if (user.uid !== undefined) await chown(pooler.home, user.uid, user.gid);
    await pooler.up();
    return pooler;
  }

  get url() {
    return `host=127.0.0.1 port=${this.port} user=sluice dbname=sluice`;
  }

  // Sets the target of its connections, which applies from the next start or reload().
  point(target) {
    const lines = ['[databases]', `sluice = ${target}`, '[pgbouncer]', 'pool_mode = session', 'auth_type = trust'];
    lines.push(`auth_file = ${join(this.home, 'users')}`, 'listen_addr = 127.0.0.1', `listen_port = ${this.port}`);
    lines.push('unix_socket_dir =', 'default_pool_size = 100', 'server_login_retry = 1', 'admin_users = sluice');
    return writeFile(join(this.home, 'pgbouncer.ini'), lines.join('\n'));
  }

  reload() {
    this.process.kill('SIGHUP');
  }

  async up() {
    this.process = new Running('/usr/sbin/pgbouncer', [join(this.home, 'pgbouncer.ini')], this.user);
    const args = ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'sluice', '-d', 'pgbouncer', '-c', 'show version'];
    await until('PgBouncer answers', async () => {
      this.process.check();
      return (await run('psql', args)).code === 0;
    });
  }

  stop(signal = 'SIGINT') {
    return this.process.stop(signal);
  }
}

// A PostgreSQL whose clients connect through PgBouncer. sql() connects directly.
export class PooledCluster extends Cluster {
  static async start(dir, settings) {
    const cluster = await super.start(dir, settings);
    cluster.pooler = await Pooler.start(dir, cluster.user, `host=${cluster.home} dbname=sluice`);
    return cluster;
  }

  get url() {
    return this.pooler.url;
  }

  async down(mode) {
    await super.down(mode);
    await this.pooler.stop();
  }
}
