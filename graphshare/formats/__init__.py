"""Files: symbol JSON of every generation, parameter files, and writing them whole or not at all."""
