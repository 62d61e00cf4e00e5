"""Model in, model out: every rewrite of a graph, its plan and its transform."""
