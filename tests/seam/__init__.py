"""One answer whatever the format and the spelling of a model: commands and the public API alone, no
module behind them.
"""
