-- The words by which a run is found, as keyed hashes (vault/words.h), whose key depends on the
-- account: so one index has the words of all accounts apart, and nothing is in clear. NULL in the
-- rows of the version before, which ignores the column. The index is built by one pass over the
-- table, whose rows live for `input-days`, and during which none is written; it gets no entry for
-- the rows that are there. New entries wait in a list, at most a megabyte, which a search reads:
-- together they are added with a quarter of the work.
alter table sluice.execution_input add column words bigint[];
create index execution_input_words on sluice.execution_input using gin (words)
    with (gin_pending_list_limit = 1024) where words is not null;
