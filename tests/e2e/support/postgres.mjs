// Runs one simple query in PostgreSQL, and returns what `psql -At` prints. Starting psql takes five
// times the processor time of the query, and tests repeat queries until a condition is true.
import { createConnection } from 'node:net';

const READY = 'Z'.charCodeAt(0);
const ROW = 'D'.charCodeAt(0);
const ERROR = 'E'.charCodeAt(0);

function message(type, body) {
  const text = Buffer.from(body);
  const head = Buffer.alloc(type.length + 4);
  head.write(type);
  head.writeUInt32BE(text.length + 4, type.length);
  return Buffer.concat([head, text]);
}

// Version 3.0 of the protocol, and parameter names with their values.
const startup = (settings) => message('', `\0\x03\0\0${Object.entries(settings).flat().concat('').map((one) => `${one}\0`).join('')}`);

function rowOf(body) {
  const cells = [];
  for (let at = 2; cells.length < body.readUInt16BE(0); ) {
    const size = body.readInt32BE(at);
    cells.push(body.toString('utf8', at + 4, at + 4 + Math.max(size, 0)));
    at += 4 + Math.max(size, 0);
  }
  return cells.join('|');
}

function errorOf(body) {
  const fields = Object.fromEntries(body.toString().split('\0').map((field) => [field[0], field.slice(1)]));
  return [`${fields.S}:  ${fields.M}`, fields.D, fields.H].filter(Boolean).join('\n');
}

// at: the options of net.connect. Each query opens its own connection, as psql would. Resolves with
// {code, stdout, stderr}: code is 0, 1 if the query failed, or 2 if the connection failed.
export function query(at, user, database, text) {
  return new Promise((resolve) => {
    const rows = [];
    const errors = [];
    let rest = Buffer.alloc(0);
    let readies = 0;
    const socket = createConnection(at);
    const settings = { user, database, application_name: 'psql' };
    socket.on('connect', () => socket.write(startup(settings)));
    socket.on('data', (part) => {
      rest = Buffer.concat([rest, part]);
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        const end = 1 + rest.readUInt32BE(1);
        const [type, body] = [rest[0], rest.subarray(5, end)];
        rest = rest.subarray(end);
        if (type === ROW) rows.push(rowOf(body));
        if (type === ERROR) errors.push(errorOf(body));
        if (type !== READY) continue;
        if (++readies === 1) socket.write(message('Q', `${text}\0`));
        else socket.end(message('X', ''));
      }
    });
    socket.on('error', (error) => errors.push(error.message));
    socket.on('close', () => {
      const code = readies < 2 ? 2 : errors.length > 0 ? 1 : 0;
      resolve({ code, stdout: rows.map((row) => `${row}\n`).join(''), stderr: errors.join('\n') });
    });
  });
}

// Returns what the query of `ask` printed, or throws its error. A test's statement may lock rows in
// another order than a server's batch, so the two may deadlock. PostgreSQL then rolls one of them
// back, and its sender has to send it again. The server does the same with its batches.
export async function printed(text, ask) {
  for (let tries = 1; ; tries++) {
    const answer = await ask();
    if (answer.code === 0) return answer.stdout.trim();
    if (!/^ERROR: .*deadlock/m.test(answer.stderr) || tries === 5) throw new Error(`${text}\n${answer.stderr}`);
  }
}
