"""`python -m perdure`: the same program as `perdure`, for when its script is not on the PATH."""

import sys

from perdure.programs.pi import main

sys.exit(main())
