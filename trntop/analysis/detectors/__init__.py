"""What is looked for: one file per subject, one class per rule."""
