"""The durable engine: sessions are append-only lists of entries; everything else is a fold of them."""
