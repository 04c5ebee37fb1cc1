-- The trace that a flow was started in (src/trace/README.md): a traceparent, and behind a space the
-- tracestate; 568 characters at most. NULL: none. The version before ignores it, and its nodes
-- export nothing. No check: validating one would read every flow.
alter table sluice.flow_doc add column trace text;
