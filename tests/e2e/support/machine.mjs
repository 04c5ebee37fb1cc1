// How much processor time a virtual machine gets from its host, and what fresh memory costs there.
import { readFile } from 'node:fs/promises';

// Processor time of all processors since the machine's start, in ticks: the total, the idle time,
// and the time that the host gave to others while this machine needed it.
async function ticks() {
  const [, ...counts] = (await readFile('/proc/stat', 'utf8')).split('\n')[0].split(/\s+/).map(Number);
  return { all: counts.slice(0, 8).reduce((sum, one) => sum + one, 0), idle: counts[3] + counts[4], stolen: counts[7] };
}

// Runs fn; resolves with {result, idle, stolen}, the latter two as shares of the processors' time.
export async function whileCounting(fn) {
  const before = await ticks();
  const result = await fn();
  const after = await ticks();
  const share = (what) => (after[what] - before[what]) / (after.all - before.all);
  return { result, idle: share('idle'), stolen: share('stolen') };
}

const TURN_CPU_MS_MAX = 50;
const FRESH_BYTES = 64 * 1024 * 1024; // malloc maps new pages for each block of this size

// The CPU time that a turn of the loop may take, in ms: 50, and more where fresh memory is
// expensive. The first write to a page takes less than 1 us on most machines, and 12 us and more
// under a hypervisor that emulates page tables. A turn that handles a reply of 7 MB writes it to
// fresh memory several times, mostly in libpq, and took up to 125 ms there. So the limit is the time
// that writing FRESH_BYTES takes at this moment, if that is longer.
export function turnCpuMsMax() {
  const before = process.cpuUsage();
  Buffer.allocUnsafeSlow(FRESH_BYTES).fill(1);
  const { user, system } = process.cpuUsage(before);
  return Math.max(TURN_CPU_MS_MAX, (user + system) / 1000);
}
