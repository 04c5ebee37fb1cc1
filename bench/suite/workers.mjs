// Two workers against one where the database is not the limit. The load runs on the same cores: of
// one worker it has a core for itself, of two it takes its share from them, so the ratio stays below
// 2 by what a request costs the load (and PostgreSQL) against what it costs the server.
export async function measureWorkers(stage, scenario) {
  const rates = [];
  for (const workers of [1, 2])
    rates.push(await stage.with({ args: ['--workers', String(workers)] }, async (server) => (await stage.load(scenario, { server, name: `workers_${workers}` })).per_second));
  return { value: rates[1] / rates[0] };
}
