-- How long the runs of keys took: calls by duration, as in sluice.tally; '{}' in rows of single users, and
-- NULL in those of the version before. An addition to such a row has the durations of the new runs.
alter table sluice.usage add column buckets bigint[];
