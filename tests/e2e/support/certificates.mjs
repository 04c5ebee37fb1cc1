// Invalid certificates of every kind, made with openssl. Each has exactly one fault.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { must } from './process.mjs';

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
const SAN = 'subjectAltName=DNS:localhost,IP:127.0.0.1';
const day = (days) => new Date(Date.now() + days * 86_400_000).toISOString().replace(/[-T:]|\.\d+/g, '');

const kinds = {
  good: {},
  expired: { from: day(-30), to: day(-1) },
  not_yet: { from: day(2), to: day(30) },
  other_ca: { by: 'other' },
  self_signed: { by: 'itself' },
  wrong_host: { san: 'subjectAltName=DNS:localhost.example.com,DNS:*.localhost,IP:127.0.0.2' },
  no_host: { san: 'basicConstraints=CA:FALSE' },
  client_only: { more: 'extendedKeyUsage=clientAuth' },
};

async function makeCa(at, name) {
  await must('openssl', ['req', '-x509', ...EC, '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`), '-days', '2',
    '-subj', `/CN=sluice tests ${name}`, '-addext', 'keyUsage=critical,keyCertSign']);
}

async function makeLeaf(at, name, { from = day(-1), to = day(2), by = 'ca', san = SAN, more = '' }) {
  if (by === 'itself') {
    await must('openssl', ['req', '-x509', ...EC, '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`), '-days', '2',
      '-subj', '/CN=localhost', '-addext', san]);
    return;
  }
  await must('openssl', ['req', ...EC, '-keyout', at(`${name}.key`), '-out', at(`${name}.csr`), '-subj', '/CN=localhost']);
  await writeFile(at(`${name}.index`), '');
  await writeFile(
    at(`${name}.cnf`),
    `[ca]\ndefault_ca=a\n[a]\ndatabase=${at(`${name}.index`)}\nnew_certs_dir=${at('')}\nrand_serial=yes\n` +
      `default_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n[e]\n${san}\n${more}\n`,
  );
  await must('openssl', ['ca', '-batch', '-notext', '-config', at(`${name}.cnf`), '-cert', at(`${by}.pem`), '-keyfile', at(`${by}.key`),
    '-in', at(`${name}.csr`), '-out', at(`${name}.pem`), '-startdate', from, '-enddate', to, '-extensions', 'e']);
}

// {caFile, good: {cert, key, certFile, keyFile}, expired: ...}: all are for localhost and signed by
// the CA in caFile, unless that is the fault.
export async function makeBadCertificates(dir) {
  const folder = join(dir, 'certificates');
  await mkdir(folder, { recursive: true });
  const at = (name) => join(folder, name);
  await makeCa(at, 'ca');
  await makeCa(at, 'other');
  const made = { caFile: at('ca.pem') };
  for (const [name, kind] of Object.entries(kinds)) {
    await makeLeaf(at, name, kind);
    made[name] = {
      cert: await readFile(at(`${name}.pem`)),
      key: await readFile(at(`${name}.key`)),
      certFile: at(`${name}.pem`),
      keyFile: at(`${name}.key`),
    };
  }
  return made;
}
