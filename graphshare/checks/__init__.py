"""Rules that find faults in graphs and parameter files."""
