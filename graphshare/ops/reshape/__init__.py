"""Family ``reshape``."""
