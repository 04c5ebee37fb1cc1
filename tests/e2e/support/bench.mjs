// Runs a suite of bench/ with the release programs in a separate folder, so that the test sees the
// files that the suite leaves.
import { chmod, mkdir, readFile, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder, removeFolder, run } from './process.mjs';

const release = (name) => join(dirname(process.env.SLUICE_RELEASE_BIN), name);

export class BenchRun {
  static async prepare(suite) {
    const bench = Object.assign(new BenchRun(), { suite, out: await makeFolder() });
    bench.temporary = join(bench.out, 't');
    await mkdir(bench.temporary);
    for (const dir of [bench.out, bench.temporary]) await chmod(dir, 0o711); // PostgreSQL's user needs to enter it
    return bench;
  }

  run(args, env = {}) {
    return run(process.execPath, [this.suite, ...args, '--out', this.out], {
      env: { SLUICE_BIN: release('sluice'), SLUICE_BENCH_BIN: release('sluice-bench'), SLUICE_PROVIDER_BIN: release('sluice-provider'), TMPDIR: this.temporary, ...env },
    });
  }

  async report(name) {
    return JSON.parse(await readFile(join(this.out, name), 'utf8'));
  }

  left() {
    return readdir(this.temporary);
  }

  remove() {
    return removeFolder(this.out);
  }
}
