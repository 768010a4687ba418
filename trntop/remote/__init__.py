"""Wire format, remote node, cluster summary, node names."""
