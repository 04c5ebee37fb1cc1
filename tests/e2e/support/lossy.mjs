// A socket in front of the database's that loses answers: the connection of a request that has the
// text is closed when the database has answered it, so the change is made, and the server does not
// know that. It also loses all notifications, so what a server has cached it can only drop by itself.
import { chmod, mkdir } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';

const NAME = '.s.PGSQL.5432';
const DONE = Buffer.from('Z\0\0\0\x05I'); // ready, outside of a transaction

export class Lossy {
  static async start({ dir, cluster }) {
    const lossy = new Lossy();
    lossy.home = join(dir, 'lossy');
    lossy.lost = 0;
    lossy.sockets = new Set();
    await mkdir(lossy.home);
    lossy.server = createServer((client) => lossy.#join(client, createConnection(join(cluster.home, NAME))));
    await new Promise((resolve) => lossy.server.listen(join(lossy.home, NAME), resolve));
    await chmod(lossy.home, 0o755);
    lossy.url = cluster.url.replace(cluster.home, lossy.home);
    return lossy;
  }

  #join(client, database) {
    let isMeant = false, isListener = false, isDeaf = false;
    for (const socket of [client, database]) {
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => [client, database].forEach((one) => one.destroy()));
    }
    client.on('data', (bytes) => {
      isMeant ||= this.text !== undefined && bytes.includes(this.text);
      isListener ||= bytes.includes('listen "');
      database.write(bytes);
    });
    database.on('data', (bytes) => {
      const isDone = bytes.subarray(-DONE.length).equals(DONE);
      if (isDeaf) return;
      if (!isMeant) {
        client.write(bytes);
        isDeaf = isListener && isDone;
      } else if (isDone) {
        this.text = undefined;
        this.lost++;
        client.destroy();
      }
    });
  }

  stop() {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}
