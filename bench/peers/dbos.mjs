// DBOS: a workflow of three steps in this process, with its state in PostgreSQL ($DATABASE_HOME is
// a folder of Unix sockets, which DBOS's URLs cannot express).
import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { callProvider, measure } from './call.mjs';

async function threeSteps() {
  let sum = 0;
  for (const name of ['one', 'two', 'three']) sum += await DBOS.runStep(callProvider, { name });
  return sum;
}
const workflow = DBOS.registerWorkflow(threeSteps, { name: 'threeSteps' });

const pool = new pg.Pool({ host: process.env.DATABASE_HOME, user: 'sluice', database: 'dbos', max: 32 });
pool.on('error', () => {});
DBOS.setConfig({ name: 'bench', systemDatabaseUrl: 'postgresql://sluice@localhost/dbos', systemDatabasePool: pool, logLevel: 'error' });
await DBOS.launch();
const figures = await measure(() => workflow(), { seconds: Number(process.env.SECONDS) });
await DBOS.shutdown();
console.log(JSON.stringify(figures));
process.exit(0);
