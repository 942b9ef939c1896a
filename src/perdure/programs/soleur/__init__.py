"""A sparring partner for a founder. It asks hard questions, and records what was decided."""
