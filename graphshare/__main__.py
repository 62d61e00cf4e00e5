"""``python -m graphshare``."""

from graphshare.cli.edge import main

if __name__ == "__main__":
    main()
