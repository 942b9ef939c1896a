"""An agent that is spawned and talked to, turn after turn."""
