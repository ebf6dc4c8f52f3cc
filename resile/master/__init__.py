"""One per job: the place where its agents agree."""
