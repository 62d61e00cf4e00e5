"""Pictures of graphs: what is drawn (:mod:`graphshare.pictures.picture`), and how it is written down, a module a language."""
