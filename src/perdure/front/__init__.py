"""The faces of the engine: what people type, and what they see."""
