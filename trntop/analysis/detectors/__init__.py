"""The detectors: one file per subject, one class per rule."""
