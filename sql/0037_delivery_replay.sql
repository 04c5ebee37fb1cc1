-- How many attempts a delivery had when it was last sent again on request; NULL: it was not. Then it has
-- no place in the order of its object's events. The version before waits for it as for any other.
alter table sluice.delivery add column replayed_after bigint;
