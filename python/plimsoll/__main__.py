"""`python -m plimsoll` is the command `plimsoll`, for an environment whose folder of commands is not on the PATH."""
import sys

from plimsoll.launcher import main

sys.exit(main())
