// The rows of accounts and of their users, in whatever table they are.

export const tablesOfAccounts = async (stack) =>
  (await stack.cluster.sql(`select relname from pg_class c where relnamespace = 'sluice'::regnamespace and relkind in ('r', 'p') and not relispartition and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'account_id') order by 1`)).split('\n');

// How many rows of these owners each table has, of the tables that have any.
export async function rowsOf(stack, ...ids) {
  const counts = (await tablesOfAccounts(stack)).map((table) => `select '${table} ' || count(*) from sluice.${table} where account_id in (${ids.map((id) => `'${id}'`)}) having count(*) > 0`);
  return (await stack.cluster.sql(counts.join(' union all '))).split('\n').filter(Boolean).sort();
}

// Whether rows are left that a server would continue by itself.
export const isRunning = (rows) => rows.some((row) => /^(flow|connect_session) /.test(row));
