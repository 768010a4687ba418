"""Envelope, reader, writer, black box."""
