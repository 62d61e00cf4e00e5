"""Pictures of graphs: what is drawn (:mod:`graphshare.draw.picture`), and how it is written down, a module a language."""
