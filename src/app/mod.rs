//! Wires every floor; the only place that knows them all.
