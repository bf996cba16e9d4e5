"""Recovery: the six moves for one lineage under one lease (DESIGN 8)."""
