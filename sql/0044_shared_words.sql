-- The words of runs that are stored together are in one row of them (store/execution_input.h). `words`,
-- which is indexed, has keys of them from now on, in rows with these columns; rows of the version before
-- have hashes there, and NULL here. That version does not find the runs of this one by words.
alter table sluice.execution_input
    add column own oid[],
    add column marks oid[],
    add column runs bytea;
