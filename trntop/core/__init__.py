"""Model, settings, units, text, errors, instance types."""
