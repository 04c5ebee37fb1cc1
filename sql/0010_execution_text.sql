-- A summary is text that the server itself has written: the database need not parse each, which was
-- a fifth of what storing one cost it. Read it as summary::json. The table is written anew, once;
-- a server of the version before reads and writes this column as it did.
alter table sluice.execution alter column summary type text;
do $$
declare
    part regclass;
begin
    for part in select relid from pg_partition_tree('sluice.execution') loop
        execute format('alter table %s alter column summary set compression lz4', part);
    end loop;
exception when feature_not_supported then
    null;
end
$$;
