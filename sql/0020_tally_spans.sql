-- Tallies become rows of hours, of six hours and of days as they grow old (src/store/tally.c). Each
-- index has those that are not yet at the begin of the longer time, which is where they end. The
-- version before folds into hours alone, and reads what it finds as hours.
create index tally_within_6h on sluice.tally (slot)
    where is_hour and date_bin(interval '6 hours', slot, 'epoch') <> slot;
create index tally_within_day on sluice.tally (slot)
    where is_hour and date_bin(interval '1 day', slot, 'epoch') <> slot;
