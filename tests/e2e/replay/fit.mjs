// Decides whether a recorded request could belong to an action, from the method and path, the
// GraphQL document, and what the action always sends.
import { rootsOf } from './compare.mjs';

const isVersion = (segment) => /^v\d+\.\d+$|^\d{4}-\d{2}$|^v\d+$/.test(segment);

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

// Compares one segment with a segment of a template, in which ${...} is any non-empty text, and
// ${input.x} only what the input_schema allows for x.
function segmentFits(wanted, segment, properties) {
  if (isVersion(wanted) && isVersion(segment)) return true;
  const { pattern, enum: values } = properties[wanted.match(/^\$\{input\.(\w+)\}$/)?.[1]] ?? {};
  if (pattern && !new RegExp(pattern, 'u').test(decoded(segment))) return false;
  if (values && !values.includes(decoded(segment))) return false;
  return new RegExp(`^${wanted.split(/\$\{[^}]*\}/).map(escaped).join('.+')}$`).test(segment);
}

const segmentsOf = (path) => path.replace(/\/+$/, '').split('/');

function pathFits(wanted, path, properties) {
  const [ours, theirs] = [segmentsOf(wanted), segmentsOf(path)];
  return ours.length === theirs.length && ours.every((one, i) => segmentFits(one, theirs[i], properties));
}

// A path without its version, which vendors put in different positions: /crm/v3/objects,
// /crm/objects/2026-03.
const unversioned = (path) => segmentsOf(path).map(decoded).filter((one) => !isVersion(one)).join('/');
export const isSamePath = (ours, recorded, base) => [recorded, base + recorded].some((one) => unversioned(one) === unversioned(ours));

const roots = (text) => rootsOf(text).split(' ').slice(1).join(' ');

export function fits(manifest, action, recording) {
  const { method, path, query = {}, body } = action.request;
  if (method !== recording.method) return false;
  const base = new URL(manifest.base_url.replace(/\$\{[^}]*\}/g, 'x')).pathname.replace(/\/$/, '');
  const prefix = manifest.base_url.replace(/^https:\/\/[^/]*/, '');
  if (![path, prefix + path, base + path].some((one) => pathFits(one, recording.path, action.input_schema.properties ?? {}))) return false;
  if (path.endsWith('/graphql')) return roots(body.json.query) === roots(recording.body?.query ?? '');
  // what the template contains literally
  return Object.entries(query).every(([name, value]) => typeof value !== 'string' || value.includes('${') || recording.query?.[name] === undefined || recording.query[name] === value);
}
