"""Layered layout of pictures: levels of scopes, layers and their order, coordinates."""
