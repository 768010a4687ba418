"""What trntop shows to machines and to pipes: metrics pages, JSON, text."""
