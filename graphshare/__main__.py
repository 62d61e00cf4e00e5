"""``python -m graphshare``."""

from graphshare.cli.main import main

if __name__ == "__main__":
    main()
