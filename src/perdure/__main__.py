"""`python -m perdure`: the same program as `perdure`, for when its script is not on the PATH."""

import os
import sys

# Python looks for modules in the directory it was started in before it looks where they are installed. Who
# put a json.py there would run before anybody had said yes to anything. What Python itself has loaded by now
# it may have loaded from there: only `python -P -m perdure`, or `perdure`, never looks.
try:
    if sys.path and os.path.realpath(sys.path[0] or os.curdir) == os.path.realpath(os.curdir):
        del sys.path[0]
except OSError:
    pass  # the directory is gone, and nobody can have put anything there

from perdure.programs.pi import main

sys.exit(main())
