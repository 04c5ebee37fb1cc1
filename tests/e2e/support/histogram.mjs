// The server's histograms (/metrics).

// What 99 of 100 observations since `before` are below, of a histogram's text form: as far into the
// bucket as its share of them; by route, "all" without one.
export function p99(name, text, before) {
  const buckets = (metrics) =>
    [...metrics.matchAll(new RegExp(`^${name}_bucket\\{(.*?)le="([^"]+)"\\} (\\d+)`, 'gm'))].map(([, labels, bound, count]) => [labels, Number(bound.replace('+Inf', 'Infinity')), Number(count)]);
  const old = new Map(buckets(before).map(([labels, bound, count]) => [`${labels} ${bound}`, count]));
  const found = new Map();
  for (const [labels, bound, count] of buckets(text)) {
    const since = count - (old.get(`${labels} ${bound}`) ?? 0);
    found.set(labels, [...(found.get(labels) ?? []), [bound, since]]);
  }
  const result = {};
  for (const [labels, list] of found) {
    const all = list.at(-1)[1];
    if (all === 0) continue;
    const at = list.findIndex(([, count]) => count >= all * 0.99);
    const [low, under] = list[at - 1] ?? [0, 0];
    const [high, upTo] = list[at];
    result[labels.match(/route="([^"]+)"/)?.[1] ?? 'all'] = low + ((high - low) * (all * 0.99 - under)) / (upTo - under);
  }
  return result;
}
