// An attacker. It is a separate process, so that it does not slow the test's own clock, and has the
// lowest priority, since a real attacker has its own processors. attack() below starts it and sends
// its task, {name, ...options}, as the first message. The attacker returns its result when it is
// asked to stop.
import { fork } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';

const NICE = 10;

// Starts an attacker, and resolves with it once its first requests are under way. stop(): {status:
// count}.
export async function attack(name, options) {
  const child = fork(new URL(import.meta.url).pathname, [], { execArgv: [] });
  const messages = [];
  const waiting = [];
  child.on('message', (message) => (waiting.shift() ?? ((one) => messages.push(one)))(message));
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const closed = new Promise((resolve) => child.on('disconnect', resolve)); // after the last message, which may come after "exit"
  const next = () => (messages.length ? messages.shift() : Promise.race([new Promise((resolve) => waiting.push(resolve)), closed.then(() => null)]));
  child.send({ name, ...options });
  if ((await next()) !== 'begun') throw new Error(`the attacker ${name} ended early`);
  return {
    async stop() {
      child.send('stop');
      const counts = await next();
      await ended;
      return counts;
    },
  };
}

// ---- in the process ----

let isOver = false;
const counts = {};
const count = (what) => (counts[what] = (counts[what] ?? 0) + 1);

// Sends the bytes again and again on one connection, and counts the statuses. It skips the replies'
// bodies.
function repeat({ port }, bytes) {
  return new Promise((resolve) => {
    const [, head, body] = /^([\s\S]*?\r\n\r\n)([\s\S]*)$/.exec(bytes);
    const [method, path] = head.split(' ');
    const headers = Object.fromEntries(head.split('\r\n').slice(1).filter(Boolean).map((line) => line.split(': ')));
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const again = () => {
      if (isOver) return resolve();
      const request = http.request({ port, host: '127.0.0.1', method, path, agent, headers }, (reply) => {
        count(reply.statusCode);
        reply.resume();
        reply.on('error', () => setTimeout(again, 20));
        reply.on('end', () => (reply.statusCode === 503 ? setTimeout(again, 20) : again()));
      });
      request.on('error', (error) => {
        count(error.code);
        setTimeout(again, 20);
      });
      request.end(body);
    };
    again();
  });
}

const authorization = (key) => (key ? `Authorization: Bearer ${key}\r\n` : '');
const json = (path, key, body) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\n${authorization(key)}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const get = (path, key) => `GET ${path} HTTP/1.1\r\nHost: x\r\n${authorization(key)}\r\n`;
const many = (number, fn) => Promise.all(Array.from({ length: number }, (_, i) => fn(i)));

const attacks = {
  // requests: [{path, body?, key?}], spread over that many connections
  flood: (o) => many(o.connections, (i) => {
    const { path, body, key = o.key } = o.requests[i % o.requests.length];
    return repeat(o, body === undefined ? get(path, key) : json(path, key, JSON.stringify(body)));
  }),
  // Bodies full of small members
  members: (o) => {
    const member = (i) => `"m${i}":{"a":[1,{"b":null}]}`;
    const parts = [];
    for (let i = 0, bytes = 0; bytes < o.bytes; i++) bytes += parts[parts.push(member(i)) - 1].length + 1;
    const body = `{"integration_id":"big","action_id":"small","input":{${parts.join(',')}}}`;
    return many(o.connections, () => repeat(o, json('/api/executions', o.key, body)));
  },
  // Sends bodies that are refused by their heads: it sends all of a body, and the next request at
  // the first byte of the reply
  unread: (o) => many(o.connections, () => new Promise((resolve) => {
    const text = json(o.requests[0].path, '', 'x'.repeat(o.bytes));
    const again = () => {
      if (isOver) return resolve();
      const socket = net.connect(o.port, '127.0.0.1', () => socket.write(text));
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        count(bytes.toString('latin1', 9, 12));
        socket.destroy();
      });
      socket.on('close', again);
    };
    again();
  })),
  // Sends half a head, byte by byte, and then starts again on a new connection
  halves: (o) => many(o.connections, () => new Promise((resolve) => {
    const again = () => {
      if (isOver) return resolve();
      const socket = net.connect(o.port, '127.0.0.1');
      const text = get(o.requests[0].path, '').slice(0, -4);
      let sent = 0;
      socket.setNoDelay();
      socket.on('error', () => {});
      socket.on('close', again);
      const more = setInterval(() => {
        if (!isOver && sent < text.length) return void socket.write(text[sent++]);
        clearInterval(more);
        count('halves');
        socket.destroy();
      }, 1);
    };
    again();
  })),
  // Sends requests and does not read the replies
  silent: (o) => many(o.connections, () => new Promise((resolve) => {
    const socket = net.connect(o.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.on('close', resolve);
    socket.pause();
    socket.write(get(o.requests[0].path, o.key));
    const look = setInterval(() => {
      if (!isOver) return;
      clearInterval(look);
      socket.destroy();
    }, 50);
  })),
};

if (process.send && process.argv[1] === new URL(import.meta.url).pathname) {
  os.setPriority(NICE);
  const end = () => process.send(counts, () => process.exit());
  process.on('message', async (message) => {
    if (message === 'stop') {
      isOver = true;
      setTimeout(end, 40_000).unref(); // on a busy machine, the replies under way take longer
      return;
    }
    const done = attacks[message.name](message);
    setTimeout(() => process.send('begun'), 200);
    await done;
    end();
  });
}
