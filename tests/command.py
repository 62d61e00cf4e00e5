"""The command as its script starts it: its messages have its name, and not the paths of this machine."""

import sys

del sys.path[0]  # the folder of this file: a script that is installed lies beside no modules
from graphshare.__main__ import main  # noqa: E402

main()
