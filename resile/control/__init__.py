"""The decisions, as pure functions from (spec, observed, now) to actions and a status."""
