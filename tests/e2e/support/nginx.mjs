// Debian's nginx as a private reverse proxy, and a local certificate authority made with openssl.
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import net from 'node:net';
import { until } from './client.mjs';
import { Running, freePort, must } from './process.mjs';

// Makes a CA and a certificate for 127.0.0.1 and localhost in dir: {caFile, certFile, keyFile}.
export async function makeCertificates(dir) {
  const at = (name) => join(dir, name);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await writeFile(at('leaf.ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n');
  await must('openssl', ['req', '-x509', ...key, '-keyout', at('ca.key'), '-out', at('ca.pem'), '-days', '2',
    '-subj', '/CN=sluice tests CA', '-addext', 'keyUsage=critical,keyCertSign']);
  await must('openssl', ['req', ...key, '-keyout', at('leaf.key'), '-out', at('leaf.csr'), '-subj', '/CN=localhost']);
  await must('openssl', ['x509', '-req', '-in', at('leaf.csr'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'),
    '-CAcreateserial', '-days', '2', '-extfile', at('leaf.ext'), '-out', at('leaf.pem')]);
  return { caFile: at('ca.pem'), certFile: at('leaf.pem'), keyFile: at('leaf.key') };
}

// http(port): the text inside http {}, with a server that listens on 127.0.0.1:port. The master
// stays in the foreground, so no process is left after a stop.
export async function startNginx(dir, http) {
  const port = await freePort();
  const root = join(dir, `nginx-${port}`);
  await mkdir(root);
  await chmod(root, 0o755);
  await writeFile(
    join(root, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${root}/pid; error_log ${root}/error.log warn;
user ${process.getuid() === 0 ? 'www-data' : 'nobody'}; # words: ok
events { worker_connections 1024; }
http {
  access_log ${root}/access.log;
  client_body_temp_path ${root}/body; proxy_temp_path ${root}/proxy; fastcgi_temp_path ${root}/f;
  uwsgi_temp_path ${root}/u; scgi_temp_path ${root}/s;
  client_max_body_size 16m;
  ${http(port)}
}
`,
  );
  const nginx = new Running('/usr/sbin/nginx', ['-p', root, '-e', `${root}/error.log`, '-c', `${root}/nginx.conf`]);
  nginx.port = port;
  nginx.root = root;
  await until('nginx listens', () => {
    nginx.check();
    return new Promise((resolve) => {
      const socket = net.connect(port, '127.0.0.1');
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
      socket.on('close', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
  });
  return nginx;
}
