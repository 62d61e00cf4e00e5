"""Find faults in graphs and parameter files."""
