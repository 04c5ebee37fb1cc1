// The server's histograms (/metrics).

// Cumulative observations since `before`: [bound, count] of each bucket, by all labels except the
// bound.
function bucketsOf(name, text, before) {
  const buckets = (metrics) =>
    [...metrics.matchAll(new RegExp(`^${name}_bucket\\{(.*?)le="([^"]+)"\\} (\\d+)`, 'gm'))].map(([, labels, bound, count]) => [labels, Number(bound.replace('+Inf', 'Infinity')), Number(count)]);
  const old = new Map(buckets(before).map(([labels, bound, count]) => [`${labels} ${bound}`, count]));
  const found = new Map();
  for (const [labels, bound, count] of buckets(text)) {
    const since = count - (old.get(`${labels} ${bound}`) ?? 0);
    found.set(labels, [...(found.get(labels) ?? []), [bound, since]]);
  }
  return [...found].filter(([, list]) => list.at(-1)[1] > 0).map(([labels, list]) => [labels.match(/route="([^"]+)"/)?.[1] ?? 'all', list]);
}

// The 99th percentile of the observations since `before`, from a histogram's text form,
// interpolated within the bucket. The key is the route, or "all" without a route.
export function p99(name, text, before) {
  const result = {};
  for (const [route, list] of bucketsOf(name, text, before)) {
    const wanted = list.at(-1)[1] * 0.99;
    const at = list.findIndex(([, count]) => count >= wanted);
    const [low, under] = list[at - 1] ?? [0, 0];
    const [high, upTo] = list[at];
    result[route] = low + ((high - low) * (wanted - under)) / (upTo - under);
  }
  return result;
}

// The share of the observations above a bucket's bound, in the same form.
export function shareAbove(name, text, before, bound) {
  return Object.fromEntries(bucketsOf(name, text, before).map(([route, list]) => [route, 1 - list.find(([one]) => one >= bound)[1] / list.at(-1)[1]]));
}
