// The parts of a measurement: a private PostgreSQL (fsync on), the emulated provider and the server
// on free ports, started like those of the end-to-end tests; sluice-bench; and pgbench.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

export const root = new URL('../..', import.meta.url).pathname;
process.env.SLUICE_BIN ??= join(root, 'build/sluice');
process.env.SLUICE_PROVIDER_BIN ??= join(root, 'build/sluice-provider');
process.env.SLUICE_BENCH_BIN ??= join(root, 'build/sluice-bench');
const { Stack, credentials } = await import('../../tests/e2e/support/stack.mjs');
const { must } = await import('../../tests/e2e/support/process.mjs');
const { startNginx } = await import('../../tests/e2e/support/nginx.mjs');

const taskParent = '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10';

// The scenarios of this folder are not compiled in: they need its catalog.
export const own = (name) => join(root, `bench/suite/scenarios/${name}.json`);

export class Stage {
  // more: further options of the stack, such as isSharded
  static async start(options, more) {
    const stage = new Stage();
    stage.options = options;
    await mkdir(options.out, { recursive: true });
    stage.stack = await Stack.start({ postgres: { fsync: 'on' }, ...more });
    try {
      stage.account = await stage.stack.account('bench', { apps: ['gmail', 'notion'] });
      stage.server = await stage.serve();
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  // Starts another server, with the bench's templates.
  serve({ args = [], catalog = join(root, 'bench/suite/catalog'), ...more } = {}) {
    return this.stack.serve({
      args: ['--catalog', catalog, '--webhook-host', '127.0.0.1', ...args],
      env: { SLUICE_TURN_CPU_MS_MAX: '', SLUICE_CATALOG: '' },
      ...more,
    });
  }

  async end(server) {
    const end = await server.stop();
    this.stack.forget(server);
    if (end.code !== 0) throw new Error(`the server ended with ${end.code ?? end.signal}\n${server.log.slice(-4000)}`);
  }

  // Runs `use` with a separate server.
  async with(options, use) {
    const server = await this.serve(options);
    try {
      return await use(server);
    } finally {
      await this.end(server);
    }
  }

  // A figure whose server failed must not make later figures fail.
  async revive() {
    if (this.server.process.isRunning) return;
    this.stack.forget(this.server);
    this.server = await this.serve();
  }

  // A checkpoint writes the pages that earlier figures have left dirty, so that commits do not wait
  // for these writes.
  async settle() {
    const { cluster } = this.stack;
    for (const node of cluster.names ?? [undefined]) await cluster.sql('checkpoint', 'sluice', node);
    await must('sync', []);
  }

  // Runs sluice-bench once, and returns its report. name: the name of the files that it leaves.
  async load(scenario, { server = this.server, base = server.base, key = this.account.key, connections = 64, rate, ca, seconds, warmup, processes, cores, name } = {}) {
    const json = join(this.options.out, `${name ?? basename(scenario, '.json')}.json`);
    const args = ['--base', base, '--scenario', scenario, '--connections', connections, '--duration', seconds ?? this.options.seconds,
      '--warmup', warmup ?? this.options.warmup, '--json', json, '--html', json.replace(/json$/, 'html'), '--var', `task_parent=${taskParent}`, '--quiet'];
    if (rate) args.push('--rate', rate);
    if (ca) args.push('--ca-file', ca);
    if (processes) args.push('--processes', processes);
    const line = [process.env.SLUICE_BENCH_BIN, ...args.map(String)];
    const [program, ...rest] = cores ? ['taskset', '-c', cores.join(','), ...line] : line;
    await must(program, rest, { env: { SLUICE_KEY: key } });
    return JSON.parse(await readFile(json, 'utf8'));
  }

  // Loads the provider directly, without the server in between.
  get direct() {
    return { base: this.stack.provider.url, ca: this.stack.provider.caFile, key: credentials.gmail.access_token };
  }

  // nginx in between, with kept connections to the provider.
  async proxy() {
    this.nginx ??= await startNginx(this.stack.dir, (port) => `
  access_log off;
  upstream provider { server ${new URL(this.stack.provider.url).host}; keepalive 64; }
  server { listen 127.0.0.1:${port};
    location / { proxy_pass https://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_session_reuse on; } }`);
    return { base: `http://127.0.0.1:${this.nginx.port}`, key: credentials.gmail.access_token };
  }

  sql(text, database) {
    return this.stack.cluster.sql(text, database);
  }

  // B: one execution row per insert and commit, 32 clients, prepared, with an id in sluice's form.
  // action: the action whose row is copied; one execution of it is made if there is none yet.
  async inserts(integration, action, input = {}) {
    const of = `from sluice.execution where integration_id = '${integration}' and action_id = '${action}' and status = 'succeeded' limit 1`;
    if ((await this.sql(`select count(*) from (select 1 ${of}) one`)) === '0') {
      const reply = await this.server.execute(this.account.key, integration, action, input, { confirm: true });
      if (reply.status !== 200) throw new Error(reply.text);
    }
    const row = await this.sql(`select summary ${of}`);
    // a colon before a word would be a variable of pgbench's
    const text = row.replaceAll("'", "''").replaceAll('":', '": ').replaceAll(/:(?=\w)/g, '\\u003a');
    const file = join(this.options.out, 'insert.sql');
    await writeFile(file, `\\set a random(0, 4095)
\\set b random(0, 1000000000000000000)
insert into sluice.execution (account_id, id, integration_id, action_id, status, started_at, finished_at, owner, summary)
values ('${this.account.id}', (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(:a::bigint), 3, '0')
|| '8' || lpad(to_hex(:b::bigint), 15, '0'))::uuid, '${integration}', '${action}', 'succeeded', now(), now(), '${this.account.id}', '${text}');
`);
    const { home, bin } = this.stack.cluster;
    const args = ['-h', home, '-U', 'sluice', '-n', '-M', 'prepared', '-c', '32', '-j', '2', '-f', file, 'sluice'];
    // The time that pgbench takes for its connections is part of -T. If they take all of it, pgbench
    // prints no rate, so it gets twice the time.
    for (let seconds = this.options.seconds; ; seconds *= 2) {
      const said = await must(join(bin, 'pgbench'), ['-T', String(seconds), ...args]);
      const rate = /^tps = ([0-9.]+)/m.exec(said)?.[1];
      if (rate) return Number(rate);
      if (seconds >= 8 * this.options.seconds) throw new Error(`pgbench printed no rate:\n${said}`);
    }
  }

  async stop() {
    await this.nginx?.stop();
    await this.fairness?.stop();
    await this.pages?.stack.stop();
    await this.stack.stop();
  }
}

export const residentKib = async (server) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${server.process.pid}/status`, 'utf8'))[1]);

// The value of a metric with these labels; 0 if it does not exist yet.
export async function metric(server, name) {
  const line = (await server.metrics()).split('\n').find((one) => one.startsWith(`${name} `));
  return line ? Number(line.slice(name.length + 1)) : 0;
}
