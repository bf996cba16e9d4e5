"""The pure core: records, cut, outcome, decision. No I/O, no clock, no chance."""
