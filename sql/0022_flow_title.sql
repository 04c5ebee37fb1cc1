-- What a flow does, in words for people: its template's flow_title over its input, made once, when it
-- was started. NULL: its template's name is its title. In the narrow row, since lists read nothing
-- else, and last: an update that leaves it writes it into no log. No check: validating one would
-- read every flow. The version before ignores it.
alter table sluice.flow add column title text;
