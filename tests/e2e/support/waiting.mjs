// Creates many waiting flows as copies of one, since starting them one by one would take too long.

// Creates `count` copies of `model`, a flow that waits for a time. due: SQL of each copy's time,
// where n counts from 1. `batch` distinguishes the copies of different calls. Returns an SQL
// condition that is true for these rows of sluice.flow f.
export async function copies(stack, model, batch, count, due) {
  await stack.cluster.sql(`
    create table made as select n, (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '7000'
      || '8' || lpad(to_hex(${batch}), 3, '0') || lpad(to_hex(n), 12, '0'))::uuid as id, (${due}) as at
    from generate_series(1, ${count}) n;
    insert into sluice.flow (account_id, id, template_key, template_version, trigger_type, status, rev,
      op_token, step_index, attempt, is_begun, adoptions, waiting_for, wake_at, created_at, updated_at)
    select f.account_id, m.id, f.template_key, f.template_version, f.trigger_type, f.status, f.rev,
      gen_random_uuid(), f.step_index, f.attempt, f.is_begun, 0, f.waiting_for, m.at, now(), now()
    from made m join sluice.flow f on f.id = '${model}';
    insert into sluice.flow_doc (account_id, flow_id, input, actor, waiting_input)
    select d.account_id, m.id, json_build_object('until', m.at), d.actor, json_build_object('until', m.at)
    from made m join sluice.flow_doc d on d.flow_id = '${model}';
    drop table made;
    analyze sluice.flow; analyze sluice.flow_doc;`);
  return `substr(f.id::text, 20, 4) = '8${batch.toString(16).padStart(3, '0')}'`;
}

// Copies a flow and its steps under new ids, each a millisecond older than the next.
export async function copyFlow({ cluster }, id, count, first) {
  const fresh = `(lpad(to_hex((extract(epoch from f0.created_at) * 1000)::bigint - n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid`;
  const insert = (table, row, member, more = '') => `insert into sluice.${table} select copy.* from sluice.flow f0, generate_series(${first}, ${first + count - 1}) n, sluice.${table} ${row},
    lateral json_populate_record(${row}, json_build_object('${member}', ${fresh}${more})) copy where f0.id = '${id}' and ${row}.${member} = f0.id;`;
  await cluster.sql(insert('flow_doc', 'd', 'flow_id') + insert('flow_step', 's', 'flow_id', ", 'started_at', s.started_at - n * interval '1 ms', 'finished_at', s.finished_at - n * interval '1 ms'") + insert('flow', 'f', 'id'));
}

// Adds more flows that wait for a decision than one page of a list has.
export async function lengthen({ cluster }, where) {
  await cluster.sql(`update sluice.flow_doc set waiting_input = (left(waiting_input::text, -1) || ',"pad":"' || repeat('x', 20000) || '"}')::json where waiting_input is not null and ${where}`);
}
