// Two workers against one. Both servers run at once and are loaded alternately, in short slices, so
// that time that the machine loses to others (a virtual machine's stolen time) affects both alike.
// The note of the ratio has each process's share of the processor, since that is what limits it.
//
// On one machine's cores the load and PostgreSQL take what the workers could use: beside one worker
// they have a core for themselves, beside two workers they compete with them. So there are two
// figures: without restrictions, and with one core per worker. In the latter, one worker shares a
// core with load and database, and two workers share two cores with them: the gain of one more core
// and worker.
import { readFile, readdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { must } from '../../tests/e2e/support/process.mjs';

const ORDER = [1, 2, 2, 1];
const START_S = 0.4; // until the load has begun
const TICKS_PER_S = 100; // of /proc, on Linux

async function stat(pid) {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null); // it may have ended
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields && { parent: Number(fields[1]), cpu_s: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S };
}

// A process and its children: {pid: processor seconds}.
export async function family(pid) {
  const found = new Map();
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const one = await stat(name);
    if (one && (Number(name) === pid || one.parent === pid)) found.set(Number(name), one.cpu_s);
  }
  return found;
}

export const rises = (before, after) => [...after].map(([pid, cpu_s]) => cpu_s - (before.get(pid) ?? 0));
export const sum = (values) => values.reduce((all, one) => all + one, 0);

async function coresAllowed() {
  const list = /^Cpus_allowed_list:\s+(\S+)/m.exec(await readFile('/proc/self/status', 'utf8'))[1];
  return list.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

async function confine(pids, cores) {
  for (const pid of pids) await must('taskset', ['-acp', cores.join(','), String(pid)]);
}

// One slice: the rate, and the share of a core that each process used.
async function slice(stage, server, scenario, cores) {
  const database = stage.stack.cluster.server.pid;
  if (cores) await confine([...(await family(server.process.pid)).keys(), ...(await family(database)).keys()], cores);
  const seconds = Math.ceil(stage.options.seconds / 2);
  const loading = stage.load(scenario, { server, cores, seconds, name: 'workers' });
  await pause((stage.options.warmup + START_S) * 1000); // the shares are of the measured time
  const before = [await family(server.process.pid), await family(database)];
  const begun = process.hrtime.bigint();
  await pause((seconds - START_S) * 1000);
  const after = [await family(server.process.pid), await family(database)];
  const passed_s = Number(process.hrtime.bigint() - begun) / 1e9;
  const report = await loading;
  const workers = rises(before[0], after[0]).filter((one) => one > 0.01 * passed_s).sort((a, b) => b - a);
  return { rate: report.per_second, workers: workers.map((one) => one / passed_s), database: sum(rises(before[1], after[1])) / passed_s, load: report.load_cpu };
}

const percent = (share) => `${Math.round(100 * share)} %`;
function describe(name, slices) {
  const mean = (of) => sum(slices.map(of)) / slices.length;
  const workers = slices[0].workers.map((_, i) => percent(mean((one) => one.workers[i] ?? 0)));
  return `${name} ${Math.round(mean((one) => one.rate)).toLocaleString('en')}/s (${workers.join(' and ')} of a core, database ${percent(mean((one) => one.database))}, load ${percent(mean((one) => one.load))})`;
}

// areConfined: one core per worker, for all processes together.
export async function measureWorkers(stage, scenario, areConfined) {
  const cores = await coresAllowed();
  if (areConfined && cores.length < 2) throw new Error('two cores are needed');
  const slices = { 1: [], 2: [] };
  const servers = {};
  const database = stage.stack.cluster.server.pid;
  try {
    for (const workers of [1, 2]) servers[workers] = await stage.serve({ args: ['--workers', String(workers)] });
    for (const workers of ORDER)
      slices[workers].push(await slice(stage, servers[workers], scenario, areConfined && cores.slice(0, workers)));
  } finally {
    if (areConfined) await confine((await family(database)).keys(), cores);
    for (const server of Object.values(servers)) await stage.end(server);
  }
  const [one, two] = [1, 2].map((workers) => sum(slices[workers].map((each) => each.rate)));
  return { value: two / one, note: `${describe('one', slices[1])}; ${describe('two', slices[2])}` };
}
