-- When a call of this kind failed last, and what was said of it: "<16 digits of microseconds> words",
-- so that the newest is the greatest. NULL: it succeeded, or a server of the version before, which
-- neither reads nor writes it, has written all of the row. No check, as it would read every row.
alter table sluice.tally add column last text collate "C";
