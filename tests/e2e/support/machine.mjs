// How much processor time a virtual machine gets from its host.
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
