// Creates a daily partition for a past day, as a server would have done then, in a table that is
// partitioned by id.
export async function makePartition({ cluster }, table, at) {
  const date = new Date(at).toISOString().slice(0, 10);
  const part = `sluice.${table}_${date.replaceAll('-', '')}`;
  await cluster.sql(`create table if not exists ${part} (like sluice.${table} including all)`);
  await cluster.sql(`alter table sluice.${table} attach partition ${part} for values from (sluice.uuid_floor('${date}')) to (sluice.uuid_floor(date '${date}' + 1))`);
}
