// `make bench-peers`: what measure.mjs measures, as a table; writes build/bench/peers.json.
//
//   node bench/peers/peers.mjs [--repetitions N] [--seconds S]
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Stage, root } from '../suite/stage.mjs';
import { measurePeers } from './measure.mjs';

const options = { repetitions: 5, seconds: 5, warmup: 2, out: join(root, 'build/bench') };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = Number(process.argv[i + 1]);

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const stage = await Stage.start(options);
try {
  const samples = [];
  for (let i = 1; i <= options.repetitions; i++) {
    process.stderr.write(`\r\x1b[K${i} of ${options.repetitions}`);
    samples.push(await measurePeers(stage));
  }
  process.stderr.write('\r\x1b[K');
  const ratio = (name, field) => median(samples.map((one) => one.sluice[field] / one[name][field]));
  const rows = ['sluice', 'dbos', 'restate'].map((name) => ({
    name,
    per_second: median(samples.map((one) => one[name].per_second)),
    alone_ms_p50: median(samples.map((one) => one[name].alone_ms_p50)),
    sluice_times_faster: ratio(name, 'per_second'),
    sluice_alone_ratio: ratio(name, 'alone_ms_p50'),
    repetitions: options.repetitions,
  }));
  await writeFile(join(options.out, 'peers.json'), `${JSON.stringify(rows, null, 1)}\n`);
  console.log('three-step flow     flows/s   alone p50   sluice: times as many, of its time alone');
  for (const row of rows)
    console.log(`${row.name.padEnd(16)}${row.per_second.toFixed(0).padStart(11)}${row.alone_ms_p50.toFixed(2).padStart(9)} ms${row.sluice_times_faster.toFixed(1).padStart(10)} x${row.sluice_alone_ratio.toFixed(2).padStart(12)}`);
} finally {
  await stage.stop();
}
