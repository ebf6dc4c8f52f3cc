"""Jobs of a cluster seen from outside it: through its API server alone, as from a laptop."""
