// Child processes of the tests: run one to its end, or start one and keep it running.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const EXIT_MS_MAX = 500;
const LAST_LINES = 12;

// Runs a program to its end. It never rejects because of the exit code, which the caller checks.
// options: env (added to ours), input (stdin), uid, gid, cwd
export function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      cwd: options.cwd,
      uid: options.uid,
      gid: options.gid,
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (part) => (stdout += part));
    child.stderr.setEncoding('utf8').on('data', (part) => (stderr += part));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
    if (options.input !== undefined) child.stdin.end(options.input);
  });
}

// Runs a program. Anything except success is an error of the test itself.
export async function must(program, args, options) {
  const end = await run(program, args, options);
  if (end.code !== 0)
    throw new Error(`${program} ${args.join(' ')}: exit ${end.code ?? end.signal}\n${end.stdout}${end.stderr}`);
  return end.stdout;
}

// A process that runs in the background of the test. Its output is in `log`.
export class Running {
  constructor(program, args, options = {}) {
    this.name = program;
    this.log = '';
    this.child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      cwd: options.cwd,
      uid: options.uid,
      gid: options.gid,
    });
    this.gone = new Promise((resolve) => {
      this.child.on('error', (error) => {
        this.log += `\n${error.message}`;
        resolve({ code: null, signal: null });
      });
      this.child.on('close', (code, signal) => resolve({ code, signal }));
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream.setEncoding('utf8').on('data', (part) => (this.log += part));
  }

  get pid() {
    return this.child.pid;
  }

  get isRunning() {
    return this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  kill(signal) {
    this.child.kill(signal);
  }

  // Throws an error with the process's output if it has already ended. Use this inside until().
  check() {
    if (!this.isRunning) throw new Error(`${this.name} ended early:\n${this.log}`);
  }

  // The error to throw for a failed request to the process. If it has died (its exit is noticed a
  // little later than the end of its connections), the message contains its last lines.
  async explain(error) {
    await Promise.race([this.gone, new Promise((resolve) => setTimeout(resolve, EXIT_MS_MAX))]);
    if (this.isRunning) return error;
    const { code, signal } = await this.gone;
    const last = this.log.trimEnd().split('\n').slice(-LAST_LINES).join('\n');
    return new Error(`${error.message}: ${this.name} has ended (${signal ?? `exit status ${code}`}):\n${last}`, { cause: error });
  }

  // Resolves with {code, signal} once it has ended.
  async stop(signal = 'SIGTERM') {
    if (this.isRunning) this.kill(signal);
    return this.gone;
  }
}

// The lines of a log, as objects, without the last line, which may be incomplete.
export const linesOfLog = (log) =>
  log
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

export async function makeFolder() {
  return mkdtemp(join(tmpdir(), 'sluice-e2e-'));
}

export async function removeFolder(dir) {
  await rm(dir, { recursive: true, force: true });
}

const isFree = (port) =>
  new Promise((resolve) => {
    const server = createServer().on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });

// A free port, and `more` free ports after it, for programs that cannot report which port they use,
// and for addresses where nothing may listen. They are below the range that systems assign
// automatically, so none is taken before its use.
export async function freePort(more = 0) {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const all = await Promise.all(Array.from({ length: more + 1 }, (_, i) => isFree(port + i)));
    if (all.every(Boolean)) return port;
  }
}
