// HTTP/1.1 over a plain socket, without a client library, for requests that a real client would not
// send.
import net from 'node:net';

export class Raw {
  // where: {port} or {path} of a Unix socket
  static connect(where) {
    return new Promise((resolve, reject) => {
      const socket = net.connect({ host: '127.0.0.1', allowHalfOpen: true, ...where });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.removeListener('error', reject);
        resolve(new Raw(socket));
      });
    });
  }

  constructor(socket) {
    this.socket = socket;
    this.bytes = Buffer.alloc(0);
    this.parts = [];
    this.hasEnded = false;
    this.error = null;
    this.waiters = [];
    socket.setNoDelay(true);
    socket.on('data', (part) => {
      this.parts.push(part);
      this.wake();
    });
    socket.on('end', () => {
      this.hasEnded = true;
      this.wake();
    });
    socket.on('error', (error) => {
      this.error = error;
      this.wake();
    });
    socket.on('close', () => {
      this.hasEnded = true;
      this.wake();
    });
  }

  wake() {
    const waiters = this.waiters;
    this.waiters = [];
    for (const resolve of waiters) resolve();
  }

  // Everything that has been received.
  get text() {
    if (this.parts.length > 0) {
      this.bytes = Buffer.concat([this.bytes, ...this.parts]);
      this.parts = [];
    }
    return this.bytes.toString('latin1');
  }

  // Resolves once the kernel has the bytes.
  send(data) {
    return new Promise((resolve) => this.socket.write(data, () => resolve()));
  }

  async sendByteByByte(data) {
    const bytes = Buffer.from(data, 'latin1');
    for (let i = 0; i < bytes.length && !this.hasEnded && !this.error; i++) {
      await this.send(bytes.subarray(i, i + 1));
      // the other process may read this byte alone
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  // Resolves with the text once fn(text) is true, and rejects if the peer ends the connection
  // first.
  async until(what, fn) {
    for (;;) {
      const text = this.text;
      if (fn(text)) return text;
      if (this.error) throw new Error(`${what}: ${this.error.message}; got ${JSON.stringify(text.slice(0, 500))}`);
      if (this.hasEnded) throw new Error(`${what}: closed; got ${JSON.stringify(text.slice(0, 500))}`);
      await new Promise((resolve) => this.waiters.push(resolve));
    }
  }

  // Everything up to the peer's FIN. A reset is an error.
  async untilEnd() {
    while (!this.hasEnded && !this.error) await new Promise((resolve) => this.waiters.push(resolve));
    if (this.error) throw this.error;
    return this.text;
  }

  // The next complete reply (with Content-Length or without a body), removed from the received
  // text.
  async reply() {
    let reply;
    await this.until('a reply', (text) => (reply = readReply(text)) !== null);
    this.bytes = this.bytes.subarray(reply.length);
    return reply;
  }

  close() {
    this.socket.destroy();
  }
}

// {status, headers, body, length}, or null while it is incomplete.
export function readReply(text) {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return null;
  const [line, ...fields] = text.slice(0, end).split('\r\n');
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1]);
  const headers = {};
  for (const field of fields) {
    const colon = field.indexOf(':');
    headers[field.slice(0, colon).toLowerCase()] = field.slice(colon + 1).trim();
  }
  const hasBody = status >= 200 && status !== 204 && status !== 304;
  const length = end + 4 + (hasBody ? Number(headers['content-length'] ?? 0) : 0);
  if (text.length < length) return null;
  return { status, headers, body: text.slice(end + 4, length), length };
}

// All replies in a text, in order. Text after the last reply is an error of the server.
export function readReplies(text) {
  const replies = [];
  while (text.length > 0) {
    const reply = readReply(text);
    if (reply === null) throw new Error(`an incomplete reply: ${JSON.stringify(text.slice(0, 300))}`);
    replies.push(reply);
    text = text.slice(reply.length);
  }
  return replies;
}
